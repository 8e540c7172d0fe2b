package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// ErrClosed is the cause of every refusal by a pool that drains or is closed.
var ErrClosed = errors.New("connection pool is closed")

// Causes that have no other error: under [Wait] and [Full].
var (
	ErrMaxWait = errors.New("waited too long")  // MaxWait is over
	ErrFull    = errors.New("too many waiting") // MaxWaiters are waiting already
)

// ErrKind says what a request was doing when it failed.
type ErrKind uint8

const (
	Wait   ErrKind = iota + 1 // waiting for a connection: context ended, or MaxWait over
	Full                      // refused at once: MaxWaiters are waiting already
	Dial                      // the dial it waited for failed
	Closed                    // the pool drains or is closed
	Send                      // on the connection
)

// Error is a request that got no response. Every error of RoundTrip is one, but for those of [Want.OnConn].
//
//	e, ok := errors.AsType[*pool.Error](err)
//	switch {
//	case ok && e.NeverSent: // nobody saw it: any method may be sent again
//	case ok && e.Refused:   // the server said that it did not process it
//	case ok && e.Kind == pool.Wait: // all connections busy
//	}
type Error struct {
	Kind ErrKind
	Step StepName // with Dial: the step that failed
	Host string   // Config.Host

	Open, Busy, Dialing int           // connections of the endpoint at that moment
	DialStep            string        // with Wait: how far the dial made for it was, such as "dns"; "" = there was none
	NoPort              bool          // with Wait: there was no port for another dial; Err holds a *ports.Error
	Waited              time.Duration // for a connection, dials of its own included, all sends together

	NeverSent bool  // not one byte of the request has left
	Reused    bool  // the connection had carried a request before
	Written   int64 // bytes of the request written
	Sends     int
	Conn      uint64
	Remote    netip.AddrPort
	Refused   bool // HTTP/2: stream refused, or above the last one a GOAWAY named: not processed
	GoAway    bool // HTTP/2: the connection ended by GOAWAY
	Answered  bool // something came back, though no response

	Err error
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the cause is a timeout, for net.Error and url.Error.
func (e *Error) Timeout() bool {
	if errors.Is(e.Err, ErrMaxWait) {
		return true
	}
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return ok && t.Timeout()
}

// Temporary completes net.Error.
func (e *Error) Temporary() bool { return e.Timeout() }

func (e *Error) Error() string {
	var b strings.Builder
	switch e.Kind {
	case Dial:
		fmt.Fprintf(&b, "connecting to %s (%s)", e.Host, e.Step)
	case Send:
		fmt.Fprintf(&b, "sending to %s", e.Host)
		switch {
		case e.NeverSent:
			b.WriteString(" (nothing was written)")
		case e.Refused:
			b.WriteString(" (not processed)")
		case e.Written > 0:
			fmt.Fprintf(&b, " (%d bytes written, the request may have been processed)", e.Written)
		}
	default:
		fmt.Fprintf(&b, "waiting for a connection to %s (%d open, %d busy, %d dialing", e.Host, e.Open, e.Busy, e.Dialing)
		if e.DialStep != "" {
			fmt.Fprintf(&b, ", at %s", e.DialStep)
		}
		b.WriteByte(')')
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}
