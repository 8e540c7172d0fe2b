package creds

import "time"

// begin starts looking at the clocks, and at a polled source, with the first read or Start.
func (c *core[T]) begin() {
	c.began.Do(func() {
		now := time.Now()
		c.mu.Lock()
		c.looked, c.lookedAt = now, c.wall(now)
		c.mu.Unlock()
		c.every(lookEvery, func() { c.look(time.Now()) })
		if c.source.poll > 0 {
			c.every(c.source.poll, func() {
				if c.source.changed() {
					c.val.Force(string(TriggerPoll))
				}
			})
		}
	})
}

// every calls f at intervals, counted from its end, until the core is closed. At rest that costs a timer, not a goroutine.
func (c *core[T]) every(d time.Duration, f func()) {
	var t *time.Timer
	tick := func() {
		c.mu.Lock()
		if c.closed.Load() {
			c.mu.Unlock()
			return
		}
		c.ticks.Add(1)
		c.mu.Unlock()
		defer c.ticks.Done()
		f()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed.Load() {
			t.Reset(d)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.Load() {
		t = time.AfterFunc(d, tick)
		c.timers = append(c.timers, t)
	}
}

// look notices a step of the wall clock: since the last look it has gone more than 2 s farther, or less far, than
// monotonic time. A suspend is one, too, since monotonic time stands still meanwhile.
func (c *core[T]) look(now time.Time) {
	wall := c.wall(now)
	c.mu.Lock()
	step := time.Duration(wall-c.lookedAt) - now.Sub(c.looked)
	c.looked, c.lookedAt = now, wall
	if step.Abs() > backSlack {
		c.stats.ClockSteps++
		c.stats.ClockOffset += step
	}
	c.mu.Unlock()
	c.compare(now, backSlack)
}

// compare draws the plan anew if the wall clock says something else than it does, by more than the tolerance. A wall clock
// that was set forward, or a machine that slept, shortens the life; one that was set back before the receipt makes a
// refresh due, as nobody can tell what E means now.
func (c *core[T]) compare(now time.Time, tolerance time.Duration) {
	it := c.val.Peek().Value
	if it == nil || it.expires.IsZero() {
		return
	}
	wall := c.wall(now)
	byAge := it.life - now.Sub(it.received)
	byWall := it.expires.Sub(time.Unix(0, wall))
	c.mu.Lock()
	shift := max(0, byAge-byWall)
	back := wall < it.backWall
	changed := (shift-it.shift).Abs() > tolerance || back != !it.back.IsZero()
	if changed {
		it.shift, it.back = shift, time.Time{}
		if back {
			it.back = now
		}
	}
	c.mu.Unlock()
	if changed {
		c.replan()
	}
}

// setSkew notes how far a service's clock is ahead of ours.
func (c *core[T]) setSkew(skew time.Duration) {
	c.mu.Lock()
	changed := (skew - c.skew).Abs() >= time.Second
	if changed {
		c.skew = skew
	}
	c.mu.Unlock()
	if changed {
		c.replan()
	}
}
