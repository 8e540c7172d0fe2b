package creds

import (
	"slices"
	"time"
)

// maxReason bounds the reason that is kept of a rejection.
const maxReason = 100

// invalidate is InvalidateIf of Cache and Tokens.
func (c *core[T]) invalidate(key, reason string) bool {
	it := c.val.Peek().Value
	if it == nil || key == "" || key != it.key {
		return false
	}
	c.metrics.Happened(eventRejected)
	now := time.Now()
	c.mu.Lock()
	c.stats.Rejections++
	c.stats.LastRejection = reason[:min(len(reason), maxReason)]
	if it.rejected {
		c.mu.Unlock()
		return true // forced once already: what follows is the back-off's business
	}
	it.rejected, it.owed = true, true
	it.rejectFrom = now
	if next := c.forcedAt.Add(forcedGap); !c.forcedAt.IsZero() && now.Before(next) {
		it.rejectFrom = next
	}
	c.refused.add(key)
	it.publish(c, it.left(now, c.wall(now)))
	c.mu.Unlock()
	c.val.Force(string(TriggerRejected))
	c.replan() // after Force, so that the timer does not start the fetch under another name
	return true
}

// replaced reports whether key may be assumed useless: it is not the current one, or has been rejected.
func (c *core[T]) replaced(key string) bool {
	s := c.val.Peek().Value
	return s != nil && (s.key != key || s.public.Load().Rejected)
}

// ring remembers the last keys that services rejected.
type ring struct {
	keys [8]string
	next int
}

func (r *ring) add(key string) {
	if !r.has(key) {
		r.keys[r.next%len(r.keys)] = key
		r.next++
	}
}

func (r *ring) has(key string) bool { return slices.Contains(r.keys[:], key) }
