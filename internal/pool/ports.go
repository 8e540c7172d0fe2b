package pool

import (
	"context"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

const (
	minLook = 10 * time.Millisecond // between two dials that ask the ledger for a port
	maxLook = time.Second           // a port can come free before its time, when another connection ends
)

// A shortage is why a dial was not made: the ledger had no port, or the kernel. It is guarded by the pool's lock.
type shortage struct {
	err  *ports.Error
	ends time.Time // when a port is free again; zero = nobody knows
}

// at is the error as it stands at now.
func (s *shortage) at(now time.Time) *ports.Error {
	e := *s.err
	if !s.ends.IsZero() {
		e.RetryAfter = max(s.ends.Sub(now), 1)
	}
	return &e
}

// outlasts reports whether it goes on beyond a time, as far as anybody can know: ports that the kernel has given to others, or an
// address that it has not, are nothing to wait for.
func (s *shortage) outlasts(until time.Time) bool { return !s.err.Cooling || s.ends.After(until) }

// shortLocked takes the refusal of a dial. That is no failure of the endpoint: its gate stays shut until a port may be free, and
// those in line go on waiting for that, or for a connection to come back.
func (p *Pool) shortLocked(err *ports.Error, now time.Time) {
	short := &shortage{err: err}
	look := maxLook
	if err.RetryAfter > 0 {
		short.ends = now.Add(err.RetryAfter)
		look = min(max(err.RetryAfter, minLook), maxLook)
	}
	p.gate.short, p.gate.until = short, now.Add(look)
	p.count.portless++
	p.events.add(Event{Kind: EventBudget, Time: now, Remote: err.Dest, Detail: "refused", Err: err})
	p.giveUpLocked(now)
}

// portBackLocked has the ledger asked again after a socket was closed: its port is free now, or it is known when it will be.
func (p *Pool) portBackLocked(now time.Time) {
	if p.gate.short != nil && p.gate.until.After(now) {
		p.gate.until = now
		p.gateLocked(now)
	}
}

// giveUpLocked refuses those in line who would wait for a port in vain: nothing is open that could come back, nothing is being
// dialled or closed, and their time ends before the shortage does. A clear refusal beats a lost SYN.
func (p *Pool) giveUpLocked(now time.Time) {
	short := p.gate.short
	if short == nil || !now.Before(p.gate.until) || p.openLocked() > 0 || p.gate.dials > 0 || len(p.closers) > 0 {
		return
	}
	for n := p.waiters.head; n != nil; {
		s := n.of
		n = n.next
		if !s.until.IsZero() && short.outlasts(s.until) {
			s.wakeLocked(nil, &refusal{kind: Dial, step: Connect, err: short.at(now)})
		}
	}
}

// hurry notes how long s can wait, now that it has to, and has it refused at once where that is in vain. It reads deadlines
// outside the lock.
func (s *send) hurry(began time.Time) {
	until := began.Add(forEver)
	if limit := s.pool.cfg.MaxWait; limit > 0 {
		until = began.Add(limit)
	}
	earlier := func(end time.Time, limited bool) {
		if limited && end.Before(until) {
			until = end
		}
	}
	earlier(s.ctx().Deadline())
	if s.want.Until != nil {
		earlier(s.want.Until.Deadline())
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.until = until
	p.giveUpLocked(time.Now())
}

const forEver = 100 * 365 * 24 * time.Hour

// A waitError is a wait that ended while there was no port for another dial.
type waitError struct {
	err   error
	short *ports.Error
}

func (e *waitError) Error() string {
	return e.err.Error() + ", with no port to dial from: " + e.short.Error()
}
func (e *waitError) Unwrap() []error { return []error{e.err, e.short} }

// Warn tells the listener of the pool that the ports to an address run short. The context is that of a dial, as Config.Dial got
// it; with any other nothing happens.
func Warn(ctx context.Context, w ports.Warning) {
	d, ok := ctx.Value(dialKey{}).(*dialing)
	if !ok {
		return
	}
	p := d.pool
	p.mu.Lock()
	p.events.add(Event{
		Kind: EventBudget, Time: time.Now(), Remote: w.Dest, Detail: "warned",
		Err: &ports.Error{Dest: w.Dest, Held: w.Held, Budget: w.Budget, Preset: w.Preset},
	})
	p.mu.Unlock()
	p.deliver()
}

// CountRequests adds the requests that the open connections have carried so far, by destination.
func (p *Pool) CountRequests(carried map[netip.AddrPort]uint64) {
	p.mu.Lock()
	for _, c := range p.conns {
		if c.raw.port != nil {
			carried[c.raw.port.Dest()] += uint64(c.requests)
		}
	}
	h1 := p.h1
	p.mu.Unlock()
	if h1 != nil {
		h1.CountRequests(carried)
	}
}
