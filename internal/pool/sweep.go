package pool

import "time"

// A sweeper closes what nobody asks for: it is one timer, set for the connection that will first have been idle for too
// long, or be too old. It is guarded by the pool's lock, and costs a request nothing: a connection that was used meanwhile is
// found out when the timer fires.
type sweeper struct {
	timer *time.Timer
	at    time.Time // zero = not set
}

// sweepByLocked makes sure that the timer fires in time for c, which has become idle.
func (p *Pool) sweepByLocked(c *conn, now time.Time) {
	p.sweepAtLocked(p.dueLocked(c, now), now)
}

// dueLocked is when something is to be done about an idle connection.
func (p *Pool) dueLocked(c *conn, now time.Time) time.Time {
	limit, _ := p.limit.inForce(p.cfg.IdleTimeout, now)
	due := c.idleSince.Add(limit)
	if c.maxAge > 0 {
		percent := time.Duration(100)
		if !c.renewing && c.requests > 0 && c.agePercent(now) < renewAtAge {
			percent = renewAtAge
		}
		if old := c.born.Add(c.maxAge*percent/100 + 1); old.Before(due) {
			due = old
		}
	}
	return due
}

func (p *Pool) sweepAtLocked(at, now time.Time) {
	if p.draining || !p.sweep.at.IsZero() && !at.Before(p.sweep.at) {
		return
	}
	p.sweep.at = at
	wait := max(at.Sub(now), time.Millisecond) // never a busy loop
	if p.sweep.timer == nil {
		p.sweep.timer = time.AfterFunc(wait, p.sweepNow)
		return
	}
	p.sweep.timer.Reset(wait)
}

// sweepSoonerLocked sets the timer anew after the idle limit has become shorter.
func (p *Pool) sweepSoonerLocked(now time.Time) {
	for _, c := range p.conns {
		if c.streams == 0 && c.state == stateOpen {
			p.sweepByLocked(c, now)
		}
	}
}

// sweepNow closes what is over its time, asks for replacements, and looks for HTTP/2 connections that have had a GOAWAY:
// while idle they say so by nothing but having no room.
func (p *Pool) sweepNow() {
	now := time.Now()
	p.mu.Lock()
	p.sweep.at = time.Time{}
	for i := len(p.conns) - 1; i >= 0; i-- { // closing one moves the last into its place
		if c := p.conns[i]; c.streams == 0 && c.state == stateOpen && !p.overLocked(c, now) && c.requests > 0 {
			p.renewLocked(c, now)
		}
	}
	var ask []*conn
	for _, c := range p.conns {
		if c.streams == 0 && c.state == stateOpen {
			p.sweepByLocked(c, now)
			if c.h2 {
				ask = append(ask, c)
			}
		}
	}
	p.mu.Unlock()
	p.sweepGoAways(ask, now)
	p.deliver()
}

func (p *Pool) sweepGoAways(idle []*conn, now time.Time) {
	for _, c := range idle {
		if c.cc.Available() > 0 {
			continue
		}
		p.mu.Lock()
		if c.streams == 0 && !c.dead {
			p.closeLocked(c, now, closeCause{reason: ReasonGoAway, detail: "idle"})
		}
		p.mu.Unlock()
	}
}

// idleMark is the moment since which a connection has been idle; zero = there is none.
type idleMark struct{ since time.Time }

func (m idleMark) before(other idleMark) bool {
	return !m.since.IsZero() && (other.since.IsZero() || m.since.Before(other.since))
}

// longestIdle is asked by the group, which looks for a connection to close.
func (p *Pool) longestIdle() idleMark {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.longestIdleLocked(); c != nil {
		return idleMark{c.idleSince}
	}
	return idleMark{}
}

func (p *Pool) longestIdleLocked() *conn {
	var longest *conn
	for _, c := range p.conns {
		if c.streams == 0 && c.state == stateOpen && (longest == nil || c.idleSince.Before(longest.idleSince)) {
			longest = c
		}
	}
	return longest
}

// evict closes the connection that has been idle longest, for another pool's dial, and reports whether there was one.
func (p *Pool) evict() bool {
	p.mu.Lock()
	c := p.longestIdleLocked()
	if c != nil {
		p.closeLocked(c, time.Now(), closeCause{reason: ReasonIdleLimit, detail: "group"})
	}
	p.mu.Unlock()
	p.deliver()
	return c != nil
}
