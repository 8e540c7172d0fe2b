package ports

import (
	"net/netip"
	"sync"
	"time"
)

// MaxDestinations is how many are told apart.
const MaxDestinations = 1024

// lookEvery is how often a full ledger is searched for a destination that can be forgotten.
const lookEvery = time.Second

// Ledger counts the ports of one client. Make it with [New]. It is safe for concurrent use, and holds nothing to be closed.
type Ledger struct {
	began time.Time // zero of all times here

	mu     sync.Mutex // a leaf: nothing is called under it
	known  map[netip.AddrPort]*destination
	rest   *destination  // all beyond MaxDestinations, without limits; nil: none so far
	looked time.Duration // when forgetLocked last found nothing
}

// New returns an empty Ledger.
func New() *Ledger {
	return &Ledger{began: time.Now(), known: make(map[netip.AddrPort]*destination)}
}

// Admit counts a connect that begins at the time given, by an upstream of policy p. Without an error the caller must end the ticket.
// The error is an [*Error]. A warning may come with either; it is the only one of that destination for a minute.
func (l *Ledger) Admit(to netip.AddrPort, p *Policy, at time.Time) (Ticket, *Warning, error) {
	now := at.Sub(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.findLocked(to, now)
	if d != l.rest {
		d.meet(p)
	}
	if e := d.admit(now); e != nil {
		return Ticket{}, d.warning(now, true), e
	}
	return Ticket{ledger: l, to: d, began: now}, d.warning(now, false), nil
}

// NoPort notes that the kernel had no port for a connect, which failed with cause, and returns that as an error of this package.
// The ticket of that connect must be ended all the same.
func (l *Ledger) NoPort(to netip.AddrPort, cause error) *Error {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.findLocked(to, now)
	if d == l.rest { // one address says nothing of the others
		d.noPort++
		return &Error{Dest: to, RetryAfter: noPortFor, Cause: cause}
	}
	return d.exhausted(now, cause)
}

// Answered reports whether a connect to an address has ever brought a connection.
func (l *Ledger) Answered(to netip.AddrPort) bool {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findLocked(to, now).answered > 0
}

// findLocked returns the destination of an address, which it makes if there is room.
func (l *Ledger) findLocked(to netip.AddrPort, now time.Duration) *destination {
	if a := to.Addr(); a.Is4In6() {
		to = netip.AddrPortFrom(a.Unmap(), to.Port())
	}
	if d := l.known[to]; d != nil {
		return d
	}
	if len(l.known) < MaxDestinations || l.forgetLocked(now) {
		d := &destination{addr: to, born: now}
		l.known[to] = d
		return d
	}
	if l.rest == nil {
		l.rest = &destination{born: now}
	}
	return l.rest
}

// forgetLocked makes room: the destination goes that holds nothing and was dialled longest ago.
func (l *Ledger) forgetLocked(now time.Duration) bool {
	if l.looked > 0 && now-l.looked < lookEvery {
		return false
	}
	var oldest *destination
	for _, d := range l.known {
		if d.idle(now) && (oldest == nil || d.last < oldest.last) {
			oldest = d
		}
	}
	if oldest == nil {
		l.looked = now
		return false
	}
	delete(l.known, oldest.addr)
	return true
}

// Forget ends the say of a policy: its upstream is gone.
func (l *Ledger) Forget(p *Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.known {
		d.leave(p)
	}
}
