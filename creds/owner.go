package creds

import (
	"errors"
	"slices"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// Plan is told of a new value just before it is published.
func (c *core[T]) Plan(it *item[T], now time.Time) fresh.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := it.plan(c)
	c.ended = 0
	if it.stale {
		c.ended = 1
	}
	e := c.takeLocked(func(e *Event) bool { return e.Outcome == OutcomeOK })
	e.Next, e.Rule, e.recovered = p.Soft, ruleAhead, c.failing
	if p.Soft.IsZero() {
		e.Rule = ""
	}
	c.failing, c.failure = 0, failure{}
	c.stats.LastSuccess = now
	c.readyLocked(e)
	return p
}

// Delay is told of each flight that brought no new value, just before readers are.
func (c *core[T]) Delay(t fresh.Try) time.Duration {
	now := time.Now()
	wall := c.wall(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.eventOfLocked(t.Err)
	it := c.val.Peek().Value
	p := position{
		cold: it == nil, unchanged: t.Err == nil, fatal: e.Outcome == OutcomeFatal,
		failures: t.Failures,
	}
	if it != nil {
		p.rejected, p.life, p.left = it.rejected, it.life, it.left(now, wall)
	}
	c.ended++
	if p.left > 0 || p.unchanged {
		c.ended = 0
	}
	p.ended = c.ended
	d, rule := delay(p, uniform)
	if t.State == fresh.Valid && c.source.poll > 0 {
		d, rule = c.source.poll, rulePoll // the poll asks; internal/fresh does not, for a value that is good
	}
	e.Next, e.Rule, e.Failures = now.Add(d), rule, t.Failures
	if t.Err == nil {
		e.recovered, c.failing = c.failing, 0
		c.stats.LastSuccess = now
	} else {
		c.failLastLocked(t, e, now)
	}
	c.readyLocked(e)
	return d
}

// failLastLocked notes the newest failure, and completes the error that readers get.
func (c *core[T]) failLastLocked(t fresh.Try, e *Event, now time.Time) {
	if f, ok := errors.AsType[*FetchError](e.Err); ok && e.Outcome == OutcomeError {
		f.Failures, f.RetryAt = t.Failures, e.Next
	}
	c.failing = t.Failures
	c.failure = failure{raw: t.Err, public: e.Err, fatal: e.Outcome == OutcomeFatal}
	c.stats.LastError, c.stats.LastErrorAt = e.Err, now
}

// eventOfLocked returns the event of the question that ended with err. There is none yet if internal/fresh found the error.
func (c *core[T]) eventOfLocked(err error) *Event {
	var cause error
	switch {
	case err == nil:
		return c.takeLocked(func(e *Event) bool { return e.Outcome == OutcomeUnchanged })
	case errors.Is(err, fresh.ErrStuck):
		cause = ErrStuck
	case errors.Is(err, fresh.ErrGoexit):
		cause = ErrGoexit
	default:
		return c.takeLocked(func(e *Event) bool { return e.Err == err }) //nolint:errorlint // identity
	}
	e := *c.asked
	e.Outcome, e.Duration = OutcomeError, time.Since(e.Start)
	e.Err = &FetchError{Source: c.cfg.Name, Err: cause}
	c.countLocked(&e)
	return &e
}

// answeredLocked keeps the event of a question that has been answered, until it is known when the next will be put.
func (c *core[T]) answeredLocked(e *Event) {
	c.countLocked(e)
	if len(c.answered) == 4 { // of sources that answered after they had been left behind
		c.answered = slices.Delete(c.answered, 0, 1)
	}
	c.answered = append(c.answered, e)
}

// takeLocked removes the newest answered event that fits. There is one.
func (c *core[T]) takeLocked(fits func(*Event) bool) *Event {
	for i, e := range slices.Backward(c.answered) {
		if fits(e) {
			c.answered = slices.Delete(c.answered, i, i+1)
			return e
		}
	}
	return &Event{Source: c.cfg.Name}
}

// readyLocked puts an event into the queue for Changed, which tells it when everybody can see what it tells of.
func (c *core[T]) readyLocked(e *Event) {
	c.stats.Next, c.stats.Rule = e.Next, e.Rule
	c.ready = append(c.ready, *e)
}

// Eager reports whether flights are started by timer.
func (c *core[T]) Eager() bool {
	idle := c.cfg.IdleAfter
	return idle == 0 || time.Duration(c.wall(time.Now())-c.lastRead.Load()) < idle
}

// Changed runs after each publication and change of state, in order and outside all locks.
func (c *core[T]) Changed(s *fresh.Snapshot[*item[T]]) {
	now := time.Now()
	owed := false
	if it := s.Value; it != nil {
		c.mu.Lock()
		it.publish(c, it.left(now, c.wall(now)))
		owed = it.owed && s.Since.IsZero()
		c.mu.Unlock()
	}
	c.tell()
	if owed {
		c.val.Force(string(TriggerRejected))
	}
}

// tell logs and hands on the events that everybody can see the outcome of.
func (c *core[T]) tell() {
	c.mu.Lock()
	ready := c.ready
	c.ready = nil
	c.mu.Unlock()
	for _, e := range ready {
		c.measure(&e)
		e.log(c.cfg.Logger)
		c.events.push(e)
	}
}

// replan draws the life of the value in hand anew, after something became known.
func (c *core[T]) replan() {
	c.val.Adjust(func(s *fresh.Snapshot[*item[T]]) fresh.Plan {
		now := time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		s.Value.publish(c, s.Value.left(now, c.wall(now)))
		return s.Value.plan(c)
	})
}
