package client

import (
	"context"
	"time"
)

// waiting returns a context for a wait that belongs to no attempt: between attempts, for a slot, for a name. It ends with the
// caller's, when the total time is over, and when the client ends. The caller must call done.
func (c *call) waiting() (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(c.context())
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.extras()
	x.wake = cancel
	if x.ending != nil {
		cancel(x.ending)
	}
	return ctx, func() {
		c.mu.Lock()
		x.wake = nil
		c.mu.Unlock()
		cancel(nil)
	}
}

// endWaitLocked ends whatever wait runs, and every later one.
func (c *call) endWaitLocked(why error) {
	x := c.extras()
	x.ending = why
	if x.wake != nil {
		x.wake(why)
	}
}

// pause waits between two attempts. It returns a failure when the call must end first.
func (c *call) pause(d time.Duration) *failure {
	if d <= 0 {
		return nil
	}
	ctx, done := c.waiting()
	defer done()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return c.interrupted(ctx)
	}
}

// interrupted is the failure of a call whose wait was ended.
func (c *call) interrupted(ctx context.Context) *failure {
	cause := context.Cause(ctx)
	return &failure{reason: c.contextReason(cause), err: cause}
}
