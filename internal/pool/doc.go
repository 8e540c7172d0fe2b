// Package pool keeps the connections of one endpoint: it opens, hands out, takes back and closes them, and knows of each
// why. A connection itself, with its TLS and its protocol, is net/http's: an [http.ClientConn].
//
// # Use
//
//	group := pool.NewGroup(pool.GroupConfig{})             // one per client
//	transport := pool.NewTransport(pool.TransportConfig{}) // one per upstream and TLS identity
//	p := group.New(pool.Config{Transport: transport, Scheme: "https", Host: "api.shop.example:443", Dial: d.DialContext})
//	resp, info, err := p.RoundTrip(req, pool.Want{Idempotent: true})
//
// [Pool.Drain] ends a pool in peace, [Pool.Close] at once, [Group.Close] all of them.
//
// # The life of a connection
//
//	                 nobody waits
//	dialing ─────────────────────────────▶ idle ◀──────┐
//	   │  │                                │  │        │ check-in, nobody waits
//	   │  │ somebody waits       check-out │  │ limit, │
//	   │  └───────────────▶ active ◀───────┘  │ loss   │
//	   │                     │  │  └──────────┼────────┘
//	   │ failed              │  │ its time    │
//	   ▼                     │  ▼ came        ▼
//	 error        last end,  │ retiring ───▶ closed, with a [Reason]
//	              lost       └──────────────▶
//
// Active is taken: by one request on HTTP/1, by one or more streams on HTTP/2, which stays in reach of others while it has
// room. Retiring takes no more requests. A connection is closed once, and counted closed then; closing its socket, which
// over TLS can last, has a goroutine of its own.
//
// # Who decides what
//
//	pool                                            net/http
//	when to dial, how many at a time, for whom      how: proxy, TLS, ALPN, preface
//	which connection a request gets, and the line   -
//	limits of idle time, age, number; streams       HTTP/2 flow control, the server's stream limit
//	whether a failed request goes out again         that it failed
//	what is read of an unread body                  where it ends
//	why a connection was closed                     that it cannot be used
//	when a peer is suspect                          pings
//	what to do when a dial has no port              -
//
// So every limit of [http.Transport] stays zero. MaxConnsPerHost must: with it, closing a ClientConn panics (Go 1.26).
// IdleConnTimeout would close behind the pool's back.
//
// # What is sent again
//
// Once, on another connection that is new or was used within the last second, and never after a byte of an answer or the end
// of the context:
//
//	the connection was gone before it was used       always; no send
//	reused connection, nothing was written           any method; body absent, unread or from GetBody
//	HTTP/2: refused, or above the last of a GOAWAY   the same
//	reused, written, and the peer left               only if Want.Idempotent
//	anything else                                    the client decides: the error says what was sent
//
// What was written is counted on the socket, since net/http's errors do not tell.
//
// # Locks
//
// One mutex per pool; below it, as leaves, those of the Group, of the event queue and of a dial's times. Functions that run
// under it end in Locked. Nothing that can wait or call back runs under it: no method of a ClientConn, which can run the
// state hook on the same goroutine (golang/go#80680), no body, dial, listener or callback. In the other direction net/http
// closes sockets with its own locks held, so what the sockets and the state hook call only notes and wakes. The ledger of ports is
// asked by Config.Dial, and told by the socket when it is closed, both outside; under the lock only its atomics are read.
//
// # Cost
//
// A request over HTTP/1 costs 33 allocations with [Want.OwnContext], its copy and its Exchange included, its body read to the end; http.Transport
// needs 38 or 39. An endpoint without connections holds 1.2 KiB, an idle HTTP/1 connection 18 KiB, nearly all of it net/http's
// buffers and goroutines (BenchmarkLoopback, BenchmarkMemory; Go 1.26.8 on linux/amd64).
//
// # Files
//
//	pool.go       the lock: check-out, check-in, hand-over, close       send.go     one request, from end to end
//	acquire.go    the line of those who wait                            resend.go   what a failure means
//	gate.go       when to dial; results of dials                        body.go     response bodies: check-in, bounded drain
//	dial.go       a dial and its steps                                  reqbody.go  request bodies
//	follow.go     addresses that DNS lists no more                      cut.go      how HTTP/1 hears of a request's end
//	warm.go       dials for nobody: Prewarm, MinIdle, replacements      conn.go     a connection and its end
//	idle.go       the idle limit in force                               netconn.go  the socket under it
//	sweep.go      the timer                                             transport.go  what net/http is given
//	drain.go      Drain, Close                                          group.go    bounds across endpoints
//	ports.go      dials for which there is no port
//
// # Not obvious
//
//   - HTTP/1 needs no state hook and no reservation: the socket tells when it is closed, and a connection taken under the
//     lock is nobody else's.
//   - Until an HTTP/2 server has told its stream limit, its connection gets as many streams as an earlier one was allowed, or
//     one. net/http assumes 100; when more are reserved than SETTINGS then allow, those that have not begun wait for each
//     other for ever (Go 1.26).
//   - Everything about time is decided at check-out and check-in. The sweeper only cleans up, so no timer races a request.
//   - A dial that the ledger of ports refuses is no failure of the endpoint. The gate stays shut until a port may be free; those in
//     line wait for that or for a connection to come back, and are refused at once if neither can be in time.
//   - A request that was given up closes its HTTP/1 connection; on HTTP/2 it resets its stream.
package pool
