package sortietest

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Step is what an [Upstream] does with one request. Steps are made by the functions [OK], [Status], [Endless],
// [Hang], [Reset], [Hangup], [Abort] and [Handle], and refined by methods, each of which returns a changed copy, so
// that they chain: Status(429).With("Retry-After", "1").After(time.Second).
//
// The zero Step answers 200 without a body. A Step may be shared by several upstreams and goroutines.
//
// Before it does anything else, a Step reads the whole request body, unless [Step.Unread] says no.
type Step struct {
	status  int
	header  http.Header
	body    string
	endless bool
	unread  bool
	last    bool // on its connection
	delay   time.Duration

	fault   fault
	inBody  bool // the fault comes after faultAt bytes of the body, not before the headers
	faultAt int

	stall   time.Duration
	stallAt int

	drip      int
	dripPause time.Duration

	handler http.Handler
}

// fault is what goes wrong with an answer.
type fault int

const (
	none fault = iota
	hang
	reset
	hangup
	abort
)

// OK answers 200 with body.
func OK(body string) Step { return Step{body: body} }

// Status answers code, from 200 to 599, with an empty body.
func Status(code int) Step { return Step{status: code} }

// Endless answers 200 with a body that goes on until the client or the upstream closes.
func Endless() Step { return Step{endless: true} }

// Hang never answers. It ends when the client goes away or the upstream is closed.
func Hang() Step { return Step{fault: hang} }

// Reset resets the TCP connection without an answer: the client sees ECONNRESET. On HTTP/2 this fails all streams of
// the connection.
func Reset() Step { return Step{fault: reset} }

// Hangup closes the connection without an answer, as a server does that restarts: the client sees [io.EOF]. As the
// second step of a script it is the keep-alive race: the connection was idle, and is closed in the moment the next
// request comes. On HTTP/2 this fails all streams of the connection, with [io.ErrUnexpectedEOF].
func Hangup() Step { return Step{fault: hangup} }

// Abort gives up this request alone: on HTTP/2 its stream is reset with INTERNAL_ERROR and the connection lives on.
// On HTTP/1, which cannot do that, it is [Hangup].
func Abort() Step { return Step{fault: abort} }

// Handle leaves the request to h, for what the other steps cannot do. h reads the request body itself; what it reads
// is recorded. h must return when the request's context ends, which it does when the upstream is closed. A panic in it
// fails the test. Of the methods of Step only After has an effect.
func Handle(h http.Handler) Step { return Step{handler: h} }

// With adds a header to the answer: With("Retry-After", "1"), With("Keep-Alive", "timeout=5").
func (s Step) With(key, value string) Step {
	s.header = maps.Clone(s.header)
	if s.header == nil {
		s.header = make(http.Header)
	}
	key = http.CanonicalHeaderKey(key)
	s.header[key] = append(slices.Clip(s.header[key]), value)
	return s
}

// Body sets the body of the answer: Status(500).Body("db down").
func (s Step) Body(body string) Step {
	s.body = body
	return s
}

// After waits for d, once the request has been read, before anything else happens.
func (s Step) After(d time.Duration) Step {
	s.delay = d
	return s
}

// Unread does not read the request body: the answer, or the fault, comes while the client may still be sending. A
// client on HTTP/1 that goes away is then not noticed before the upstream writes.
func (s Step) Unread() Step {
	s.unread = true
	return s
}

// ThenClose says "Connection: close" with the answer and closes the connection after it. On HTTP/2 it sends GOAWAY.
func (s Step) ThenClose() Step {
	s.last = true
	return s
}

// Stall stops for d after n bytes of the body, and then goes on.
func (s Step) Stall(n int, d time.Duration) Step {
	s.stallAt, s.stall = max(n, 0), d
	return s
}

// Drip sends the body in pieces of n bytes, one every pause. With [Endless] it goes on for ever.
func (s Step) Drip(n int, pause time.Duration) Step {
	s.drip, s.dripPause = max(n, 1), pause
	return s
}

// HangAt sends the headers and n bytes of the body, and then nothing more, as [Hang] does.
//
// Like the other At methods it announces a longer body than it sends. If the body has no more than n bytes, all of it
// is sent, and the Content-Length is n+1.
func (s Step) HangAt(n int) Step { return s.failAt(n, hang) }

// ResetAt sends the headers and n bytes of the body, and then resets the TCP connection, as [Reset] does. Linux gives
// the client those bytes first; other systems may drop them.
func (s Step) ResetAt(n int) Step { return s.failAt(n, reset) }

// HangupAt sends the headers and n bytes of the body, and then closes the connection, as [Hangup] does: the client
// sees [io.ErrUnexpectedEOF].
func (s Step) HangupAt(n int) Step { return s.failAt(n, hangup) }

// AbortAt sends the headers and n bytes of the body, and then gives up the request, as [Abort] does.
func (s Step) AbortAt(n int) Step { return s.failAt(n, abort) }

func (s Step) failAt(n int, f fault) Step {
	s.fault, s.inBody, s.faultAt = f, true, max(n, 0)
	return s
}
