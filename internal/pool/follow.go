package pool

import (
	"net/netip"
	"slices"
	"time"
)

// An Answer is what DNS says of an endpoint's name.
type Answer struct {
	Addrs []netip.Addr  // that may be dialled now; none = there is no answer
	TTL   time.Duration // how long it holds

	// Fresh4 and Fresh6 say that the addresses of that family have just come from DNS. An address is missed only in such
	// an answer: not in one that is stale, held or remembered, nor in one that lacks the family.
	Fresh4, Fresh6 bool
}

const (
	missedAnswers = 2                // fresh answers in a row without an address,
	missedFor     = 30 * time.Second // and at least this long, or twice the TTL, before it is gone
	rotatingFor   = 10 * time.Minute // after an address has come back, absence says nothing
	rememberFor   = time.Hour        // an address missing for so long is new when it comes back
	maxRemembered = 1024             // addresses remembered
	leaveTime     = 10 * time.Second // in which at most one in leaveShare of the open connections leaves
	leaveShare    = 5
)

// A follower knows which addresses of the endpoint's name are still listed. Connections to those that are gone leave one by
// one, so that a change of DNS is no storm of handshakes. It is guarded by the pool's lock.
type follower struct {
	begun    bool
	stop     func() // ends the watch; nil = it has not begun, or is over
	known    map[netip.Addr]*listing
	rotating time.Time // until then nothing is gone
	missing  int       // addresses not listed any more; 0 while the name rotates
	gone     int       // of those, the ones that are gone
	next     time.Time // earliest time for another connection to leave
	armed    bool      // the timer is set for it
	timer    *time.Timer
}

// A listing is the state of one address. Its zero value is an address that is listed.
type listing struct {
	misses int       // fresh answers in a row without it
	since  time.Time // the first of them
	gone   bool
}

// watch begins to follow the name, unless that has been done.
func (p *Pool) watch() {
	if p.cfg.Watch == nil || p.cfg.Proxy != nil || !p.beginWatch() {
		return
	}
	stop := p.cfg.Watch(p.answer)
	p.mu.Lock()
	over := p.draining
	if !over {
		p.follow.stop = stop
	}
	p.mu.Unlock()
	if over {
		stop()
	}
}

func (p *Pool) beginWatch() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follow.begun || p.draining {
		return false
	}
	p.follow.begun = true
	return true
}

// unwatch ends the watch, if there is one.
func (p *Pool) unwatch() {
	p.mu.Lock()
	stop := p.follow.stop
	p.follow.stop = nil
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// answer is told what DNS says, in order.
func (p *Pool) answer(a Answer) {
	if len(a.Addrs) == 0 {
		return // failed and negative answers say nothing about connections that work
	}
	now := time.Now()
	p.mu.Lock()
	if !p.draining {
		p.listAddrsLocked(a, now)
		p.missAddrsLocked(a, now)
		p.countAddrsLocked(now)
		p.recoverLocked(a, now)
		p.moveLocked(now)
	}
	p.mu.Unlock()
	p.deliver()
}

// listAddrsLocked takes down what the answer lists. An address that had been missing makes the name a rotating one.
func (p *Pool) listAddrsLocked(a Answer, now time.Time) {
	f := &p.follow
	if f.known == nil {
		f.known = make(map[netip.Addr]*listing)
	}
	for _, addr := range a.Addrs {
		l := f.known[addr]
		switch {
		case l == nil:
			f.remember(addr)
		case l.misses > 0:
			f.rotating = now.Add(rotatingFor)
			*l = listing{}
		}
	}
}

// remember adds an address, in place of the one that has been missing longest if there are too many.
func (f *follower) remember(addr netip.Addr) *listing {
	if len(f.known) >= maxRemembered {
		var oldest netip.Addr
		for other, l := range f.known {
			if l.misses > 0 && (!oldest.IsValid() || l.since.Before(f.known[oldest].since)) {
				oldest = other
			}
		}
		delete(f.known, oldest)
	}
	l := new(listing)
	f.known[addr] = l
	return l
}

// missAddrsLocked counts the addresses that a fresh answer lacks, those of connections that no answer had among them.
func (p *Pool) missAddrsLocked(a Answer, now time.Time) {
	f := &p.follow
	for _, c := range p.conns {
		if addr := c.peer.Remote.Addr(); addr.IsValid() && f.known[addr] == nil {
			f.remember(addr)
		}
	}
	grace := max(2*a.TTL, missedFor)
	for addr, l := range f.known {
		if !a.misses(addr) {
			continue
		}
		if l.misses++; l.misses == 1 {
			l.since = now
		}
		switch missed := now.Sub(l.since); {
		case now.Before(f.rotating) || l.gone:
		case l.misses >= missedAnswers && missed >= grace:
			l.gone = true
			p.events.add(Event{Kind: EventGone, Time: now, Remote: netip.AddrPortFrom(addr, 0)})
		}
	}
}

// misses reports whether the answer says that addr is not listed.
func (a *Answer) misses(addr netip.Addr) bool {
	fresh := a.Fresh6
	if addr.Is4() {
		fresh = a.Fresh4
	}
	return fresh && !slices.Contains(a.Addrs, addr)
}

// countAddrsLocked brings the counts up to date, and what depends on them.
func (p *Pool) countAddrsLocked(now time.Time) {
	f := &p.follow
	rotating := now.Before(f.rotating)
	f.missing, f.gone = 0, 0
	for addr, l := range f.known {
		switch {
		case l.misses == 0:
		case rotating:
			l.gone = false
		default:
			f.missing++
			if l.gone {
				f.gone++
			}
		}
		if l.misses > 0 && now.Sub(l.since) > rememberFor && !p.hasConnLocked(addr) {
			delete(f.known, addr)
		}
	}
	for _, c := range p.conns {
		if !p.goneLocked(c) && c.agePercent(now) < renewAtAge {
			c.renewing, c.replaced = false, false
		}
	}
}

func (p *Pool) hasConnLocked(addr netip.Addr) bool {
	return slices.ContainsFunc(p.conns, func(c *conn) bool { return c.peer.Remote.Addr() == addr })
}

// recoverLocked has an endpoint that lost its last connection in an outage dial at the first fresh answer, asked or not.
func (p *Pool) recoverLocked(a Answer, now time.Time) {
	if !a.Fresh4 && !a.Fresh6 || p.gate.fails == 0 || p.openLocked() > 0 {
		return
	}
	p.gate.fails, p.gate.until = 0, time.Time{}
	if p.gate.dials == 0 && p.waiters.len == 0 && !p.warm.quiet && now.Sub(p.warm.used) < warmFor {
		p.warm.wants = append(p.warm.wants, &warmWant{pre: &prewarm{left: 1, done: make(chan struct{})}})
	}
	p.gateLocked(now)
}

// unlistedLocked reports whether the address of c was missing in the last answer: other connections go first.
func (p *Pool) unlistedLocked(c *conn) bool {
	if p.follow.missing == 0 {
		return false
	}
	l := p.follow.known[c.peer.Remote.Addr()]
	return l != nil && l.misses > 0
}

// goneLocked reports whether the address of c is gone.
func (p *Pool) goneLocked(c *conn) bool {
	if p.follow.gone == 0 {
		return false
	}
	l := p.follow.known[c.peer.Remote.Addr()]
	return l != nil && l.gone
}

// moveLocked lets the next connection to an address that is gone leave, now or when its time comes. Without one that can
// leave there is no timer: a check-in or a replacement calls again.
func (p *Pool) moveLocked(now time.Time) {
	f := &p.follow
	for f.gone > 0 && !f.armed && !p.draining {
		c := p.leaverLocked(now)
		if c == nil {
			return
		}
		if wait := f.next.Sub(now); wait > 0 {
			p.moveInLocked(wait)
			return
		}
		f.next = now.Add(leaveTime/time.Duration(max(1, p.openLocked()/leaveShare)) + 1) // never less than it should be
		p.retireLocked(c, now, closeCause{reason: ReasonDNSGone})
		if c.state == stateClosed {
			p.warm.wants = slices.DeleteFunc(p.warm.wants, func(w *warmWant) bool { return w.old == c })
		}
	}
}

func (p *Pool) moveInLocked(wait time.Duration) {
	p.follow.armed = true
	if p.follow.timer == nil {
		p.follow.timer = time.AfterFunc(wait, p.moveNow)
		return
	}
	p.follow.timer.Reset(wait)
}

func (p *Pool) moveNow() {
	now := time.Now()
	p.mu.Lock()
	p.follow.armed = false
	p.moveLocked(now)
	p.mu.Unlock()
	p.deliver()
}

// leaverLocked returns the connection that leaves next: the longest idle one, else one in use that is replaced. The last
// that is free stays until it is replaced, as the next call would have to wait for a dial.
func (p *Pool) leaverLocked(now time.Time) *conn {
	var idle, busy, last *conn
	for _, c := range p.conns {
		switch {
		case c.state != stateOpen || c.dead || !p.goneLocked(c):
		case c.streams > 0:
			if busy == nil && p.replacedLocked(c) {
				busy = c
			}
		case !c.replaced && p.ready.len < 2:
			last = c
		case idle == nil || c.idleSince.Before(idle.idleSince):
			idle = c
		}
	}
	switch {
	case idle != nil:
		return idle
	case busy != nil:
		return busy
	case last != nil:
		p.renewLocked(last, now)
	}
	return nil
}

// replacedLocked reports whether a connection in use can be done without: another one is there, or has no place
// before this one has left.
func (p *Pool) replacedLocked(c *conn) bool {
	if c.replaced || p.openLocked() >= p.cfg.MaxConns {
		return true
	}
	for n := p.ready.head; n != nil; n = n.next {
		if n.of != c && !p.goneLocked(n.of) {
			return true
		}
	}
	return false
}
