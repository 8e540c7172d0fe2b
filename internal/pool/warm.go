package pool

import (
	"context"
	"net"
	"time"
)

const (
	warmFor    = 5 * time.Minute // MinIdle holds while the endpoint was used within this time
	spareGap   = time.Second     // between the end of a spare connection and the dial of another
	renewAtAge = 95              // percent of the age limit from which a busy connection has its replacement dialled
)

// warmth is what is to be dialled though nobody waits for it. It is guarded by the pool's lock.
type warmth struct {
	wants []*warmWant
	used  time.Time // last check-out; the pool's birth counts as one
	quiet bool      // nothing is dialled ahead any more
	after time.Time // MinIdle asks for nothing before: a spare connection has ended unused
}

// A warmWant is one connection wanted: for Prewarm, or to replace another.
type warmWant struct {
	pre *prewarm
	old *conn
}

// A prewarm is one call of Prewarm.
type prewarm struct {
	left int
	err  error
	done chan struct{} // closed when none is left
}

// wantWarmLocked reports whether a connection is wanted that nobody waits for.
func (p *Pool) wantWarmLocked(now time.Time) bool {
	if len(p.warm.wants) > 0 {
		return true
	}
	return !p.warm.quiet && p.ready.len+p.gate.warming < p.cfg.MinIdle && now.Sub(p.warm.used) < warmFor &&
		!now.Before(p.warm.after) && !p.group.full.Load()
}

// spareLostLocked keeps MinIdle from dialling in circles, for a server or a limit that ends every spare connection at once.
func (p *Pool) spareLostLocked(now time.Time) {
	if p.cfg.MinIdle > 0 && !p.draining {
		p.warm.after = now.Add(spareGap)
		p.reopenInLocked(spareGap, now)
	}
}

func (p *Pool) popWarmLocked() *warmWant {
	if len(p.warm.wants) == 0 {
		return nil // for MinIdle
	}
	w := p.warm.wants[0]
	p.warm.wants = p.warm.wants[1:]
	return w
}

// warmDoneLocked tells whoever wanted a dial how it ended. A connection that has been replaced retires: HTTP/2 ones at once,
// HTTP/1 ones when their age is over, since they are handed out by one request at a time, and those whose address is gone
// when it is their turn.
func (p *Pool) warmDoneLocked(w *warmWant, c *conn, err error, now time.Time) {
	if err == nil && c.state == stateClosed {
		err = net.ErrClosed // dead on arrival
	}
	switch {
	case w == nil:
	case w.pre != nil:
		w.pre.endLocked(err)
	case err != nil:
		w.old.renewing = false // asked for again at its next check-out
	case p.goneLocked(w.old):
		w.old.renewing, w.old.replaced = false, true // if it is taken again, one was not enough
		p.moveLocked(now)
	case w.old.h2 && w.old.agePercent(now) >= renewAtAge:
		p.retireLocked(w.old, now, closeCause{reason: ReasonAge})
	}
}

// renewLocked asks for the replacement of a connection that has nearly reached its age limit, or whose address is gone, unless
// another one is free: no call should have to wait for it later.
func (p *Pool) renewLocked(c *conn, now time.Time) {
	if c.renewing || p.draining || p.warm.quiet || c.agePercent(now) < renewAtAge && !p.goneLocked(c) {
		return
	}
	for n := p.ready.head; n != nil; n = n.next {
		if n.of != c && n.of.agePercent(now) < renewAtAge && !p.goneLocked(n.of) {
			return
		}
	}
	c.renewing = true
	p.warm.wants = append(p.warm.wants, &warmWant{old: c})
	p.gateLocked(now)
}

// Quiet stops all dials that nobody waits for, MinIdle's and those for replacements, for good: the process is about to end.
func (p *Pool) Quiet() {
	p.mu.Lock()
	p.warm.quiet = true
	h1 := p.h1
	p.mu.Unlock()
	if h1 != nil {
		h1.Quiet()
	}
}

// Prewarm dials, through the gate, until n connections are open, and returns when the dials have ended. The error is that of
// the first dial that failed, the context's, or ErrClosed. A context that ends stops no dial.
func (p *Pool) Prewarm(ctx context.Context, n int) error {
	pre := p.prewarm(n)
	if pre == nil {
		return ErrClosed
	}
	select {
	case <-pre.done:
		return pre.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Pool) prewarm(n int) *prewarm {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return nil
	}
	pre := &prewarm{done: make(chan struct{})}
	pre.left = min(n, p.cfg.MaxConns) - p.openLocked() - p.gate.dials
	if pre.left <= 0 {
		close(pre.done)
		return pre
	}
	for range pre.left {
		p.warm.wants = append(p.warm.wants, &warmWant{pre: pre})
	}
	p.gateLocked(time.Now())
	return pre
}

func (w *prewarm) endLocked(err error) {
	if w.err == nil {
		w.err = err
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// coolLocked drops every want, for the pool is closing.
func (p *Pool) coolLocked() {
	for _, w := range p.warm.wants {
		if w.pre != nil {
			w.pre.endLocked(ErrClosed)
		}
	}
	p.warm.wants = nil
}
