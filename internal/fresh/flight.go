package fresh

import (
	"context"
	"runtime/debug"
	"time"
)

// flight is one question to the source, with those who wait for it.
type flight struct {
	seq    uint64
	start  time.Time
	done   chan struct{} // closed when the outcome is published, or the source left behind
	cancel context.CancelFunc
	watch  *time.Timer // leaves the source behind

	// guarded by Value.mu; at most one of them is set
	landing   bool
	abandoned bool
}

// dueLocked reports whether a reader who finds state st starts a flight.
func (v *Value[T]) dueLocked(s *Snapshot[T], st State, now time.Time) bool {
	switch {
	case st == Valid || v.flight != nil || v.closed || now.Before(v.stuckUntil):
		return false
	}
	return v.transient || !now.Before(s.Next)
}

// wantedLocked returns the reason for which a timer should start a flight now, "" for none.
func (v *Value[T]) wantedLocked(s *Snapshot[T], now time.Time, eager bool) string {
	switch {
	case v.flight != nil || v.closed || now.Before(v.stuckUntil):
		return ""
	case passed(v.forceAt, now):
		v.forced = now
		return v.forceFor
	case !eager || s.State == Valid || now.Before(v.landed.Add(floor)):
		return ""
	case !s.Next.IsZero() && !now.Before(s.Next), s.Next.IsZero() && s.Plan != nil && passed(s.Plan.Soft, now):
		return s.State.String()
	}
	return ""
}

// beginLocked starts a flight. Its context is detached: it belongs to the Value, which cancels it in Stop.
func (v *Value[T]) beginLocked(now time.Time, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), v.opt.Timeout)
	v.seq++
	f := &flight{seq: v.seq, start: now, done: make(chan struct{}), cancel: cancel}
	f.watch = time.AfterFunc(v.opt.Timeout+grace, func() { v.abandon(f) })
	if !v.forceAt.IsZero() { // whoever begins it, it is the one that was forced
		v.forced, v.forceAt = now, time.Time{}
	}
	v.flight = f
	v.busy.Add(1)
	v.publishLocked(now, func(s *Snapshot[T], now time.Time) bool {
		s.Since = now
		return true
	})
	go v.fly(ctx, f, reason)
}

// fly runs the flight. The landing is deferred, since a Fetch that calls runtime.Goexit never comes back here.
func (v *Value[T]) fly(ctx context.Context, f *flight, reason string) {
	out := Outcome[T]{Err: ErrGoexit}
	defer func() { v.land(f, out) }()
	func() {
		defer func() {
			if r := recover(); r != nil {
				out = Outcome[T]{Err: &PanicError{Value: r, Stack: debug.Stack()}}
			}
		}()
		out = v.owner.Fetch(ctx, reason)
	}()
}

// land takes the flight's outcome.
func (v *Value[T]) land(f *flight, out Outcome[T]) {
	f.cancel()
	f.watch.Stop()
	v.mu.Lock()
	late := f.abandoned
	f.landing = true
	v.mu.Unlock()
	if late {
		v.landLate(out)
		return
	}
	defer v.busy.Done()
	j := v.judge(out, time.Now())
	v.step(func(s *Snapshot[T], now time.Time) bool {
		v.endLocked(s, f, now)
		v.takeLocked(s, f.seq, f.start, out, j)
		return true
	})
}

// landLate takes the answer of a source that was left behind, if it is good and ends later than what is held.
func (v *Value[T]) landLate(out Outcome[T]) {
	var j judgement
	if out.Verdict == Replace {
		j = v.judge(out, time.Now())
	}
	v.step(func(s *Snapshot[T], now time.Time) bool {
		v.stuck--
		v.stuckUntil = time.Time{}
		if v.stuck > 0 {
			v.stuckUntil = now.Add(v.opt.StuckGap)
		}
		if out.Verdict == Replace && endsLater(&j.plan, s.Plan) {
			v.seq++
			v.takeLocked(s, v.seq, now, out, j)
		}
		return true
	})
}

// abandon leaves behind a source that did not come back in time: its readers get ErrStuck, and the next flight has to
// wait for Options.StuckGap, or for one of two to return.
func (v *Value[T]) abandon(f *flight) {
	out := Outcome[T]{Err: ErrStuck}
	j := v.judge(out, time.Now())
	left := false
	v.step(func(s *Snapshot[T], now time.Time) bool {
		if v.flight != f || f.landing {
			return false
		}
		left, f.abandoned = true, true
		v.stuck++
		v.stuckUntil = now.Add(v.opt.StuckGap)
		if v.stuck >= maxStuck {
			v.stuckUntil = now.Add(forever)
		}
		v.endLocked(s, f, now)
		v.takeLocked(s, f.seq, f.start, out, j)
		return true
	})
	if left {
		f.cancel()
		v.busy.Done()
	}
}

// forever is longer than any process lives, and short enough to be added to a time.
const forever = 100 * 365 * 24 * time.Hour

// endLocked ends the flight. Its readers wake up, and find what is published before the lock is given back.
func (v *Value[T]) endLocked(s *Snapshot[T], f *flight, now time.Time) {
	v.flight, v.landed = nil, now
	s.Since = time.Time{}
	s.Tries++
	close(f.done)
}

// endsLater reports whether p ends after held, which may be nil; a zero End never comes.
func endsLater(p, held *Plan) bool {
	switch {
	case held == nil:
		return true
	case held.End.IsZero():
		return false
	}
	return p.End.IsZero() || p.End.After(held.End)
}

// judgement is what the owner makes of an outcome.
type judgement struct {
	plan Plan      // with Replace
	next time.Time // otherwise
}

// judge asks the owner, outside the lock.
func (v *Value[T]) judge(out Outcome[T], now time.Time) judgement {
	if out.Verdict == Replace {
		return judgement{plan: v.owner.Plan(out.Value, now)}
	}
	return judgement{next: now.Add(max(floor, v.owner.Delay(v.try(out, now))))}
}

// takeLocked applies an outcome asked for at start, unless one asked for later was there first.
func (v *Value[T]) takeLocked(s *Snapshot[T], seq uint64, start time.Time, out Outcome[T], j judgement) bool {
	if seq < v.applied {
		return false
	}
	v.applied = seq
	if out.Verdict == Replace {
		v.forgiveLocked(s)
		v.plans++
		s.Value, s.Plan, s.Gen = out.Value, &j.plan, seq
		return true
	}
	v.keepLocked(s, start, out)
	s.Next = j.next
	return true
}

// keepLocked notes an outcome that brought no value.
func (v *Value[T]) keepLocked(s *Snapshot[T], start time.Time, out Outcome[T]) {
	s.Err, s.tried = out.Err, start
	v.transient = out.Transient
	if out.Err == nil {
		s.Failures, v.ended = 0, 0
	} else {
		s.Failures++
		v.ended = nextEnded(v.ended, s.Plan.state(time.Now()))
	}
	if out.Verdict == Drop {
		var none T
		v.plans++
		s.Value, s.Plan = none, nil
	}
}

// try describes an outcome to the owner.
func (v *Value[T]) try(out Outcome[T], now time.Time) Try {
	v.mu.Lock()
	s, ended := v.snap.Load(), v.ended
	v.mu.Unlock()
	t := Try{Err: out.Err, State: s.Plan.state(now)}
	if out.Verdict == Drop {
		t.State = Cold
	}
	if s.Plan != nil && !s.Plan.End.IsZero() && t.State != Cold {
		t.Left = s.Plan.End.Sub(now)
	}
	if out.Err != nil {
		t.Failures = s.Failures + 1
		t.Ended = nextEnded(ended, t.State)
	}
	return t
}

func nextEnded(ended int, st State) int {
	if st == Cold || st == Expired {
		return ended + 1
	}
	return 0
}

// Ticket takes a place in the order of flights without starting one, for an answer that the owner gets on the side: ask
// for it before the question is put, and hand it to Offer with the answer.
func (v *Value[T]) Ticket() Ticket {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq++
	return Ticket{v.seq, time.Now()}
}

// Ticket is a place in the order of answers; see [Value.Ticket].
type Ticket struct {
	seq   uint64
	start time.Time
}

// Offer takes an outcome that came by another way than Fetch, as if a flight had begun when the ticket was taken. It
// reports false, and changes nothing, if an outcome asked for later is there already.
func (v *Value[T]) Offer(t Ticket, out Outcome[T]) bool {
	j := v.judge(out, time.Now())
	return v.step(func(s *Snapshot[T], _ time.Time) bool {
		return v.takeLocked(s, t.seq, t.start, out, j)
	})
}
