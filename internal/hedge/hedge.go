package hedge

import (
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the settings.
type Config struct {
	ExtraLoad float64       // hedges per call, between 0 and 1
	Delay     time.Duration // how long to wait; 0 is the quantile that ExtraLoad names
	Min       time.Duration // shortest wait by the quantile
	Shadow    bool          // nothing is sent: only ask the shared budget, and spend nothing of it
}

// A Hedge decides for one upstream. It must be made by [New]. It is safe for concurrent use, and waits for nothing but
// its own mutex. Every method takes the present time, which may be a little behind what others gave.
type Hedge struct {
	start time.Time
	delay atomic.Int64 // in force; 0: none
	due   atomic.Int64 // since start: when delay is read again

	mu    sync.Mutex
	cfg   Config
	times recent
	spent allowance
}

// Budget is the account that hedges share with retries.
type Budget interface {
	TryHedge(now time.Time) bool // spends on one hedge, if that is granted
	CanHedge(now time.Time) bool // only says whether it would be
}

// New returns a Hedge that knows nothing yet.
func New(cfg Config, now time.Time) *Hedge {
	return &Hedge{cfg: cfg, start: now}
}

// Configure changes the settings and keeps what was measured and spent.
func (h *Hedge) Configure(cfg Config, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cfg = cfg
	h.readLocked(h.since(now))
}

// Deposit notes a call, once, at its first attempt.
func (h *Hedge) Deposit(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent.add(h.since(now), 1, 0)
}

// Observe notes the time to an attempt's headers or, if none came, how long it was given: without those the slowest
// attempts would be missing, and the wait too short.
func (h *Hedge) Observe(d time.Duration, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times.add(h.since(now), d)
}

// Delay returns how long after an attempt's beginning a second one is due; false: never. It takes no lock but every three
// seconds, and never with a fixed delay.
func (h *Hedge) Delay(now time.Time) (time.Duration, bool) {
	t := h.since(now)
	if int64(t) >= h.due.Load() {
		h.mu.Lock()
		if int64(t) >= h.due.Load() {
			h.readLocked(t)
		}
		h.mu.Unlock()
	}
	d := time.Duration(h.delay.Load())
	return d, d > 0
}

// Try asks for one hedge and spends on it, here and in the shared budget, or in neither.
func (h *Hedge) Try(now time.Time, shared Budget) bool {
	shadow, ok := h.take(now)
	if !ok {
		return false
	}
	if shadow {
		ok = shared.CanHedge(now)
	} else {
		ok = shared.TryHedge(now)
	}
	if !ok {
		h.giveBack(now)
	}
	return ok
}

// Patience returns how long a first attempt that lost may go on, where breaking it off would cost a connection: about as
// long as it was waited for before.
func Patience(delay time.Duration) time.Duration {
	return min(max(delay, 50*time.Millisecond), time.Second)
}

func (h *Hedge) take(now time.Time) (shadow, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cfg.Shadow, h.spent.take(h.since(now), h.cfg.ExtraLoad)
}

func (h *Hedge) giveBack(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent.add(h.since(now), 0, -1)
}

func (h *Hedge) since(now time.Time) time.Duration { return max(now.Sub(h.start), 0) }
