package budget

import (
	"sync"
	"time"
)

// Config says how much is granted.
type Config struct {
	Percent   float64       // extra attempts per hundred calls
	PerSecond float64       // retries granted besides, whatever the number of calls; 0 is none
	Window    time.Duration // how long a call, and an extra attempt, counts
}

// A Budget is the account of one upstream. It must be made by [New]. It is safe for concurrent use; no method waits for
// anything but other methods.
//
// Every method takes the present time, which should be read from the clock and may be a little behind what others gave.
type Budget struct {
	mu   sync.Mutex
	cfg  Config
	ring ring
}

// New returns a budget without deposits.
func New(cfg Config, now time.Time) *Budget {
	return &Budget{cfg: cfg, ring: newRing(cfg.Window, now)}
}

// Configure changes what is granted and keeps what was counted. After a change of Window that counts as having happened
// now.
func (b *Budget) Configure(cfg Config, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cfg.Window != b.cfg.Window {
		b.ring.advance(now)
		sum := b.ring.sum
		b.ring = newRing(cfg.Window, now)
		b.ring.add(sum)
	}
	b.cfg = cfg
}

// Deposit notes a call. It is made once per call, at its first attempt.
func (b *Budget) Deposit(now time.Time) {
	b.mu.Lock()
	b.ring.advance(now)
	b.ring.add(counts{calls: 1})
	b.mu.Unlock()
}

// TryRetry spends on one retry and reports whether it is granted. What is spent is never given back; it expires.
func (b *Budget) TryRetry(now time.Time) bool { return b.try(now, true) }

// TryHedge spends on one hedge and reports whether it is granted, without touching the reserve.
func (b *Budget) TryHedge(now time.Time) bool { return b.try(now, false) }

// CanHedge reports whether TryHedge would grant, and spends nothing.
func (b *Budget) CanHedge(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring.advance(now)
	return b.affords(false)
}

// Left returns the number of retries that are left, with their fraction; it is negative after Configure has cut the budget
// below what was spent.
func (b *Budget) Left(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring.advance(now)
	return b.left(true)
}

func (b *Budget) try(now time.Time, reserve bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring.advance(now)
	if !b.affords(reserve) {
		return false
	}
	b.ring.add(counts{extra: 1})
	return true
}

// whole is 1, less what a product such as 100 * 0.29 loses in floating point. The tenth retry of ten must not fail for it.
const whole = 1 - 1e-9

func (b *Budget) affords(reserve bool) bool { return b.left(reserve) >= whole }

// left is the balance in extra attempts: the account kept in tokens, divided by the cost of one.
func (b *Budget) left(reserve bool) float64 {
	left := float64(b.ring.sum.calls)*b.cfg.Percent/100 - float64(b.ring.sum.extra)
	if reserve {
		left += b.cfg.PerSecond * b.cfg.Window.Seconds()
	}
	return left
}
