// Package sortietest rehearses what goes wrong between a client and the servers it calls: servers that refuse, hang,
// stall, reset, answer slowly or never stop, and networks that are far away or silent. It knows no client; use it with
// this module's, with a plain [net/http.Client], or with anything that speaks HTTP over TCP.
//
// # An upstream and its script
//
// An [Upstream] is a scripted HTTP server. The first request to arrive gets the first [Step], the second the second,
// and the last step repeats:
//
//	up := sortietest.NewUpstream(t,
//		sortietest.Status(503).With("Retry-After", "1"),
//		sortietest.OK("hello").After(20*time.Millisecond))
//	resp, err := client.Get(up.URL() + "/items/7")
//
// It is closed when the test ends. A script that depends on the request, rather than on its number, is the function
// [Upstream.Respond]. [Upstream.Play] replaces the script under way.
//
//   - [OK], [Status] and [Endless] answer. [Step.Body], [Step.With], [Step.After], [Step.Stall], [Step.Drip],
//     [Step.ThenClose] and [Step.Unread] say how.
//   - [Hang], [Reset], [Hangup] and [Abort] do not answer.
//   - [Step.HangAt], [Step.ResetAt], [Step.HangupAt] and [Step.AbortAt] break off an answer in its body.
//   - [Handle] does whatever an http.Handler can.
//
// Some faults hit a connection before there is a request, and so are methods of the upstream, to be called when the
// test says so: [Upstream.Refuse] and [Upstream.BlackHole] last until [Upstream.Restore]; [Upstream.ResetConns] and
// [Upstream.CloseIdle] act once. TLS, HTTP/2 and limits on connections are fields of Upstream; [ClientTLS] is what a
// client needs to trust it.
//
// # What a client sees
//
// The errors are what package net and net/http give, so that [errors.Is] finds the cause:
//
//   - Refuse: [syscall.ECONNREFUSED]. BlackHole: a timeout, once the client's own limits end the wait.
//   - Reset, ResetAt and ResetConns: [syscall.ECONNRESET].
//   - Hangup: [io.EOF], on HTTP/2 [io.ErrUnexpectedEOF]. HangupAt: io.ErrUnexpectedEOF.
//   - Abort and AbortAt: on HTTP/2 a stream error of code INTERNAL_ERROR, else as Hangup and HangupAt.
//   - Hang, HangAt, Stall: a timeout, or nothing, where the client sets no limit.
//
// One thing surprises at first: when a connection that was used before breaks, net/http sends a GET once more without
// telling. A second request in the counts is then no mistake of the upstream, and a lone [Reset] in a script may go by
// unseen. Use a POST, a new client, or a script whose last step fails.
//
// # What the upstream saw
//
// [Upstream.Stats] counts requests, connections and bytes, [Upstream.Requests] shows the requests themselves, and
// [Upstream.Await] waits for either to happen, so that no test needs to sleep.
//
// # Sockets or memory
//
// [NewUpstream] listens on the loopback interface. For tests about time use a [Network] instead: it lives in memory,
// gives upstreams the addresses you choose, and works in a [testing/synctest] bubble, where an hour of waiting takes no
// time at all:
//
//	synctest.Test(t, func(t *testing.T) {
//		n := sortietest.NewNetwork()
//		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Hang())
//		client := &http.Client{Transport: &http.Transport{DialContext: n.DialContext}, Timeout: time.Hour}
//		_, err := client.Get(up.URL()) // a timeout, at once
//	})
//
// Distance is [Network.SetRTT] there. On sockets it is [Delay], a proxy that holds back what passes.
//
// A gateway that runs out of ports, and then says nothing, is [NAT].
//
// # DNS
//
// [DNS] is a scripted DNS server, with TTLs, failures and silence, on sockets and in memory.
//
// # Credentials
//
// [Metadata] emulates the services that hand out AWS credentials, with the faults they are known for. [CheckSigV4] checks
// a signature as a server does; [CheckSigner] and [CheckSource] are suites for those who write signers and sources.
//
// # Limits
//
// An upstream remembers its last 1,000 requests with 64 KiB of each body, and counts on. Upstreams are for tests and
// demonstrations: they read request bodies of any length, and believe whoever connects. The package does not import
// package testing: see [TB].
package sortietest
