package pool

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

const (
	scoutTime  = 300 * time.Millisecond // how long the first dial goes alone, to learn the protocol
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// A gate decides when a dial may start. It is guarded by the pool's lock.
type gate struct {
	dials   int       // running, or in line for the group
	warming int       // of those, the ones for nobody in particular
	places  int       // requests a new connection can take; 0 while the protocol is unknown
	streams int       // HTTP/2: the limit a server has told, or ours where that is lower; 0 = not yet
	mute    int       // HTTP/2 connections whose server has not told it
	proto   string    // of the last connection dialled
	scout   time.Time // until then the running dial stays alone
	fails   int       // dials failed in a row
	until   time.Time // back-off, or the next look for a port
	short   *shortage // why the last dial was not made; nil: it was
	timer   *time.Timer
	reopens time.Time // when it fires; zero = not set
}

// gateLocked starts dials: while waiters outnumber the places on their way, or warmth is wanted, and nothing forbids it.
func (p *Pool) gateLocked(now time.Time) {
	for !p.draining && p.gate.dials < p.cfg.DialLimit && p.openLocked()+p.gate.dials < p.cfg.MaxConns {
		waiting := p.waiters.len > p.placesLocked()
		if !waiting && !p.wantWarmLocked(now) {
			return
		}
		if wait := p.gateClosedLocked(now); wait > 0 {
			p.reopenInLocked(wait, now)
			p.giveUpLocked(now)
			return
		}
		p.startDialLocked(now, waiting)
	}
}

// placesLocked is how many requests will find room on what is being dialled, or waits for its server's greeting.
func (p *Pool) placesLocked() int {
	places := p.gate.dials * max(p.gate.places, 1)
	if p.gate.streams == 0 {
		places += p.gate.mute * (p.cfg.MaxStreams - 1)
	}
	return places
}

// openLocked is how many connections hold a place: those whose socket is gone do not.
func (p *Pool) openLocked() int { return len(p.conns) - p.lost }

// gateClosedLocked is how long no dial may start: for a back-off, or for the scout. Where HTTP/2 is possible the first dial
// goes alone for a moment, as it may bring places for everybody.
func (p *Pool) gateClosedLocked(now time.Time) time.Duration {
	wait := p.gate.until.Sub(now)
	if p.gate.proto == "" && p.gate.dials > 0 {
		wait = max(wait, p.gate.scout.Sub(now))
	}
	return wait
}

// reopenInLocked has the gate looked at again after wait, or earlier.
func (p *Pool) reopenInLocked(wait time.Duration, now time.Time) {
	at := now.Add(wait)
	if !p.gate.reopens.IsZero() && !at.Before(p.gate.reopens) {
		return
	}
	p.gate.reopens = at
	if p.gate.timer == nil {
		p.gate.timer = time.AfterFunc(wait, p.reopen)
		return
	}
	p.gate.timer.Reset(wait)
}

// reopen looks again. Whatever it was set for, spares that have been put off since then are looked at later.
func (p *Pool) reopen() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.reopens = time.Time{}
	p.gateLocked(now)
	if wait := p.warm.after.Sub(now); wait > 0 && !p.draining {
		p.reopenInLocked(wait, now)
	}
}

// startDialLocked starts a dial, for the first waiter that has none or for warmth.
func (p *Pool) startDialLocked(now time.Time, forWaiter bool) {
	d := &dialing{pool: p, seq: p.joined, fails: p.gate.fails}
	if forWaiter {
		for n := p.waiters.head; n != nil; n = n.next {
			if n.of.dial == nil {
				n.of.dial, d.waiter = d, n.of
				break
			}
		}
	} else {
		d.warm = p.popWarmLocked()
		d.warming = true
		p.gate.warming++
	}
	if p.gate.dials == 0 && p.gate.proto == "" && p.transport.mayBeHTTP2(p.cfg.Scheme) {
		p.gate.scout = now.Add(scoutTime)
	}
	p.gate.dials++
	p.goLocked(d.run)
}

// penaltyLocked closes the gate for a while: a dial failed, or brought a connection that was dead on arrival.
func (p *Pool) penaltyLocked(now time.Time) {
	backoff := maxBackoff
	if p.gate.fails < 5 {
		backoff = min(minBackoff<<p.gate.fails, maxBackoff)
	}
	p.gate.fails++
	p.gate.until = now.Add(backoff/2 + rand.N(backoff/2))
}

// dialed takes the result of a dial: hands the connection out, keeps it, or tells the waiters why there is none.
func (p *Pool) dialed(d *dialing, c *conn, err error) {
	now := time.Now()
	p.mu.Lock()
	p.gate.dials--
	if d.warming {
		p.gate.warming--
	}
	if w := d.waiter; w != nil && w.dial == d {
		w.dial = nil
		d.addTo(&w.info.Setup)
	}
	if err != nil {
		p.dialFailedLocked(d, err, now)
	} else {
		p.adoptLocked(d, c, now)
	}
	p.warmDoneLocked(d.warm, c, err, now)
	p.gateLocked(now)
	p.settleLocked()
	p.mu.Unlock()
	p.deliver()
}

// adoptLocked makes c one of the pool's connections.
func (p *Pool) adoptLocked(d *dialing, c *conn, now time.Time) {
	p.count.created++
	steps, _ := d.sofar()
	p.events.add(Event{Kind: EventDialed, Time: now, Conn: c.id, Setup: steps, Remote: c.peer.Remote, Proto: c.peer.Proto})
	c.born, c.idleSince, c.lastUsed = now, now, now
	c.index = len(p.conns)
	c.state = stateOpen
	c.dead = c.raw.closed.Load()
	p.conns = append(p.conns, c)
	p.idle++
	p.gate.proto = c.peer.Proto
	p.gate.places = 1
	if c.h2 {
		p.gate.places = p.cfg.MaxStreams
		if p.gate.streams > 0 {
			p.gate.places = p.gate.streams
		}
		if !c.greeted.Load() {
			p.gate.mute++
			c.patience = time.AfterFunc(greetingTime, func() { p.greeted(c, c.streamLimit()) })
		}
	}
	switch {
	case p.draining:
		p.closeLocked(c, now, closeCause{reason: ReasonShutdown})
	case c.dead:
		p.lost++
		p.penaltyLocked(now)
		p.closeLocked(c, now, c.lossLocked(true))
	default:
		p.gate.fails, p.gate.until, p.gate.short = 0, time.Time{}, nil
		p.giveLocked(c, now)
	}
}

// dialFailedLocked gives the error to the longest waiting, and, when the endpoint has no connection left, to everybody who
// was waiting when the dial began: there is nothing else for them to wait for.
func (p *Pool) dialFailedLocked(d *dialing, err error, now time.Time) {
	if d.crowded {
		return // not the endpoint's fault: the waiters go on waiting
	}
	steps, step := d.sofar()
	if short, ok := errors.AsType[*ports.Error](err); ok {
		p.shortLocked(short, now)
		return
	}
	p.gate.short = nil
	p.count.dialsFailed[step]++
	p.events.add(Event{Kind: EventDialed, Time: now, Setup: steps, Step: step, Remote: d.remote(), Err: err})
	if p.draining {
		return
	}
	if d.fails == p.gate.fails { // those that fail together count once
		p.penaltyLocked(now)
	}
	if d.warming && p.openLocked() > 0 {
		return
	}
	failure := &refusal{kind: Dial, step: step, err: err}
	for n := p.waiters.head; n != nil; {
		s := n.of
		n = n.next
		s.wakeLocked(nil, failure)
		if p.openLocked() > 0 || n == nil || n.of.seq > d.seq {
			return
		}
	}
}

// greeted notes that the server of an HTTP/2 connection has told its stream limit, or has had time enough.
func (p *Pool) greeted(c *conn, limit int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.greeted.Load() || limit <= 0 { // 0: it is closed, or as good as that
		return
	}
	c.greeted.Store(true)
	p.gate.streams = min(limit, p.cfg.MaxStreams)
	if c.state == stateNew {
		return
	}
	p.gate.places = p.gate.streams
	p.unmuteLocked(c)
	if c.state == stateOpen {
		p.offerLocked(c, now)
		p.gateLocked(now)
	}
	p.deliverLaterLocked()
}

// unmuteLocked ends the wait for the greeting of c, for it has come, or c is closed.
func (p *Pool) unmuteLocked(c *conn) {
	if c.patience != nil {
		c.patience.Stop()
		c.patience = nil
		p.gate.mute--
	}
}
