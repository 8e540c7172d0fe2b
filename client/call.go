package client

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
	"github.com/sortie-go/sortie/metrics"
)

// A call is what the caller asked for, on its way down the pipeline and back. It is one allocation: the first attempt,
// the wrapper of the body and the requests made from the caller's lie inside it, since most calls need no other. It lives
// as long as its response, so its size counts: what few calls need is in extras, and times are kept as what has passed since
// the start, which is a third of a time.Time and half the price to read.
type call struct {
	client *Client
	up     *upstream     // nil until route has found it
	req    *http.Request // the caller's: only ever read
	opts   *CallOptions  // nil: none
	start  time.Time
	extra  atomic.Pointer[extras]
	meter  *meter // nil: nothing is measured

	logical http.Request // what resp.Request shows: the caller's, under a context that knows the call
	body    responseBody
	first   attempt

	prev, next *call // in the upstream's list of open calls, while entered; guarded by openCalls.mu

	mu       sync.Mutex // the caller, a second reader or closer, the timer and ReportOf may meet
	watch    stopwatch
	limits   limits
	attempts []*attempt // in order; the last one is the one that runs
	inline   [1]*attempt
	slot     *limit.Limit // held; nil: none
	unwatch  func() bool  // the caller's context; nil: not watched
	answer   *attempt     // whose response the caller has; nil before
	failure  *Error       // what ended the call, for readers that come later
	received int64        // bytes of the body
	endedAt  time.Duration
	status   int32
	moves    uint8
	side     Side
	kind     Kind // of the next attempt
	reason   Reason

	entered          bool // in the list of open calls; guarded by openCalls.mu
	resigned         bool // an attempt was made with a new signature
	panicked         bool // an endpoint was picked in panic
	hedged, hedgeWon bool
	reading          bool // inside Read
	delivered        bool // the response is the caller's, and c.body with it
	ended            bool
	unclosed         bool
}

// extras are what few calls need.
type extras struct {
	keyHeader, key string // an idempotency key of ours
	buffered       []byte // the request's body, read ahead to be sent again

	preparing  sync.Once // by the signer
	prepared   context.Context
	prepareErr error

	waited time.Duration // before the next attempt; known to the call's goroutine

	notes
}

// notes are what few calls have to say. Guarded by call.mu.
type notes struct {
	ending      error                   // what will end the call: the total time, or the client's end
	wake        context.CancelCauseFunc // ends a wait; nil outside one
	queued      time.Duration           // in the limit's queue
	queueLength int                     // on entry
	stopped     Stopped
	shadow      []string // what policies in shadow mode would have done
}

// extras returns the call's, made at the first need. Whoever only looks uses notedLocked.
func (c *call) extras() *extras {
	if c.extra.Load() == nil {
		c.extra.CompareAndSwap(nil, new(extras))
	}
	return c.extra.Load()
}

// buffered is the request's body, where it was read ahead to be sent again; nil where it was not.
func (c *call) buffered() []byte {
	if x := c.extra.Load(); x != nil {
		return x.buffered
	}
	return nil
}

// waited is how long the next attempt has been waited for.
func (c *call) waited() time.Duration {
	if x := c.extra.Load(); x != nil {
		return x.waited
	}
	return 0
}

// notedLocked is what there is of notes.
func (c *call) notedLocked() (n notes) {
	if x := c.extra.Load(); x != nil {
		n = x.notes
	}
	return n
}

// nextIs says what the next attempt is, and how long it was waited for.
func (c *call) nextIs(kind Kind, wait time.Duration) {
	c.kind = kind
	if wait != c.waited() {
		c.extras().waited = wait
	}
}

// stoppedBy notes why there is no further attempt; "" takes it back.
func (c *call) stoppedBy(why Stopped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why != c.notedLocked().stopped {
		c.extras().stopped = why
	}
}

// options are those of the call's context.
func (c *call) options() CallOptions {
	if c.opts == nil {
		return CallOptions{}
	}
	return *c.opts
}

// now is the time since the call began.
func (c *call) now() time.Duration { return time.Since(c.start) }

type callKey struct{}

// A callView is a call as the caller's context, with the call in it for ReportOf.
type callView call

func (v *callView) Deadline() (time.Time, bool) { return v.req.Context().Deadline() }
func (v *callView) Done() <-chan struct{}       { return v.req.Context().Done() }
func (v *callView) Err() error                  { return v.req.Context().Err() }

func (v *callView) Value(key any) any {
	if key == (callKey{}) {
		return (*call)(v)
	}
	return v.req.Context().Value(key)
}

func newCall(client *Client, req *http.Request) *call {
	c := &call{client: client, req: req, start: time.Now()}
	c.attempts = c.inline[:0]
	c.opts = callOptions(req.Context())
	c.side = client.side
	if c.opts != nil {
		c.side = orDefault(c.opts.Side, c.side)
	}
	return c
}

// context is the caller's, with the call's span where there is one. It ends when the caller says so; our own limits end
// attempts, through their contexts.
func (c *call) context() context.Context {
	if c.meter != nil {
		return c.meter.ctx
	}
	return c.req.Context()
}

// last is the attempt that runs, or the one that ran last; nil before the first.
func (c *call) last() *attempt {
	if len(c.attempts) == 0 {
		return nil
	}
	return c.attempts[len(c.attempts)-1]
}

// fail ends the call with an error and returns it as the caller sees it.
func (c *call) fail(f *failure) error {
	e := &Error{Reason: f.reason, Err: f.err, RetryAfter: f.retryAfter}
	c.end(f.reason, e)
	return e
}

// succeed ends a call whose response is over.
func (c *call) succeed() { c.endAt(c.now(), statusReason(c.status), nil) }

// statusReason is the reason of an answer with this status.
func statusReason(status int32) Reason {
	if status >= 400 {
		return ReasonStatus
	}
	return ReasonOK
}

// end closes the call, once: whoever comes first, with the end of the body, the failure, or the end of the total time.
// What the call holds is released before anybody's hook runs. It completes e, the error that the caller will see.
func (c *call) end(reason Reason, e *Error) { c.endAt(c.now(), reason, e) }

func (c *call) endAt(now time.Duration, reason Reason, e *Error) {
	onCall := c.client.onCall
	var report Report
	told := e != nil || onCall != nil
	if told {
		report = c.reportHead()
	}

	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.endedAt, c.reason, c.failure = true, now, reason, e
	c.limits.stop()
	c.bookRestLocked(&c.watch, now)
	for _, a := range c.attempts {
		if a.beside {
			a.endLocked(ReasonLocalReset, now) // it has lost, and may go on for a while
		} else {
			a.endLocked(reason, now)
		}
	}
	if told {
		c.reportLocked(&report)
	}
	if e != nil {
		e.complete(report, c.last())
	}
	c.mu.Unlock()

	defer c.client.calls.end(c, reason) // last, so that Shutdown waits for the hook as well
	c.letGo()
	if onCall != nil && c.client.calls.mayTell() {
		onCall(report)
	}
}

// letGo releases everything that the call holds, but for attempts that run beside the one that won: their goroutines do that.
// What is the user's to panic in comes last.
func (c *call) letGo() {
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.slot != nil {
		c.slot.Release()
	}
	for _, a := range c.attempts {
		if !a.beside {
			a.release()
		}
	}
	c.measured()
	c.closeRequestBodies()
}

// bookRestLocked books to w what no stage has booked: after the headers it is the body's time or the caller's, before
// them nobody's.
func (c *call) bookRestLocked(w *stopwatch, now time.Duration) {
	switch {
	case now <= w.last:
	case c.reading:
		w.book(metrics.PhaseBody, now)
	case c.delivered:
		w.book(metrics.PhaseCaller, now)
	default:
		w.book(metrics.PhaseOther, now)
	}
}

// complete fills in what the report knows.
func (e *Error) complete(r Report, last *attempt) {
	e.Upstream, e.Method, e.Target = r.Upstream, r.Method, r.Host+r.Path
	e.Attempts, e.Status, e.Stopped = len(r.Attempts), r.Status, r.Stopped
	if last != nil {
		e.Endpoint = last.endpoint.name
	}
	e.Report = r
}

// report is the state of the call as a value: final once the call has ended.
func (c *call) report() Report {
	r := c.reportHead()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportLocked(&r)
	return r
}

// reportHead is the part of the report that is known from the start.
func (c *call) reportHead() Report {
	r := Report{Side: c.side, Method: methodOf(c.req), Template: template(c.context()), Start: c.start}
	if u := c.req.URL; u != nil {
		r.Host, r.Path = u.Host, u.EscapedPath()
	}
	if c.up != nil {
		r.Upstream = c.up.name
	}
	return r
}

// reportLocked fills in the rest.
func (c *call) reportLocked(r *Report) {
	now, watch := c.endedAt, c.watch
	if !c.ended {
		now = c.now()
		c.bookRestLocked(&watch, now)
	}
	r.Duration, r.Account = now, watch.account
	r.Ended, r.Reason, r.Status, r.Unclosed = c.ended, c.reason, int(c.status), c.unclosed
	r.Panic, r.Hedged, r.HedgeWon = c.panicked, c.hedged, c.hedgeWon
	n := c.notedLocked()
	r.Stopped, r.QueueWait, r.QueueLength, r.Shadow = n.stopped, n.queued, n.queueLength, n.shadow
	if !c.ended {
		r.Reason = statusReason(c.status)
	}
	r.BytesReceived, r.neverSent = c.received, true
	if deadline, ok := c.deadline(); ok {
		r.TimeLeft = max(deadline.Sub(c.start.Add(now)), 0)
	}
	r.Attempts = make([]Attempt, len(c.attempts))
	for i, a := range c.attempts {
		r.Tier = a.endpoint.tier
		r.BytesSent += a.info().BytesWritten
		r.neverSent = r.neverSent && a.neverSent()
		r.Attempts[i] = a.reportLocked(now)
		switch a.kind {
		case KindMove:
			r.Moves++
		case KindRetry:
			r.Retries++
		}
	}
}

// deadline is when the call must have ended: our limit or the caller's, whichever is first.
func (c *call) deadline() (time.Time, bool) {
	deadline, ok := c.context().Deadline()
	if c.limits.total > 0 {
		if total := c.start.Add(c.limits.total); !ok || total.Before(deadline) {
			return total, true
		}
	}
	return deadline, ok
}

func methodOf(req *http.Request) string { return orDefault(req.Method, http.MethodGet) }
