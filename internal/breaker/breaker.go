package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A Breaker guards one endpoint. It must be made by [New]. It is safe for concurrent use; its methods wait for nothing
// but each other, Close excepted. It owns no goroutine and no timer.
type Breaker struct {
	cfg   Config        // complete; never written
	opens time.Duration // for how long it opens; never written
	core  *gobreaker.TwoStepCircuitBreaker[struct{}]
	notes *notifier
	epoch time.Time // what the instants below count from, in nanoseconds

	inRow atomic.Int64  // failures in a row; written under the core's mutex
	stamp atomic.Uint64 // number of changes << 2 | state; written under mu
	until atomic.Int64  // Open: when it may admit again
	full  atomic.Int64  // HalfOpen without a place: when the oldest probe is overdue; 0: there is a place
	held  atomic.Int64  // after Reload: when the open time of the breaker before is over; 0: it is

	mu      sync.Mutex
	since   time.Time // of the last change
	taken   int       // half-open: probes admitted and not given back
	probes  []*probe  // half-open: those that nobody has reported
	retired bool      // replaced by Reload
}

// New returns a closed breaker.
func New(cfg Config) *Breaker {
	return newBreaker(cfg, newNotifier(cfg.OnChange))
}

func newBreaker(cfg Config, notes *notifier) *Breaker {
	b := &Breaker{cfg: cfg.withDefaults(), notes: notes, since: time.Now()}
	b.epoch = b.since.Add(-1) // so that no instant is 0
	b.opens = jittered(b.cfg.Open)
	b.core = b.newCore()
	return b
}

// Ready tells, without a lock and without taking anything, what Admit would say: whether it would admit an attempt, and
// whether the breaker is half-open, or would become so. An endpoint with neither is not available.
func (b *Breaker) Ready(now time.Time) (admits, probing bool) {
	if b.cfg.Shadow {
		return true, false
	}
	held := b.held.Load()
	switch s := state(b.stamp.Load()); {
	case held != 0 && b.instant(now) <= held:
		return false, false
	case s == Closed:
		return true, false
	case s == Open:
		over := b.instant(now) > b.until.Load()
		return over, over
	}
	full := b.full.Load()
	return full == 0 || b.instant(now) > full, true
}

// Next returns how long nothing will be admitted for; 0 if something may be, and half-open, where that depends on the
// probes that run.
func (b *Breaker) Next(now time.Time) time.Duration {
	end := b.held.Load()
	if state(b.stamp.Load()) == Open {
		end = max(end, b.until.Load())
	}
	return max(time.Duration(end-b.instant(now)), 0)
}

// State returns the state at this moment. When an open time is over that is HalfOpen, although nobody has asked for a
// permit yet. With Shadow it is the state that the breaker would have.
func (b *Breaker) State() State {
	if b.holding() {
		return Open
	}
	s := fromCore(b.core.State())
	b.notes.deliver()
	return s
}

// Close ends the delivery of changes: none is delivered after it has returned. It waits for OnChange to return, and so
// must not be called from it. The breaker goes on deciding, since attempts may still run.
func (b *Breaker) Close() { b.notes.close() }

// instant is now as the atomic fields have it.
func (b *Breaker) instant(now time.Time) int64 { return int64(now.Sub(b.epoch)) }

func state(stamp uint64) State { return State(stamp & 3) }
