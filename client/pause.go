package client

import (
	"context"
	"time"
)

// pause waits between two attempts. It ends early, with a failure, when the call must end: by the caller's context, the
// total time or the end of the client.
func (c *call) pause(d time.Duration) *failure {
	if d <= 0 {
		return nil
	}
	c.mu.Lock()
	if ending := c.ending; ending != nil {
		c.mu.Unlock()
		return &failure{c.contextReason(ending), ending}
	}
	woken := make(chan struct{})
	c.woken = woken
	c.mu.Unlock()

	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-woken:
		c.mu.Lock()
		defer c.mu.Unlock()
		return &failure{c.contextReason(c.ending), c.ending}
	case <-c.context().Done():
		return contextFailure(c.context())
	}
}

// contextFailure is the failure of a call whose caller's context has ended.
func contextFailure(ctx context.Context) *failure {
	return &failure{contextErrReason(ctx.Err()), context.Cause(ctx)}
}

// wakeLocked ends a pause.
func (c *call) wakeLocked() {
	if c.woken != nil {
		close(c.woken)
		c.woken = nil
	}
}
