package client

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Policy says how the calls to one upstream are protected. Each part is off when nil, with one exception: connections
// are always pooled, and a nil Conns means the defaults. In a part that is given, a zero field is the default that its
// comment names. Parts stand in the order in which a call meets them.
//
// A Policy is copied by [New] and [Client.Reload]; changing it afterwards has no effect.
type Policy struct {
	Timeout *Timeout // nil: the caller's context is the only limit
	Limit   *Limit   // nil: any number of calls at a time
	Retry   *Retry   // nil: each call is one attempt
	Hedge   *Hedge   // nil: a slow attempt is waited for
	Breaker *Breaker // nil: an endpoint that fails is asked all the same
	Eject   *Eject   // nil: an endpoint that fails keeps its share
	Balance *Balance // nil: the bases in the order listed, each one endpoint whose name is resolved anew for each connection
	Budget  Budget   // what retries and hedges may cost; it is never off
	Conns   *Conns   // nil: the defaults of Conns
}

// Timeout bounds the time of a call. Zero fields are the defaults; −1 is no limit.
type Timeout struct {
	// Total bounds the call, from RoundTrip to the end of the body. Default 15 s. A caller's earlier deadline wins. For
	// downloads and streams set −1 and keep Progress.
	Total time.Duration

	// Attempt bounds one attempt, from the choice of its endpoint to the response's headers: connection, signing and
	// upload. Default 5 s, or Total where that is shorter. A later deadline of the caller does not switch it off.
	Attempt time.Duration

	// Progress bounds one blocking Read of the body. Default 5 s, or Total where that is shorter. The time between reads is
	// the caller's own and does not count.
	Progress time.Duration

	// DeadlineHeader, if not empty, names a header that tells the upstream how much time an attempt has left when its
	// connection is in hand: "grpc-timeout" in its own format, any other in whole milliseconds, rounded down. It is the
	// client's: a value on the request is dropped, and it is not signed. It is not sent without a deadline, nor to unlisted
	// hosts; an attempt with less than 1 ms left is not sent at all.
	DeadlineHeader string
}

// Limit bounds the calls that run at a time. A slot is held from before the first attempt to the end of the body; retries need
// none of their own. When all slots are taken, a call waits in a bounded queue, first come first served, and is refused with
// [ErrOverflow] when that is full or its wait is over. Zero fields are the defaults.
type Limit struct {
	Max       int           // calls holding a slot. Default 256
	Queue     int           // calls that may wait; one more is refused at once. Default 64; −1 is none
	QueueWait time.Duration // longest wait, and never beyond the call's deadline. Default 1 s
	Adaptive  *Adaptive     // nil: the limit is Max
	Shadow    bool          // refuse nothing, and list in Report.Shadow what would have been refused
}

// Adaptive moves a limit by the time that the upstream takes to the headers: down while more calls only make it slower, up
// while they do not. It is worth having only where this client is most of the upstream's load, since one of many learns what
// the others do. Zero fields are the defaults.
//
// A slowdown that comes slowly and stays below MaxHealthy is learnt as normal.
type Adaptive struct {
	Min, Init  int           // lowest limit, and the first. Default 8 and 20
	Max        int           // highest. Default Limit.Max
	MaxHealthy time.Duration // a time to headers above this is never normal. Default half of Timeout.Attempt; required without one
}

// Breaker keeps calls from an endpoint that fails: after so many failures in a row, or when so large a share of its attempts
// failed, nothing is sent there for a while; then a few probes decide. There is one per endpoint. What counts as a failure is
// the second column of client.Reason's table: a 5xx other than 501 and 505, a lost connection, a dial that failed, an attempt
// that ran out of time; never what the caller did. Zero fields are the defaults.
type Breaker struct {
	Consecutive int           // failures in a row that open it. Default 10; −1 is no such rule
	Ratio       float64       // share of failures that opens it. Default 0.5
	Volume      int           // attempts within Window below which Ratio says nothing. Default 20
	Window      time.Duration // over which Ratio is taken; at least twice Timeout.Attempt. Default 10 s
	Open        time.Duration // how long it stays open, give or take a fifth. Default 5 s
	Probes      int           // attempts admitted to find out whether it may close. Default 2
	Shadow      bool          // keep nothing from the endpoint, and list in Report.Shadow what would have been
}

// Retry makes further attempts when one brings no acceptable answer, as long as they are safe, fit the deadline and are within
// the [Budget]. Zero fields are the defaults.
//
// An attempt that was never sent may be made again with any method. One that the server may have seen is repeated only if
// it is idempotent: by its method (RFC 9110, 9.2.2), by an Idempotency-Key or X-Idempotency-Key header, or because
// [CallOptions] say so. A request whose body was read and cannot be had again is not repeated: set GetBody, as
// [http.NewRequest] does for bodies in memory.
//
// When no attempt is acceptable, the caller gets the last real response, not an error about retrying.
type Retry struct {
	Attempts int           // attempts per call, the first included, 2 to 10. Default 3
	Base     time.Duration // the n-th wait is drawn between 0 and Base doubled n−1 times. Default 25 ms
	Cap      time.Duration // but at most this. Default 250 ms

	// MaxRetryAfter is the longest Retry-After, of a 429 or 503, that is waited for. A longer one ends the call with that
	// response. Default 5 s.
	MaxRetryAfter time.Duration

	Statuses   []int // statuses worth repeating. Nil: 408, 429, 502, 503, 504
	BufferBody int64 // largest body that is read into memory to be sent again, where GetBody is missing. Default 64 KiB; −1 is none

	// IdempotencyHeader, if not empty, is the header in which POST and PATCH requests get a random key, the same for all
	// attempts of a call, unless they carry one. The server must know it: such requests count as idempotent.
	IdempotencyHeader string
}

// Hedge makes a second attempt, at another endpoint, when the first has brought no headers for a while; the first acceptable
// answer wins. Only calls that are idempotent and can be sent again are hedged. Zero fields are the defaults.
type Hedge struct {
	ExtraLoad float64       // hedges per call, at most. Default 0.05
	Delay     time.Duration // when the second attempt is made. Zero: when only ExtraLoad of all attempts take that long, as measured
	Min       time.Duration // earliest time for it where it is measured. Default 10 ms
	Shadow    bool          // send nothing, and list in Report.Shadow when a second attempt would have been made
}

// Budget bounds what retries add to an upstream's load: a share of the calls, over a window, and a few per second besides, so
// that it works at one call a second too. One budget serves all calls to an upstream. Zero fields are the defaults.
type Budget struct {
	Percent   float64       // retries per hundred calls. Default 20
	PerSecond float64       // retries granted besides. Default 10; −1 is none
	Window    time.Duration // how long a call counts. Default 10 s
}

// Conns describes the connection pool of each endpoint. Zero fields are the defaults; −1 is "none" where the comment
// says so.
type Conns struct {
	MaxConns   int // connections open or being made, per endpoint. Default 256
	MaxIdle    int // idle connections kept, per endpoint. Default MaxConns
	MinIdle    int // idle connections kept ready while the endpoint was used in the last 5 minutes. Default 0
	MaxStreams int // HTTP/2 streams per connection; the server's limit if that is lower. Default 100
	MaxWaiters int // callers that may wait for a connection, per endpoint; one more is refused at once. Default 1,024
	DialLimit  int // dials at a time, per endpoint. Default 8

	MaxWait     time.Duration // longest wait for a connection. Default 5 s; −1 is no limit
	DialTimeout time.Duration // longest time for one dial with its TLS handshake. Default 5 s, 10 s through a proxy
	IdleTimeout time.Duration // longest time a connection is kept idle; less if the server says so. Default 30 s
	MaxAge      time.Duration // age at which a connection is replaced, give or take 10 %. Default 5 min; −1 is no limit

	DrainBytes int64         // bytes that Close may read of an unread body to save the connection. Default 64 KiB; −1 is none
	DrainTime  time.Duration // time that Close may spend on that. Default 50 ms

	PingAfter   time.Duration // HTTP/2: silence after which the peer is pinged. Default 15 s; −1 is never
	PingTimeout time.Duration // HTTP/2: time for the answer. Default 5 s
	UserTimeout time.Duration // Linux: TCP_USER_TIMEOUT, longest time that sent data may stay unacknowledged. Default 30 s; −1 is the kernel's own

	Protocol Protocol    // default Auto
	Ports    *Ports      // nil: what this system allows, on Linux; elsewhere ports are counted and not limited
	TLS      *tls.Config // cloned; nil is Go's default. ServerName is taken from the base, or from Upstream.ServerName
}

// Protocol says which versions of HTTP an endpoint may be spoken to.
type Protocol uint8

const (
	Auto  Protocol = iota // HTTP/2 or HTTP/1.1 over TLS, as the server chooses; HTTP/1.1 without
	HTTP1                 // HTTP/1.1 only
	H2C                   // HTTP/2 without TLS, known beforehand; only for http bases
)

const none = -1 // in a field of a policy: no limit

// orDefault returns value, or def where value is zero.
func orDefault[T comparable](value, def T) T {
	var zero T
	if value == zero {
		return def
	}
	return value
}

// withDefaults returns the limits in force: none is 0 here, so that "is there a limit" is a plain comparison.
func (t *Timeout) withDefaults() Timeout {
	if t == nil {
		return Timeout{}
	}
	total := max(orDefault(t.Total, 15*time.Second), 0)
	part := 5 * time.Second
	if total > 0 {
		part = min(part, total)
	}
	return Timeout{DeadlineHeader: http.CanonicalHeaderKey(t.DeadlineHeader), Total: total, Attempt: max(orDefault(t.Attempt, part), 0), Progress: max(orDefault(t.Progress, part), 0)}
}
