package ports

import (
	"net/netip"
	"time"
)

// A Ticket is one connection in the ledger, from before its SYN to its end. It must not be copied once a method has been called. A nil or
// zero Ticket is one that nobody counts; its methods do nothing. Those of another may be called concurrently; what comes after its end
// does nothing.
type Ticket struct {
	ledger *Ledger
	to     *destination
	began  time.Duration // of the connect
	state  ticketState   // guarded by ledger.mu
}

type ticketState uint8

const (
	ticketDialing ticketState = iota
	ticketOpen
	ticketOver
)

func (t *Ticket) none() bool { return t == nil || t.ledger == nil }

// Opened says that the connect brought a connection.
func (t *Ticket) Opened() {
	if t.none() {
		return
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.state == ticketDialing {
		t.state = ticketOpen
		t.to.opened(t.began) // which is near enough, and saves a reading of the clock
	}
}

// Failed says that the connect failed at a time, with err.
func (t *Ticket) Failed(err error, at time.Time) {
	if t.none() {
		return
	}
	how, timeout := EndingOf(err), timedOut(err)
	now := at.Sub(t.ledger.began)
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.state == ticketDialing {
		t.state = ticketOver
		t.to.failed(now, how, timeout)
	}
}

// Closed says that the connection was closed at a time, and how that began.
func (t *Ticket) Closed(how Ending, at time.Time) {
	if t.none() {
		return
	}
	now := at.Sub(t.ledger.began)
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.state == ticketOpen {
		t.state = ticketOver
		t.to.closed(now, how)
	}
}

// Carried adds the requests that the connection carried in its life. It takes no lock.
func (t *Ticket) Carried(requests int) {
	if !t.none() && requests > 0 {
		t.to.requests.Add(uint64(requests))
	}
}

// Scarce reports whether the ports to the destination run short at now: the time to keep what is open. It takes no lock.
func (t *Ticket) Scarce(now time.Time) bool {
	if t.none() {
		return false
	}
	until := t.to.scarce.Load()
	return until > 0 && now.Sub(t.ledger.began) < time.Duration(until)
}

// Dest is the destination; zero: one that is not told apart, or a nil Ticket.
func (t *Ticket) Dest() netip.AddrPort {
	if t.none() {
		return netip.AddrPort{}
	}
	return t.to.addr
}
