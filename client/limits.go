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
// All fields are guarded by call.mu. Moments are counted from the start of the call; 0 is never.
type limits struct {
	timer *limitTimer   // nil: never armed
	armed time.Duration // when the timer fires

	total      time.Duration // never: none, or the caller's own deadline comes first
	attempt    time.Duration // end of the one that runs; never: none, or its headers have arrived
	limited    *attempt      // whose end that is
	perAttempt time.Duration // a length; 0 = none
	verdict    time.Duration // when the endpoint gets credit for an answer whose body is still open; never, or it has
	progress   time.Duration // a length, of one Read; 0 = none
	read       time.Duration // end of the Read that runs; never: none runs
	totalOver  bool          // it has been acted upon
}

// due returns when the first limit will be over, and never if none runs.
func (l *limits) due() time.Duration {
	due := earlier(l.attempt, l.verdict)
	if !l.totalOver {
		due = earlier(l.total, due)
	}
	due = earlier(due, l.read)
	return due
}

// over returns the cause of the limit that has passed at now; nil if none has. The total speaks first, as the widest.
func (l *limits) over(now time.Duration) error {
	passed := func(t time.Duration) bool { return t > 0 && now >= t }
	switch {
	case !l.totalOver && passed(l.total):
		return errTotal
	case passed(l.attempt):
		return ErrAttemptTimeout
	case passed(l.read):
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
	l.verdict, l.armed, l.attempt, l.read, l.progress = 0, 0, 0, 0, 0
}

// end switches off what bounds the rest of the call.
func (l *limits) end() {
	l.stop()
	l.total = 0
}

// earlier returns the earlier of two moments.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// armLocked makes sure that the timer fires no later than the first limit.
func (c *call) armLocked(now time.Duration) {
	due := c.limits.due()
	if due == 0 || c.ended {
		return
	}
	l := &c.limits
	if l.armed > 0 && due >= l.armed {
		return
	}
	l.armed = due
	if l.timer == nil {
		l.timer = c.client.timers.take(c)
	}
	l.timer.timer.Reset(due - now)
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
	now := c.now()
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.limits.armed = 0
	if v := c.limits.verdict; v > 0 && now >= v {
		c.limits.verdict = 0
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
		c.limits.attempt = 0
	case ErrBodyStalled:
		ending = []*attempt{c.answer}
		c.limits.read = 0
	default:
		c.limits.totalOver = true
	}
	unread := c.delivered && !c.reading
	c.armLocked(now)
	c.mu.Unlock()

	for _, a := range ending {
		a.stop(cause)
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
