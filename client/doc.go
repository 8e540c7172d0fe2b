// Package client sends a service's outbound HTTP calls: to the right place, over connections it keeps itself, within
// limits, and able to say afterwards where the time went.
//
// # Order of use
//
// Name the upstreams once, in a [Config], and make a [Client] with [New]. The Client is an [net/http.RoundTripper]: put
// it under an [net/http.Client] ([Client.HTTP] returns one), an SDK or a reverse proxy, or call [Client.Do] yourself. Code
// that makes requests stays plain: it uses the logical URL, and the Client decides where the call really goes.
//
// An [Upstream] is a logical destination. It is known by its Hosts, which are matched against the request's URL, and it
// lives at base URLs: Internal ones, on the private side, and External ones. Where the process runs decides the side
// (see [Side]); so the same code reaches a private address inside a cluster and the public one on a developer's machine.
// A host that no upstream lists is called as it stands, under Config.Unlisted, or refused under Config.Strict.
//
// A [Policy] says how calls to an upstream are protected: [Timeout], [Limit], [Retry] with its [Budget], [Hedge], [Breaker],
// [Eject], [Balance] and [Conns]. Each is off when nil, but for connections, which are always pooled. [Standard] is the
// recommended one.
//
// [Client.Reload] changes the configuration of a Client at work. Calls, connections and what was learnt of endpoints survive it.
//
// The response's body must be read to its end or closed, as with net/http. Until then the call is open: its time limits
// run, and [Client.Shutdown] waits for it.
//
// # Ports
//
// Local ports are counted per destination, so that neither the kernel nor a NAT runs out of them in silence: see [Ports]. A call for
// which there is none in time fails with [ErrPortBudget] and a [*PortError] that says when there will be.
//
// # What a call tells
//
// [ReportOf] returns the call's [Report]: the attempts, the endpoint and the connection used, the [Reason], and the time
// account, in which every moment of the call belongs to exactly one [github.com/sortie-go/sortie/metrics.Phase].
// Config.OnCall receives the final report of each call. A failure is an [*Error] which carries a Reason and the Report;
// [NeverSent], [Refused], [IsTimeout] and [IsCanceled] answer the questions that callers ask of it.
//
// # Limits
//
// Redirects and cookies are the business of [net/http.Client]; [Client.Do] follows none. Requests with URL.Opaque cannot
// be rewritten to a base. Nothing here speaks HTTP/3.
//
// # Cost
//
// On loopback a call costs no more allocations than with a bare [net/http.Client], the standard policy included; a test holds
// it to that. A plain call starts no goroutine; connections have those of net/http, and a call that may be hedged has two.
package client
