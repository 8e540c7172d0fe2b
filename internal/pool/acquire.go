package pool

import (
	"context"
	"time"
)

// A waiter is the part of a send that waits for a connection, made at the first wait. It is guarded by the pool's lock from the first wait to the
// end of the last.
type waiter struct {
	node    node[*send]
	seq     uint64        // its place among all waiters ever
	dial    *dialing      // made for it
	got     *conn         // served with this
	refused *refusal      // or with this
	woken   chan struct{} // holds a value when served
	until   time.Time     // when its wait ends at the latest; zero: not known yet
}

// A refusal is why there is no connection.
type refusal struct {
	kind  ErrKind
	step  StepName
	at    string // with Wait: how far the dial made for it is
	short bool   // with Wait: there was no port for another dial
	err   error
}

// acquire returns a connection reserved for s, or an *Error.
func (s *send) acquire() (*conn, error) {
	began := s.info.Start
	if s.failedOn != nil {
		began = time.Now()
	}
	setup := s.setupTime()
	c, now, no := s.reserve(began)
	s.info.Acquire += now.Sub(began) - (s.setupTime() - setup)
	if no != nil {
		return nil, s.noConn(no)
	}
	s.info.InHand = now.Sub(s.info.Start)
	s.pool.acquired(c, s, now)
	return c, nil
}

// reserve checks out connections until one takes a reservation. A connection that does not was gone before it was used:
// that is no send, and s keeps its place in line.
func (s *send) reserve(began time.Time) (*conn, time.Time, *refusal) {
	for now := began; ; now = time.Now() {
		if s.ctx().Err() != nil {
			return nil, now, &refusal{kind: Wait, err: contextError(s.ctx())}
		}
		c, no := s.checkOut(now)
		if c == nil && no == nil {
			c, now, no = s.wait(began)
		}
		if no != nil {
			return nil, now, no
		}
		s.conn = c
		if s.reserved = c.reserve(); s.reserved {
			return c, now, nil
		}
		s.notReserved(c)
	}
}

// checkOut takes a connection that is free, or joins the line: at its end, or at its head after a turn that came to nothing.
func (s *send) checkOut(now time.Time) (*conn, *refusal) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return nil, &refusal{kind: Closed, err: ErrClosed}
	}
	if c := p.takeLocked(s, now); c != nil {
		return c, nil
	}
	switch {
	case s.waiter != nil:
		p.waiters.pushFront(&s.node)
	case p.waiters.len >= p.cfg.MaxWaiters:
		return nil, &refusal{kind: Full, err: ErrFull}
	default:
		p.joined++
		s.waiter = &waiter{node: node[*send]{of: s}, seq: p.joined, woken: make(chan struct{}, 1)}
		p.waiters.pushBack(&s.node)
	}
	p.makeRoomLocked(now)
	p.gateLocked(now)
	return nil, nil
}

// makeRoomLocked closes an idle connection when the pool is full of connections that those in line do not want.
func (p *Pool) makeRoomLocked(now time.Time) {
	if p.openLocked()+p.gate.dials < p.cfg.MaxConns {
		return
	}
	if c := p.longestIdleLocked(); c != nil && c.ready.in != nil {
		p.closeLocked(c, now, closeCause{reason: ReasonIdleLimit, detail: "unwanted"})
	}
}

// wait ends with a connection, a dial's error, the context, MaxWait or Drain.
func (s *send) wait(began time.Time) (*conn, time.Time, *refusal) {
	s.hurry(began)
	s.pool.deliver()
	ctx := s.ctx()
	var over <-chan time.Time
	if limit := s.pool.cfg.MaxWait; limit > 0 {
		t := time.NewTimer(limit - time.Since(began))
		defer t.Stop()
		over = t.C
	}
	var quit *refusal
	select {
	case <-s.woken:
	case <-ctx.Done():
	case <-over:
		quit = &refusal{kind: Wait, err: ErrMaxWait}
	}
	if ctx.Err() != nil { // also when it was served at the same moment: on HTTP/1 a send would cost the connection
		quit = &refusal{kind: Wait, err: contextError(ctx)}
	}
	return s.waited(began, quit)
}

// waited leaves the line. A connection that came too late is passed on.
func (s *send) waited(began time.Time, quit *refusal) (*conn, time.Time, *refusal) {
	p := s.pool
	now := time.Now()
	p.mu.Lock()
	s.node.leave()
	select {
	case <-s.woken:
	default:
	}
	c, no := s.got, s.refused
	s.got, s.refused = nil, nil
	if s.dial != nil {
		s.dial.addTo(&s.info.Setup)
		if quit != nil && quit.kind == Wait {
			_, step := s.dial.sofar()
			quit.at = step.String()
		}
		s.dial.waiter, s.dial = nil, nil
	}
	if quit != nil && c != nil {
		p.unuseLocked(c, s)
		p.checkInLocked(c, now, true, closeCause{reason: ReasonError})
		c = nil
	}
	if quit != nil && no == nil {
		no = quit
		if short := p.gate.short; short != nil {
			no.err, no.short = &waitError{no.err, short.at(now)}, true
		}
	}
	s.conn = c
	p.waitedLocked(s, c, no, now.Sub(began), now)
	p.mu.Unlock()
	p.deliver()
	return c, now, no
}

func (p *Pool) waitedLocked(s *send, c *conn, no *refusal, took time.Duration, now time.Time) {
	e := Event{Kind: EventWaitEnded, Time: now, Wait: took}
	if c != nil {
		e.Conn = c.id
	}
	if no != nil {
		e.Err = no.err
	}
	p.count.waited(took)
	p.events.add(e)
}

// wakeLocked takes s out of the line, served with a connection or with a refusal.
func (s *send) wakeLocked(c *conn, no *refusal) {
	s.node.leave()
	s.got, s.refused = c, no
	select {
	case s.woken <- struct{}{}:
	default: // cannot be: it is served once per wait
	}
}

// acquired tells the listener that s has c.
func (p *Pool) acquired(c *conn, s *send, now time.Time) {
	if !p.events.wants(EventAcquired) {
		return
	}
	p.mu.Lock()
	if c.state != stateClosed { // by Close, this very moment: nothing comes after the event that says so
		p.events.add(Event{Kind: EventAcquired, Time: now, Conn: c.id, Proto: c.peer.Proto, Remote: c.peer.Remote,
			Reused: s.info.Reused, IdleTime: s.info.IdleTime, Age: s.info.Age, Wait: s.info.Acquire})
	}
	p.mu.Unlock()
	p.deliver()
}

// notReserved deals with a connection that took no reservation: it is closed, has had a GOAWAY, or is only full.
func (s *send) notReserved(c *conn) {
	room, running := c.cc.Available(), c.cc.InFlight()
	closed := c.cc.Err() != nil
	p := s.pool
	now := time.Now()
	p.mu.Lock()
	s.conn = nil
	p.unuseLocked(c, s)
	full := c.h2 && !closed && room == 0 && running > 0
	switch {
	case full:
		c.full = true
		c.noRoom.Store(true)
	case c.h2 && !closed && room == 0:
		p.retireLocked(c, now, closeCause{reason: ReasonGoAway, detail: "idle"})
	case c.h2 && closed:
		p.retireLocked(c, now, c.lossLocked(true))
	}
	if closed && c.requests == 0 {
		p.penaltyLocked(now)
	}
	if !full && room == 0 {
		p.resentLocked(c, ResendReserve, nil, now)
	}
	p.checkInLocked(c, now, room > 0, c.lossLocked(true))
	p.mu.Unlock()
	if full && c.cc.Available() > 0 {
		p.roomAgain(c) // it came between the question and the note, and no hook will tell
	}
	p.deliver()
}

// noConn is the error of a send that got no connection.
func (s *send) noConn(no *refusal) *Error {
	e := s.error(no.kind, no.err)
	e.Step, e.DialStep, e.NoPort = no.step, no.at, no.short
	return e
}

// setupTime is what of the time so far was set-up of its own.
func (s *send) setupTime() time.Duration {
	return s.info.Setup[DNS].Time + s.info.Setup[Connect].Time + s.info.Setup[TLS].Time
}

// contextError is the error of a context that has ended: its cause, and that its time was over. Whoever cancels for a time limit of
// his own says so in the cause, and then context.Canceled would say that the caller has left.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err || err == context.Canceled {
		return cause
	}
	return &endedError{cause: cause, err: err}
}

type endedError struct{ cause, err error }

func (e *endedError) Error() string   { return e.cause.Error() }
func (e *endedError) Unwrap() []error { return []error{e.cause, e.err} }
func (e *endedError) Timeout() bool   { return e.err == context.DeadlineExceeded }

// resentLocked notes that a request goes to another connection than c.
func (p *Pool) resentLocked(c *conn, rule Resend, err error, now time.Time) {
	p.count.resends[rule]++
	p.events.add(Event{Kind: EventResent, Time: now, Conn: c.id, Rule: rule, Detail: rule.String(), Err: err,
		Proto: c.peer.Proto, Remote: c.peer.Remote})
}

// accepts reports whether s may go out on c. A second send wants a connection that is certainly alive.
func (s *send) accepts(c *conn, now time.Time) bool {
	if c.id == s.want.Avoid && s.pool.cfg.MaxConns > 1 || c == s.failedOn {
		return false
	}
	return s.failedOn == nil || now.Sub(c.lastUsed) <= aliveWithin
}
