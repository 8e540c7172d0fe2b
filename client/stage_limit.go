package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
	"github.com/sortie-go/sortie/metrics"
)

// withLimit takes a slot for the call, which holds it until its body ends. It waits in the queue, and books that as "queue";
// it gives back what the stages below bring, or the refusal.
func withLimit(p *limitPolicy, next sender) sender {
	if p == nil {
		return next
	}
	return func(c *call) (*http.Response, error) {
		r := p.slots.Acquire(c.context(), 0) // most calls find a slot free, and need nothing to wait with
		if r.Outcome == limit.Full {
			r = c.waitForSlot(p)
		}
		c.queued(r)
		if r.Outcome != limit.Granted {
			f := c.refusal(r)
			if reason := limitRefusal(r.Outcome, f.reason); reason != "" {
				c.up.meter.LimitRejected(c.context(), reason)
			}
			return nil, f
		}
		c.slot = p.slots
		if r.Would != limit.Granted {
			c.wouldHave("limit: " + r.Would.String())
		}
		return next(c)
	}
}

// queued notes what the call met in the queue, if it met anything.
func (c *call) queued(r limit.Result) {
	if r.Waited == 0 && r.Ahead == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.extras()
	x.queued, x.queueLength = r.Waited, r.Ahead
	if r.Waited > 0 {
		c.watch.account.add(metrics.PhaseQueue, r.Waited)
		c.watch.last += r.Waited
	}
}

// waitForSlot waits in the queue, if there is room and time.
func (c *call) waitForSlot(p *limitPolicy) limit.Result {
	ctx, done := c.waiting()
	defer done()
	return p.slots.Acquire(ctx, c.queueWait(p.wait))
}

// refusal is why a call has no slot.
func (c *call) refusal(r limit.Result) *failure {
	switch r.Outcome {
	case limit.Canceled:
		c.mu.Lock()
		defer c.mu.Unlock()
		cause := orError(c.notedLocked().ending, context.Cause(c.context()))
		return &failure{reason: c.contextReason(cause), err: cause}
	case limit.Closed:
		return &failure{reason: ReasonDraining, err: ErrDraining}
	}
	return c.overflow(r)
}

// limitRefusal is the refusal in the words of sortie.limit.rejected; "" if it was the caller who left.
func limitRefusal(o limit.Outcome, r Reason) string {
	switch {
	case r == ReasonDeadline:
		return "deadline"
	case r == ReasonDraining:
		return "draining"
	case o == limit.Full:
		return "full"
	case o == limit.TimedOut:
		return "wait"
	}
	return ""
}

func orError(err, def error) error {
	if err != nil {
		return err
	}
	return def
}

// overflow is the refusal of a full limit; where the call's own time was over first, it is that.
func (c *call) overflow(r limit.Result) *failure {
	if deadline, ok := c.deadline(); ok && r.Outcome == limit.TimedOut && !time.Now().Before(deadline) {
		return &failure{reason: ReasonDeadline, err: fmt.Errorf("%w while waiting for one of %d slots", errTotal, r.Limit)}
	}
	return &failure{reason: ReasonOverflow, err: fmt.Errorf("all %d slots are taken, %d calls were waiting, and this one waited %v", r.Limit, r.Ahead, roundForPeople(r.Waited))}
}

// queueWait is how long the call may wait for a slot: not beyond its deadline, nor, while the client drains, beyond the
// time by which all should have ended.
func (c *call) queueWait(longest time.Duration) time.Duration {
	now := time.Now()
	if deadline, ok := c.deadline(); ok {
		longest = min(longest, deadline.Sub(now))
	}
	if end, ok := c.client.drainDeadline(); ok {
		longest = min(longest, end.Sub(now))
	}
	return longest
}

// A limitPolicy is a Limit at work.
type limitPolicy struct {
	slots *limit.Limit
	wait  time.Duration
}

func (l *Limit) engine(timeout Timeout) limit.Config {
	cfg := limit.Config{Max: orDefault(l.Max, 256), Queue: max(orDefault(l.Queue, 64), 0), Shadow: l.Shadow}
	if a := l.Adaptive; a != nil {
		cfg.Adaptive = &limit.Adaptive{
			Min: orDefault(a.Min, 8), Init: orDefault(a.Init, 20), Max: orDefault(a.Max, cfg.Max),
			MaxHealthy: orDefault(a.MaxHealthy, timeout.Attempt/2),
		}
	}
	return cfg
}
