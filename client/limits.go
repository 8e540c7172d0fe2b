package client

import (
	"sync"
	"sync/atomic"
	"time"
)

// limits are the time limits of one call: one timer for all of them. The timer is armed for the limit that is due first;
// when it fires it looks again, since a limit may have moved, and ends the attempt or goes on waiting. So a read of the
// body, which moves its limit each time, costs no change of a timer.
//
// All fields are guarded by call.mu.
type limits struct {
	timer *limitTimer // nil: never armed
	armed time.Time   // when the timer fires; zero = not armed

	total      time.Time     // zero: none, or the caller's own deadline comes first
	totalOver  bool          // it has been acted upon
	attempt    time.Time     // end of the one that runs; zero: none, or its headers have arrived
	limited    *attempt      // whose end that is
	perAttempt time.Duration // 0 = none
	verdict    time.Time     // when the endpoint gets credit for an answer whose body is still open; zero: never, or it has
	progress   time.Duration // of one Read; 0 = none
	readSince  time.Time     // start of the Read that runs; zero: none runs
}

// due returns when the first limit will be over, and zero if none runs.
func (l *limits) due() time.Time {
	due := earlier(l.attempt, l.verdict)
	if !l.totalOver {
		due = earlier(l.total, due)
	}
	if !l.readSince.IsZero() && l.progress > 0 {
		due = earlier(due, l.readSince.Add(l.progress))
	}
	return due
}

// over returns the cause of the limit that has passed at now; nil if none has. The total speaks first, as the widest.
func (l *limits) over(now time.Time) error {
	passed := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case !l.totalOver && passed(l.total):
		return errTotal
	case passed(l.attempt):
		return ErrAttemptTimeout
	case !l.readSince.IsZero() && l.progress > 0 && passed(l.readSince.Add(l.progress)):
		return ErrBodyStalled
	}
	return nil
}

// stop ends the limits for good.
func (l *limits) stop() {
	if l.timer != nil {
		l.timer.end()
		l.timer = nil
	}
	l.verdict = time.Time{}
	l.armed, l.attempt, l.progress = time.Time{}, time.Time{}, 0
}

// end switches off what bounds the rest of the call.
func (l *limits) end() {
	l.stop()
	l.total = time.Time{}
}

// earlier returns the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// armLocked makes sure that the timer fires no later than the first limit.
func (c *call) armLocked(now time.Time) {
	due := c.limits.due()
	if due.IsZero() || c.ended {
		return
	}
	l := &c.limits
	if !l.armed.IsZero() && !due.Before(l.armed) {
		return
	}
	l.armed = due
	if l.timer == nil {
		l.timer = c.client.timers.take(c)
	}
	l.timer.timer.Reset(due.Sub(now))
}

// A limitTimer is a call's timer. It is used again for other calls, which saves two of the allocations of each.
type limitTimer struct {
	timer *time.Timer
	call  atomic.Pointer[call]
	pool  *timerPool
}

// A timerPool holds timers that are not armed.
type timerPool struct{ idle sync.Pool }

// take returns a timer for c that is not armed.
func (p *timerPool) take(c *call) *limitTimer {
	t, ok := p.idle.Get().(*limitTimer)
	if !ok {
		t = &limitTimer{pool: p}
		t.timer = time.AfterFunc(time.Hour, t.fire)
		t.timer.Stop()
	}
	t.call.Store(c)
	return t
}

func (t *limitTimer) fire() {
	if c := t.call.Load(); c != nil {
		c.onTimer()
	}
}

// end gives the timer back, if it is certain that it will not fire any more.
func (t *limitTimer) end() {
	stopped := t.timer.Stop()
	t.call.Store(nil)
	if stopped {
		t.pool.idle.Put(t)
	}
}

// onTimer runs when the timer fires.
func (c *call) onTimer() {
	now := time.Now()
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.limits.armed = time.Time{}
	if v := c.limits.verdict; !v.IsZero() && !now.Before(v) {
		c.limits.verdict = time.Time{}
		defer c.answer.tell(statusReason(c.status))
	}
	cause := c.limits.over(now)
	if cause == nil {
		c.armLocked(now)
		c.mu.Unlock()
		return
	}
	if cause == errTotal {
		c.endWaitLocked(cause)
	}
	ending := c.attempts // by the total, all
	switch cause {
	case ErrAttemptTimeout:
		ending = []*attempt{c.limits.limited}
		c.limits.attempt = time.Time{}
	case ErrBodyStalled:
		ending = []*attempt{c.answer}
		c.limits.readSince = time.Time{}
	default:
		c.limits.totalOver = true
	}
	unread := c.delivered && !c.reading
	c.armLocked(now)
	c.mu.Unlock()

	for _, a := range ending {
		a.cancel(cause)
	}
	if unread {
		c.abandon(ReasonDeadline, cause)
	}
}

// abandon ends a call whose body nobody is reading: the total time is over, or the caller's context.
func (c *call) abandon(reason Reason, cause error) {
	c.mu.Lock()
	if c.ended || c.reading || !c.delivered {
		c.mu.Unlock() // a Read that runs ends the call itself
		return
	}
	c.unclosed = true
	c.mu.Unlock()
	c.end(reason, &Error{Reason: reason, Err: cause})
	c.body.inner.Close()
}
