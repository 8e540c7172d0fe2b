package fresh

import "time"

// step is the one way in which a Value changes, flights' beginnings apart: it applies the change, moves the state to
// that of this moment, starts a flight if the owner is eager and one is due, sets the timer, and tells the owner. It
// returns what change returned; false means that nothing is to be told.
func (v *Value[T]) step(change func(s *Snapshot[T], now time.Time) bool) bool {
	eager := v.owner.Eager()
	now := time.Now()
	v.mu.Lock()
	if v.closed {
		// Nothing is published any more, but a flight has to end.
		s := *v.snap.Load()
		change(&s, now)
		v.mu.Unlock()
		return false
	}
	v.busy.Add(1)
	defer v.busy.Done()
	ok := v.publishLocked(now, change)
	if ok {
		v.queue = append(v.queue, v.snap.Load())
	}
	if reason := v.wantedLocked(v.snap.Load(), now, eager); reason != "" {
		v.beginLocked(now, reason)
	}
	v.armLocked(v.snap.Load(), now, eager)
	v.mu.Unlock()
	v.deliver()
	return ok
}

// publishLocked stores a changed copy of the newest snapshot.
func (v *Value[T]) publishLocked(now time.Time, change func(*Snapshot[T], time.Time) bool) bool {
	s := *v.snap.Load()
	ok := change(&s, now)
	s.State = s.Plan.state(now)
	s.Aged = s.Plan != nil && passed(s.Plan.Aged, now)
	s.Due = v.dueLocked(&s, s.State, now)
	s.Stuck = v.stuck
	if ok {
		v.snap.Store(&s)
	}
	return ok
}

// tick is what the timer does: the state may have changed, and a flight may be due.
func (v *Value[T]) tick() {
	v.step(func(s *Snapshot[T], now time.Time) bool {
		st := s.Plan.state(now)
		return st != s.State ||
			s.Aged != (s.Plan != nil && passed(s.Plan.Aged, now)) ||
			s.Due != v.dueLocked(s, st, now)
	})
}

// armLocked sets the timer to the next instant at which something changes by itself.
func (v *Value[T]) armLocked(s *Snapshot[T], now time.Time, eager bool) {
	var at time.Time
	if p := s.Plan; p != nil {
		at = earliest(at, p.Soft, now)
		at = earliest(at, p.Aged, now)
		at = earliest(at, p.Hard, now)
		at = earliest(at, p.End, now)
	}
	at = earliest(at, s.Next, now)
	at = earliest(at, v.forceAt, now)
	if v.stuck > 0 {
		at = earliest(at, v.stuckUntil, now)
	}
	if eager && s.State != Valid {
		at = earliest(at, v.landed.Add(floor), now)
	}
	switch {
	case at.IsZero():
		if v.timer != nil {
			v.timer.Stop()
		}
	case v.timer == nil:
		v.timer = time.AfterFunc(time.Until(at), v.tick)
	default:
		v.timer.Reset(time.Until(at))
	}
}

// deliver tells the owner what has changed. One goroutine does it at a time; what others add meanwhile, it takes along.
func (v *Value[T]) deliver() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.delivering {
		return
	}
	v.delivering = true
	for len(v.queue) > 0 && !v.closed {
		s := v.queue[0]
		v.queue = v.queue[1:]
		v.mu.Unlock()
		v.owner.Changed(s)
		v.mu.Lock()
	}
	v.queue, v.delivering = nil, false
}
