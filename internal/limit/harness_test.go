package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
)

const ms = time.Millisecond

// A caller asks for a slot in a goroutine of its own.
type caller struct {
	cancel context.CancelFunc
	done   bool
	result limit.Result
}

// call lets somebody ask, and returns when that has been answered or waits.
func call(t *testing.T, l *limit.Limit, wait time.Duration) *caller {
	ctx, cancel := context.WithCancel(t.Context())
	c := &caller{cancel: cancel}
	go func() {
		c.result = l.Acquire(ctx, wait)
		c.done = true
	}()
	synctest.Wait()
	return c
}

func (c *caller) has(t *testing.T, o limit.Outcome) {
	t.Helper()
	synctest.Wait()
	if !c.done || c.result.Outcome != o {
		t.Errorf("done %v with %v, want %v", c.done, c.result.Outcome, o)
	}
}

func (c *caller) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if c.done {
		t.Errorf("got %v, want it to wait", c.result.Outcome)
	}
}

func counts(t *testing.T, l *limit.Limit, inFlight, waiting int) {
	t.Helper()
	if s := l.Stats(); s.InFlight != inFlight || s.Waiting != waiting {
		t.Errorf("%d in flight, %d waiting; want %d, %d", s.InFlight, s.Waiting, inFlight, waiting)
	}
}
