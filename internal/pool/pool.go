package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pool holds the connections of one endpoint. Safe for concurrent use. [Group.New] makes one; [Pool.Close] ends it.
//
// This file owns the lock: what is checked out, checked in, handed over and closed. It never dials (dial.go does), and
// dial.go never hands out.
type Pool struct {
	cfg       Config
	group     *Group
	transport *Transport
	events    *eventQueue     // nil: nobody listens
	ctx       context.Context // of dials; ends with Drain or Close
	cancel    context.CancelFunc
	settled   chan struct{} // closed when draining has left nothing
	lastHint  atomic.Int64  // of Keep-Alive headers, so that the same one again costs no lock

	mu       sync.Mutex
	draining bool
	cut      bool // Close: sockets are closed without farewell
	conns    []*conn
	ready    list[*conn] // may take a request; latest used first
	waiters  list[*send] // first come first
	joined   uint64      // waiters ever; orders them against dials
	idle     int         // connections without a stream
	lost     int         // connections whose socket is gone and whose requests have not all ended
	tasks    int         // goroutines we wait for
	h1       *Pool       // for requests that must be HTTP/1, once there was one
	closers  map[*conn]struct{}

	gate   gate
	warm   warmth
	limit  idleLimit
	sweep  sweeper
	follow follower
	count  counters
}

// New returns the pool of one endpoint, a member of g. It never fails: the Config has been validated by the client.
func (g *Group) New(cfg Config) *Pool {
	cfg = cfg.WithDefaults()
	return g.newPool(cfg, cfg.Transport, newEventQueue(cfg.OnEvent, cfg.ConnEvents))
}

func (g *Group) newPool(cfg Config, t *Transport, events *eventQueue) *Pool {
	p := &Pool{cfg: cfg, group: g, transport: t, events: events, settled: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // dials belong to the pool, not to a caller
	p.closers = make(map[*conn]struct{})
	p.warm.used = time.Now()
	g.join(p)
	p.mu.Lock()
	p.gateLocked(time.Now())
	p.mu.Unlock()
	return p
}

// takeLocked checks out the best connection for s, or returns nil. Limits are looked at here and at check-in, so that no
// timer races a request. Connections to addresses that DNS lists no more come last.
func (p *Pool) takeLocked(s *send, now time.Time) *conn {
	var unlisted *conn
	for n := p.ready.head; n != nil; {
		c := n.of
		n = n.next
		switch {
		case c.streams == 0 && p.overLocked(c, now):
			// Closed by now.
		case c.agePercent(now) >= 200:
			p.retireLocked(c, now, closeCause{reason: ReasonAge})
		case !s.accepts(c, now):
		case p.unlistedLocked(c):
			if unlisted == nil {
				unlisted = c
			}
		default:
			p.useLocked(c, s, now)
			return c
		}
	}
	if unlisted != nil {
		p.useLocked(unlisted, s, now)
	}
	return unlisted
}

// overLocked closes an idle connection whose time is over, and reports whether it did.
func (p *Pool) overLocked(c *conn, now time.Time) bool {
	if c.agePercent(now) >= 100 {
		p.closeLocked(c, now, closeCause{reason: ReasonAge})
		return true
	}
	if limit, _ := p.limit.inForce(p.cfg.IdleTimeout, now); c.idleForLocked(now) >= limit {
		cause := closeCause{reason: ReasonIdleTimeout}
		if c.requests == 0 {
			cause.detail = "never_used"
		}
		p.closeLocked(c, now, cause)
		return true
	}
	return false
}

// useLocked marks c as taken by s.
func (p *Pool) useLocked(c *conn, s *send, now time.Time) {
	s.info.Conn = c.id
	s.info.Reused = c.requests > 0
	s.info.Age = max(now.Sub(c.born), 0) // now may be a moment ago
	s.info.IdleTime = 0
	s.info.Peer = c.peer
	if c.streams == 0 {
		s.info.IdleTime = max(now.Sub(c.idleSince), 0)
		p.idle--
	}
	c.streams++
	c.requests++
	c.lastUsed = now
	p.warm.used = now
	p.count.acquired(s.info.Reused)
	p.listLocked(c)
	p.renewLocked(c, now)
	if p.cfg.MinIdle > 0 {
		p.gateLocked(now)
	}
}

// unuseLocked takes back a use that came to nothing.
func (p *Pool) unuseLocked(c *conn, s *send) {
	c.requests--
	p.count.unacquired(s.info.Reused)
	s.info.Conn, s.info.Reused = 0, false
	if s.failedOn != nil {
		s.info.Conn, s.info.Reused = s.failedOn.id, true
	}
}

// listLocked puts c where it belongs after a change: to the front of the ready ones, or out of them.
func (p *Pool) listLocked(c *conn) {
	c.ready.leave()
	if c.hasRoomLocked() {
		p.ready.pushFront(&c.ready)
	}
}

// giveLocked offers c to the waiters, the longest waiting first, and keeps it if it has room left.
func (p *Pool) giveLocked(c *conn, now time.Time) {
	for n := p.waiters.head; n != nil && c.hasRoomLocked(); {
		s := n.of
		n = n.next
		if s.accepts(c, now) {
			p.useLocked(c, s, now)
			s.wakeLocked(c, nil)
		}
	}
	if c.streams > 0 || c.state != stateOpen {
		p.listLocked(c)
		return
	}
	switch limit, from := p.limit.inForce(p.cfg.IdleTimeout, now); {
	case from == LimitKeepAlive && limit <= 0:
		p.closeLocked(c, now, closeCause{reason: ReasonServer, detail: "keep_alive"})
	case p.idle > p.cfg.MaxIdle:
		p.closeLocked(c, now, closeCause{reason: ReasonIdleLimit})
	case p.group.starved.Load():
		p.closeLocked(c, now, closeCause{reason: ReasonIdleLimit, detail: "group"})
	default:
		c.idleSince = now
		p.listLocked(c)
		p.sweepByLocked(c, now)
	}
}

// checkInLocked ends one use of c. It is the only way back; avail is what the ClientConn said just before.
func (p *Pool) checkInLocked(c *conn, now time.Time, avail bool, cause closeCause) {
	if c.state == stateClosed {
		return
	}
	c.streams--
	c.lastUsed = now
	if c.streams == 0 {
		p.idle++
		c.idleSince = now
	}
	switch {
	case c.streams > 0 && (c.dead || c.state == stateRetiring):
	case p.draining:
		p.closeLocked(c, now, closeCause{reason: ReasonShutdown})
	case c.dead && c.h2:
		p.closeLocked(c, now, c.lossLocked(false))
	case !c.h2 && (c.dead || !avail):
		p.closeLocked(c, now, cause)
	case c.state == stateRetiring:
		p.closeLocked(c, now, c.why)
	case c.streams == 0 && c.agePercent(now) >= 100:
		p.closeLocked(c, now, closeCause{reason: ReasonAge})
	default:
		p.giveLocked(c, now)
		if p.goneLocked(c) {
			p.moveLocked(now)
		}
	}
}

// retireLocked lets c take no more requests. It closes when its last one ends.
func (p *Pool) retireLocked(c *conn, now time.Time, cause closeCause) {
	if c.state != stateOpen {
		return
	}
	if c.streams == 0 {
		p.closeLocked(c, now, cause)
		return
	}
	c.state, c.why = stateRetiring, cause
	c.ready.leave()
	p.events.add(Event{Kind: EventRetired, Time: now, Conn: c.id, Reason: cause.reason, Detail: cause.detail,
		Age: now.Sub(c.born), Proto: c.peer.Proto, Remote: c.peer.Remote})
}

// closeLocked removes c and has it closed. What waits may then dial.
func (p *Pool) closeLocked(c *conn, now time.Time, cause closeCause) {
	if c.state == stateClosed {
		return
	}
	c.state = stateClosed
	c.ready.leave()
	p.unmuteLocked(c)
	idle := time.Duration(0)
	if c.streams == 0 {
		p.idle--
		idle = now.Sub(c.idleSince)
	}
	if c.dead {
		p.lost--
	}
	last := len(p.conns) - 1
	p.conns[c.index], p.conns[last].index = p.conns[last], c.index
	p.conns[last] = nil
	p.conns = p.conns[:last]
	p.count.closed[cause.reason]++
	c.raw.port.Carried(c.requests)
	if c.requests == 0 {
		p.count.neverUsed++
		p.spareLostLocked(now)
	}
	p.events.add(Event{Kind: EventClosed, Time: now, Conn: c.id, Reason: cause.reason, Detail: cause.detail, Err: cause.err,
		Unread: cause.unread, Age: now.Sub(c.born), IdleTime: idle, Requests: c.requests, Proto: c.peer.Proto, Remote: c.peer.Remote,
		BytesIn: c.raw.read.Load(), BytesOut: c.raw.written.Load()})
	if !c.raw.closed.Load() {
		p.closers[c] = struct{}{}
		cut := p.cut
		p.goLocked(func() {
			c.shut(cut)
			p.mu.Lock()
			delete(p.closers, c)
			p.mu.Unlock()
		})
	}
	p.gateLocked(now)
	p.settleLocked()
}

// lostSocket is told that the socket of c has been closed, by whomever: with net/http's locks held, so nothing is called
// from here but the lock.
func (p *Pool) lostSocket(c *conn, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.portBackLocked(now)
	if c.dead || c.state == stateClosed {
		return
	}
	c.dead = true
	if c.state == stateNew {
		return // adoptLocked will see to it
	}
	p.lost++
	c.ready.leave()
	if c.streams == 0 {
		cause := c.lossLocked(true)
		if cause.reason == ReasonServer || cause.detail == "read" {
			p.limit.sawClose(c.idleForLocked(now), now)
		}
		p.closeLocked(c, now, cause)
	} else {
		p.gateLocked(now)
	}
	p.deliverLaterLocked()
}

// roomAgain is the state hook's word that c can take requests again.
func (p *Pool) roomAgain(c *conn) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.full = false
	c.noRoom.Store(false)
	p.offerLocked(c, now)
	p.deliverLaterLocked()
}

// answered clears the suspicion on c: a byte has come.
func (p *Pool) answered(c *conn) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.suspect = false
	p.offerLocked(c, now)
	p.deliverLaterLocked()
}

// offerLocked gives c to the waiters after it has become able to take requests outside a check-in.
func (p *Pool) offerLocked(c *conn, now time.Time) {
	if c.hasRoomLocked() && c.ready.in == nil {
		p.giveLocked(c, now)
	}
}

// goLocked runs f on a goroutine that Drain and Close wait for.
func (p *Pool) goLocked(f func()) {
	p.tasks++
	go func() {
		f()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tasks--
		p.settleLocked()
	}()
}

// settleLocked notes when draining has left nothing.
func (p *Pool) settleLocked() {
	if !p.draining || p.tasks > 0 || len(p.conns) > 0 {
		return
	}
	select {
	case <-p.settled:
	default:
		close(p.settled)
		p.group.leave(p)
	}
}
