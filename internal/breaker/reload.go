package breaker

import "time"

// Reload returns a breaker with new settings for the same endpoint. It begins closed and without counts, but what b had
// promised stands: if b is open, the new one admits nothing until that time is over. Changes go on being told to b's
// OnChange, in order; cfg.OnChange is not looked at. Permits of b may still be reported, and no longer matter.
func (b *Breaker) Reload(cfg Config) *Breaker {
	n := newBreaker(cfg, b.notes)
	now := time.Now()

	b.mu.Lock()
	from := state(b.stamp.Load())
	end := b.held.Load()
	if from == Open {
		end = max(end, b.until.Load())
	}
	if end != 0 {
		from = Open
	}
	left := time.Duration(end - b.instant(now))
	retired := b.retired
	b.retired = true
	b.mu.Unlock()

	switch {
	case retired: // its successor has told the rest
	case from == Open && left > 0 && !b.cfg.Shadow && !n.cfg.Shadow:
		n.held.Store(n.instant(now.Add(left)))
	case from != Closed:
		b.notes.add(Change{From: from, To: Closed, At: now})
	}
	b.notes.deliver()
	return n
}
