package pool

import (
	"context"
	"sync/atomic"
	"time"
)

// A quietContext gives net/http the values of a request's context, but not its end. Over HTTP/1 a request that is given up costs
// its connection anyhow, so closing the socket says it as well, and it spares every request that is not given up a
// registration in its context: 350 bytes, and the locks around it.
type quietContext struct{ ctx context.Context }

func (q *quietContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (q *quietContext) Done() <-chan struct{}       { return nil }
func (q *quietContext) Err() error                  { return nil }
func (q *quietContext) Value(key any) any           { return q.ctx.Value(key) }

// ctx is the context of the request as the caller made it.
func (s *send) ctx() context.Context { return s.quiet.ctx }

// A line is the socket that carries a request whose end net/http does not hear of otherwise.
type line struct {
	raw      atomic.Pointer[netConn] // nil while occupied: it was closed to end the request
	occupied bool                    // known to the request's own goroutine
	unwatch  func()                  // undoes what begin has done to hear of the context's end; nil: nothing
}

// Cut gives up a request on the wire whose context has ended. It may be called at any time, by any goroutine: before the
// request is on the wire, and after its end, it does nothing.
func (x *Exchange) Cut() { x.send.line.cut() }

func (l *line) cut() {
	if raw := l.raw.Swap(nil); raw != nil {
		raw.Close()
	}
}

// wasCut reports whether the request on the line was given up.
func (l *line) wasCut() bool { return l.occupied && l.raw.Load() == nil }

// free takes the request off the line, and reports whether it was given up.
func (l *line) free() (cut bool) {
	if l.unwatch != nil {
		l.unwatch()
		l.unwatch = nil
	}
	cut = l.raw.Swap(nil) == nil && l.occupied
	l.occupied = false
	return cut
}

// occupy puts the request on the line. Who cuts has ended the context before, so either sees the other.
func (s *send) occupy(c *conn) {
	s.line.occupied = true
	s.line.raw.Store(c.raw)
	if s.ctx().Err() != nil {
		s.line.cut()
	} else if !s.want.OwnContext && s.ctx().Done() != nil {
		stop := context.AfterFunc(s.ctx(), s.line.cut)
		s.line.unwatch = func() { stop() }
	}
}
