package client

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/dnscache"
)

// Rules for endpoints that follow DNS (client.md, 2).
const (
	maxAddresses  = 128              // endpoints per origin and family; further addresses are not used
	missedAnswers = 2                // fresh answers in a row without an address,
	missedFor     = 30 * time.Second // and at least this long, or twice the TTL, before its endpoint drains
	rotatingFor   = 10 * time.Minute // after an address has come back, absence says nothing
)

// addresses is what an origin knows of its name. Attempts go to the addresses of one family; the other is the reserve for when
// no address of that one can be reached. It is guarded by origin.mu.
type addresses struct {
	last     dnscache.Result // the last answer that had any
	chosen   bool
	active   family    // whose addresses get attempts, once chosen
	answers  [2]int    // fresh positive ones so far, by family
	rotating time.Time // until then addresses that are missing are not missed
}

// An addressState is what an origin knows of one endpoint's address. It is guarded by origin.mu.
type addressState struct {
	addr   netip.Addr
	seen   int       // number of the last answer that had it
	missed time.Time // since when it is missing; zero: it is not
	gone   bool      // it takes no new attempt

	unreachable atomic.Bool // the last dial failed, and nothing has been answered since
}

type family uint8

const (
	v4 family = iota
	v6
)

func familyOf(addr netip.Addr) family {
	if addr.Is4() {
		return v4
	}
	return v6
}

// freshFor reports whether an update brings a positive answer for a family: only then is an address of it missed that is not
// in the update.
func freshFor(u dnscache.Update, f family) bool {
	other := [...]dnscache.Family{v4: dnscache.IPv6, v6: dnscache.IPv4}[f]
	return u.Fresh && u.Family != other
}

// answer takes the addresses of an answer: new ones become endpoints, missing ones drain in the end.
func (o *origin) answer(u dnscache.Update) {
	if u.Len() == 0 {
		return // failed and negative answers drain nobody
	}
	now := time.Now()
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	for _, f := range [...]family{v4, v6} {
		if freshFor(u, f) {
			o.answers[f]++
		}
	}
	o.last = u.Result
	o.seeLocked(now)
	drained := o.missLocked(u, now)
	o.admitLocked()
	o.mu.Unlock()
	o.cluster.reseat()
	for _, ep := range drained {
		ep.pool.CloseIdle()
	}
}

// seeLocked notes which addresses the last answer has.
func (o *origin) seeLocked(now time.Time) {
	for _, ep := range o.endpoints {
		a := ep.address
		if !o.listsLocked(a.addr) {
			continue
		}
		if !a.missed.IsZero() {
			o.rotating = now.Add(rotatingFor)
		}
		a.seen, a.missed, a.gone = o.answers[familyOf(a.addr)], time.Time{}, false
	}
}

func (o *origin) listsLocked(addr netip.Addr) bool {
	for listed := range o.last.All() {
		if listed == addr {
			return true
		}
	}
	return false
}

// missLocked drains the endpoints whose addresses have been missing from two fresh answers in a row, and for long enough. It
// returns those that begin to.
func (o *origin) missLocked(u dnscache.Update, now time.Time) (drained []*endpoint) {
	grace := max(2*u.TTL(), missedFor)
	for _, ep := range o.endpoints {
		a := ep.address
		f := familyOf(a.addr)
		switch {
		case !freshFor(u, f) || a.seen == o.answers[f] || a.gone:
		case a.missed.IsZero():
			a.missed = now
		case now.Before(o.rotating):
		case o.answers[f]-a.seen >= missedAnswers && now.Sub(a.missed) >= grace:
			a.gone = true
			drained = append(drained, ep)
		}
	}
	return drained
}

// admitLocked makes endpoints of the addresses of the active family. That is the family of the first address, which is the one
// that the resolver would connect to, until it has no address left that may be used.
func (o *origin) admitLocked() {
	if o.last.Len() == 0 {
		return
	}
	if !o.chosen {
		o.chosen, o.active = true, familyOf(o.last.At(0))
	}
	if !o.admitFamilyLocked(o.active) && o.admitFamilyLocked(o.active.other()) {
		o.active = o.active.other()
	}
}

func (f family) other() family { return v4 + v6 - f }

// admitFamilyLocked makes endpoints of a family's addresses, and reports whether any can be used.
func (o *origin) admitFamilyLocked(f family) (usable bool) {
	n := 0
	for _, ep := range o.endpoints {
		if familyOf(ep.address.addr) == f {
			n++
			usable = usable || !ep.draining()
		}
	}
	for addr := range o.last.All() {
		if familyOf(addr) != f || slices.ContainsFunc(o.endpoints, func(ep *endpoint) bool { return ep.address.addr == addr }) {
			continue
		}
		if err := o.guard.check(addr); err != nil {
			o.denied = err
			continue
		}
		if n < maxAddresses {
			n, usable = n+1, true
			address := &addressState{addr: addr, seen: o.answers[f]}
			o.endpoints = append(o.endpoints, o.newEndpoint(o.cluster.core.recipe.Load(), address))
		}
	}
	return usable
}

// activeLocked reports whether an endpoint belongs to what gets attempts.
func (o *origin) activeLocked(ep *endpoint) bool {
	return ep.address == nil || familyOf(ep.address.addr) == o.active
}

// dialled notes whether an endpoint's address can be reached. When none of the active family can, the other family takes over.
func (ep *endpoint) dialled(ok bool) {
	a := ep.address
	switch {
	case a == nil, ok && !a.unreachable.Load():
	case ok:
		a.unreachable.Store(false)
	default:
		a.unreachable.Store(true)
		if ep.origin.fallBack() {
			ep.origin.cluster.reseat()
		}
	}
}

// fallBack changes to the other family if no address of the active one can be reached, and the other one has any.
func (o *origin) fallBack() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ep := range o.endpoints {
		if o.activeLocked(ep) && !ep.draining() && !ep.address.unreachable.Load() {
			return false
		}
	}
	other := o.active.other()
	if o.closed || !o.admitFamilyLocked(other) {
		return false
	}
	o.active = other
	for _, ep := range o.endpoints {
		if o.activeLocked(ep) {
			ep.address.unreachable.Store(false) // each has to fail anew before the other family gets its turn again
		}
	}
	return true
}
