package creds

import (
	"context"
	"errors"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// The events that metrics count, beside fetches. All of them should be rare.
const (
	eventBlocked   = "blocked" // a read waited
	eventUnchanged = "unchanged"
	eventClamped   = "clamped"
	eventStale     = "stale_served"
	eventRejected  = "rejected"
)

// measure records a question that has been answered.
func (c *core[T]) measure(e *Event) {
	c.metrics.Fetched(e.Trigger.Class(), e.Duration, errorTypeOf(e.Err))
	switch {
	case e.Outcome == OutcomeUnchanged:
		c.metrics.Happened(eventUnchanged)
	case e.Outcome == OutcomeOK && !e.Expires.IsZero():
		c.metrics.Received(e.Lifetime)
	}
	if e.clamped != nil {
		c.metrics.Happened(eventClamped)
	}
}

// remaining is the time until the value in hand ends, if there is one that does.
func (c *core[T]) remaining() (time.Duration, bool) {
	it := c.val.Peek().Value
	if it == nil || it.expires.IsZero() {
		return 0, false
	}
	now := time.Now()
	return it.left(now, c.wall(now)), true
}

// errorTypeOf is the one place where errors of this package become values of error.type.
func errorTypeOf(err error) metrics.ErrorType {
	_, panicked := errors.AsType[*PanicError](err)
	switch {
	case err == nil:
		return metrics.NoError
	case panicked:
		return metrics.ErrorPanic
	case errors.Is(err, ErrStuck), errors.Is(err, context.DeadlineExceeded):
		return metrics.ErrorTimeout
	}
	return metrics.ErrorCredential
}
