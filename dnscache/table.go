package dnscache

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

const (
	// tickEvery is how often the table is swept and the clocks are compared, while there are names.
	tickEvery = 30 * time.Second

	// evictionSample is how many random names a new one competes with at the bound.
	evictionSample = 8
)

// entryFor returns the entry of a canonical name, made if it is new; nil if there is no room for it.
func (c *core) entryFor(name string) (*entry, error) {
	if e, ok := c.names.Load(name); ok {
		return e.(*entry), nil
	}
	if c.isClosed() {
		return nil, ErrClosed
	}
	e := newEntry(c, name)
	kept, gone := c.insert(e)
	if gone != nil {
		c.stats.evictions.Add(1)
		c.retire(gone)
	}
	return kept, nil
}

// insert puts e into the table, or returns the entry that was quicker, and with it the one that had to go.
func (c *core) insert(e *entry) (kept, gone *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.names.Load(e.name); ok {
		return old.(*entry), nil
	}
	if len(c.entries) >= c.cfg.maxNames {
		if gone = c.idlestLocked(time.Now()); gone == nil {
			return nil, nil
		}
		c.removeLocked(gone)
	}
	e.index = len(c.entries)
	c.entries = append(c.entries, e)
	c.names.Store(e.name, e)
	if c.ticker == nil {
		c.ticker = time.AfterFunc(tickEvery, c.tick)
	}
	return e, gone
}

// idlestLocked returns the longest idle of a few random entries that may go, nil if none may.
func (c *core) idlestLocked(now time.Time) (idlest *entry) {
	n := len(c.entries)
	start, found := rand.IntN(n), 0
	stride := 1 + 2*rand.IntN(max(1, n/2)) // odd, so that with any other entry count few are met twice
	for i := range n {
		e := c.entries[(start+i*stride)%n]
		if i >= 8*evictionSample { // nearly all are pinned: look at each
			e = c.entries[(start+i)%n]
		}
		if e.pinned.Load() || e.waiters.Load() > 0 {
			continue
		}
		e.noticeLocked(now)
		if idlest == nil || e.used.Before(idlest.used) {
			idlest = e
		}
		if found++; found == evictionSample {
			break
		}
	}
	return idlest
}

// noticeLocked brings the time of last use up to date: reads leave a count, not a time.
func (e *entry) noticeLocked(now time.Time) {
	if n := e.hits.n.Load(); n != e.seen || e.waiters.Load() > 0 {
		e.seen, e.used = n, now
	}
}

func (c *core) removeLocked(e *entry) {
	last := len(c.entries) - 1
	c.entries[e.index] = c.entries[last]
	c.entries[e.index].index = e.index
	c.entries[last] = nil
	c.entries = c.entries[:last]
	e.index = -1
	c.names.Delete(e.name)
	c.stats.goneHits.Add(e.hits.n.Load())
}

// retire ends entries that are out of the table.
func (c *core) retire(gone ...*entry) {
	for _, e := range gone {
		e.stop()
	}
	c.spawn(func() {
		for _, e := range gone {
			e.wait()
		}
	})
}

// tick runs while there are names.
func (c *core) tick() {
	if !c.enter() {
		return
	}
	defer c.work.Done()
	now := time.Now()
	c.checkClock()
	c.checkFiles(now)
	c.retire(c.sweep(now)...)
}

// sweep takes out what nobody has asked for, and sets the timer for the next time.
func (c *core) sweep(now time.Time) (gone []*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range slices.Backward(c.entries) { // what takes the place of a removed entry has been looked at
		e.noticeLocked(now)
		if e.pinned.Load() || e.waiters.Load() > 0 || now.Sub(e.idleSince()) <= c.cfg.idle {
			continue
		}
		c.removeLocked(e)
		gone = append(gone, e)
	}
	switch {
	case c.ticker == nil:
	case len(c.entries) > 0:
		c.ticker.Reset(tickEvery)
	default:
		c.ticker = nil
	}
	return gone
}

// idleSince is the later of the last use that was noticed and the end of the records.
func (e *entry) idleSince() time.Time {
	since := e.used
	for _, r := range e.recs {
		if r == nil {
			continue
		}
		s := r.value.Peek()
		end := s.Next
		if s.Value != nil {
			end = s.Value.end
		}
		if end.After(since) {
			since = end
		}
	}
	return since
}

// all returns the entries, to be visited without the lock.
func (c *core) all() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*entry(nil), c.entries...)
}

// clear empties the table for good.
func (c *core) clear() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := c.entries
	for _, e := range gone {
		c.names.Delete(e.name)
		c.stats.goneHits.Add(e.hits.n.Load())
	}
	c.entries = nil
	if c.ticker != nil {
		c.ticker.Stop()
	}
	if c.again != nil {
		c.again.Stop()
	}
	return gone
}

// renew makes the records due at once, served meanwhile as stale, and drops what was denied or failed.
func (e *entry) renew(now time.Time) {
	e.mu.Lock()
	e.memo = memo{}
	for _, r := range e.recs {
		if r != nil {
			r.failures, r.lost = 0, false
		}
	}
	e.mu.Unlock()
	for _, r := range e.recs {
		if r == nil {
			continue
		}
		if a := r.value.Peek().Value; !r.holdsAddrs() && (a == nil || !a.beside) {
			r.value.Forget()
			continue
		}
		r.value.Forgive()
		r.value.Adjust(func(s *fresh.Snapshot[*answer]) fresh.Plan {
			p := *s.Plan
			p.Soft = earlier(p.Soft, now)
			if s.Value.beside {
				return p
			}
			p.Aged = earlier(p.Aged, now)
			if soft := now.Add(min(softStale, e.core.cfg.maxStale)); soft.Before(p.Hard) {
				p.Hard = soft
			}
			return p
		})
	}
}

// age makes the records older by d.
func (e *entry) age(d time.Duration) {
	for _, r := range e.recs {
		if r == nil {
			continue
		}
		r.value.Adjust(func(s *fresh.Snapshot[*answer]) fresh.Plan {
			p := *s.Plan
			for _, t := range []*time.Time{&p.Soft, &p.Aged, &p.Hard, &p.End} {
				if !t.IsZero() {
					*t = t.Add(-d)
				}
			}
			return p
		})
	}
}
