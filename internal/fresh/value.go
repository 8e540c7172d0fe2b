package fresh

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Owner supplies what a [Value] does not know. Its methods are called from any goroutine and never under a lock of the
// Value, so they may call its methods (all but Close, and Get from Changed). Fetch may take its time; the others answer
// at once.
type Owner[T any] interface {
	// Fetch puts one question to the source. The context is the flight's own: it ends after Options.Timeout or at
	// Close, and carries no reader's values. The reason is what started the flight: the name of the state that was
	// found, or what was given to Force. At most one Fetch runs at a time, unless one ignored its deadline.
	Fetch(ctx context.Context, reason string) Outcome[T]

	// Plan draws up the life of a value that has just arrived. It is called once per value: a jitter is drawn here.
	Plan(value T, now time.Time) Plan

	// Delay says how long to hold back the next try after one that brought no value. Less than 20 ms counts as 20 ms.
	Delay(Try) time.Duration

	// Eager reports whether a timer starts the flights that are due. False: only readers and Force do.
	Eager() bool

	// Changed hears of each publication and each change of state, in order, one call at a time. The beginning of a
	// flight is no change. A call that blocks holds up later calls, and Close.
	Changed(*Snapshot[T])
}

// Options are the settings of a Value. Zero fields are the defaults given here.
type Options struct {
	Timeout  time.Duration // of one flight; 5 s
	HardWait time.Duration // longest wait of a reader in state hard, from the flight's start; 250 ms, negative: none
	MinGap   time.Duration // between the starts of two forced flights; none
	StuckGap time.Duration // no other flight for so long after one was left behind; 60 s
}

const (
	// floor is the shortest delay before a next try: whatever an owner computes, a source is not called in a loop.
	floor = 20 * time.Millisecond

	// grace is how long after its deadline a source may take to notice it.
	grace = 100 * time.Millisecond

	// maxStuck is how many sources that ignored their deadline may be left behind at a time.
	maxStuck = 2
)

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.HardWait == 0 {
		o.HardWait = 250 * time.Millisecond
	}
	if o.StuckGap == 0 {
		o.StuckGap = time.Minute
	}
	return o
}

// Value holds one fetched value. Make it with [New]; all methods are safe for concurrent use. It owns at most one timer
// and one goroutine per flight, and both end with Close.
type Value[T any] struct {
	owner Owner[T]
	opt   Options
	snap  atomic.Pointer[Snapshot[T]] // stored under mu, read without
	busy  sync.WaitGroup              // flights not left behind, and calls of Changed

	mu         sync.Mutex
	seq        uint64 // the last number given to a flight or ticket
	applied    uint64 // the highest number whose outcome was taken
	plans      uint64 // counts changes of the plan, for Adjust
	flight     *flight
	timer      *time.Timer
	landed     time.Time // end of the newest flight
	forced     time.Time // start of the newest forced flight
	forceAt    time.Time // when a Force that came too early is carried out; zero: none waits
	forceFor   string    // and its reason
	stuck      int       // sources left behind that have not returned
	stuckUntil time.Time // no flight before
	transient  bool      // the newest failure was
	ended      int       // failures in a row that ended without a value to give
	closed     bool
	delivering bool
	queue      []*Snapshot[T] // for Changed
}

// New returns a Value without a value: it is cold, and nothing happens until the first Get, Ask or Force.
func New[T any](owner Owner[T], opt Options) *Value[T] {
	v := &Value[T]{owner: owner, opt: opt.withDefaults()}
	v.snap.Store(&Snapshot[T]{Due: true})
	return v
}

// Peek returns the newest snapshot, never nil. It is one atomic load: no clock, no lock, and it starts nothing.
func (v *Value[T]) Peek() *Snapshot[T] { return v.snap.Load() }

// Get returns a snapshot whose value may be used, or an error: the context's own if the reader left, else that of the
// last try, the same value to all readers, or [ErrClosed]. It waits as the package comment says. A valid value costs no
// clock reading: Get trusts the timers.
func (v *Value[T]) Get(ctx context.Context) (*Snapshot[T], error) {
	if s := v.snap.Load(); s.State == Valid && !s.frozen {
		return s, nil
	}
	return v.get(ctx, time.Now())
}

// GetAt is Get for an owner who must not trust timers, which do not run while a machine sleeps: the state is that at
// now, which may be ahead of the clock but not behind it.
func (v *Value[T]) GetAt(ctx context.Context, now time.Time) (*Snapshot[T], error) {
	s := v.snap.Load()
	if s.State == Valid && s.Plan.state(now) == Valid {
		return s, nil
	}
	return v.get(ctx, now)
}

func (v *Value[T]) get(ctx context.Context, now time.Time) (*Snapshot[T], error) {
	v.mu.Lock()
	s := v.snap.Load()
	st := s.Plan.state(now)
	if v.dueLocked(s, st, now) {
		v.beginLocked(now, st.String())
		s = v.snap.Load()
	}
	f, closed := v.flight, v.closed
	v.mu.Unlock()

	switch {
	case st == Valid || st == Soft || st == Expired && s.extended(now):
		return s.at(st), nil
	case f == nil || closed:
		return s.give(st, now, closed)
	case st == Hard:
		return v.waitHard(ctx, f, s)
	}
	select {
	case <-f.done:
		return v.settled()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waitHard waits for the flight f as long as Options.HardWait allows; then s is good enough.
func (v *Value[T]) waitHard(ctx context.Context, f *flight, s *Snapshot[T]) (*Snapshot[T], error) {
	wait := time.Until(f.start.Add(v.opt.HardWait))
	if wait <= 0 {
		return s.at(Hard), nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.done:
		return v.settled()
	case <-timer.C:
		return s.at(Hard), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// settled is what a reader gets whose flight is over: it starts no other.
func (v *Value[T]) settled() (*Snapshot[T], error) {
	v.mu.Lock()
	s, closed := v.snap.Load(), v.closed
	v.mu.Unlock()
	now := time.Now()
	return s.give(s.Plan.state(now), now, closed)
}

// give returns s if its value may be given out, else the reason why not.
func (s *Snapshot[T]) give(st State, now time.Time, closed bool) (*Snapshot[T], error) {
	switch {
	case s.usable(st, now):
		return s.at(st), nil
	case closed:
		return nil, ErrClosed
	case s.Err == nil:
		return nil, ErrNoValue
	}
	return nil, s.Err
}

// Ask starts a flight if a reader would, and waits for nothing. It reports whether it did.
func (v *Value[T]) Ask() bool {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.snap.Load()
	st := s.Plan.state(now)
	if !v.dueLocked(s, st, now) {
		return false
	}
	v.beginLocked(now, st.String())
	return true
}

// Force asks now, whatever the state and however long the next try was to be held back. It joins a flight in progress,
// and one that comes less than Options.MinGap after the last forced one is carried out by timer when the gap is over.
// It reports whether a flight is in progress when it returns.
func (v *Value[T]) Force(reason string) bool {
	eager := v.owner.Eager()
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.flight != nil:
		return true
	case v.closed || now.Before(v.stuckUntil):
		return false
	}
	if at := v.forced.Add(v.opt.MinGap); !v.forced.IsZero() && now.Before(at) {
		v.forceAt, v.forceFor = at, reason
		v.armLocked(v.snap.Load(), now, eager)
		return false
	}
	v.forced = now
	v.beginLocked(now, reason)
	return true
}

// Adjust changes the plan of the value in hand, for clocks that stepped and facts learnt late. The function is given
// the newest snapshot, returns the new plan, and may be called again if the value was replaced meanwhile. Without a
// value it is not called.
func (v *Value[T]) Adjust(plan func(*Snapshot[T]) Plan) {
	for {
		v.mu.Lock()
		s, plans, closed := v.snap.Load(), v.plans, v.closed
		v.mu.Unlock()
		if s.Plan == nil || closed {
			return
		}
		p := plan(s)
		done := v.step(func(s *Snapshot[T], _ time.Time) bool {
			if v.plans != plans {
				return false
			}
			v.plans++
			s.Plan = &p
			return true
		})
		if done {
			return
		}
	}
}

// Forgive forgets failures and back-off: the next reader may ask, and a cached error is gone. The value stays.
func (v *Value[T]) Forgive() {
	v.step(func(s *Snapshot[T], _ time.Time) bool {
		v.forgiveLocked(s)
		return true
	})
}

// Forget makes the Value cold: value, failures and back-off are gone. A flight in progress goes on.
func (v *Value[T]) Forget() {
	v.step(func(s *Snapshot[T], _ time.Time) bool {
		v.forgiveLocked(s)
		v.plans++
		var none T
		s.Value, s.Plan = none, nil
		return true
	})
}

func (v *Value[T]) forgiveLocked(s *Snapshot[T]) {
	s.Err, s.Failures, s.Next, s.tried = nil, 0, time.Time{}, time.Time{}
	v.transient, v.ended = false, 0
}

// Stop ends timer and flight and does not wait for them. Afterwards a value in hand is given out until its End.
func (v *Value[T]) Stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	v.closed = true
	v.publishLocked(time.Now(), func(s *Snapshot[T], _ time.Time) bool {
		s.frozen = true
		return true
	})
	if v.timer != nil {
		v.timer.Stop()
	}
	if f := v.flight; f != nil {
		f.cancel()
		f.watch.Reset(grace)
	}
}

// Close is Stop, and returns when the flight and the last call of Changed are over. A source that ignores the end of its
// context is left behind. Close is idempotent, and must not be called by the owner's methods.
func (v *Value[T]) Close() {
	v.Stop()
	v.busy.Wait()
}
