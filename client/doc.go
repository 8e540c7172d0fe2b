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
// The response's body must be read to its end or closed, as with net/http. Until then the call is open: its time limits
// run, and [Client.Shutdown] waits for it.
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
// With all policies off a call costs fewer allocations than a bare [net/http.Client]: `go test -bench . ./bench` prints
// both, side by side. A Client starts no goroutine of its own; its connections have those of net/http.
package client
