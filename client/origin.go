package client

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sortie-go/sortie/dnscache"
)

// An origin is one base URL and the endpoints that stand for it: one, whose dialer resolves the name, or one per address of
// the name where there is something to balance.
type origin struct {
	up    *upstream
	base  *base
	guard *guard

	byAddress bool // an endpoint per address, which follow DNS

	followed sync.Once
	stop     func() // ends the watch; nil: a single endpoint, or not followed yet

	mu        sync.Mutex
	endpoints []*endpoint // in the order of their first appearance
	denied    error       // why there is none: the guard's word on the last address
	answers   int         // fresh positive ones so far
	rotating  time.Time   // until then addresses that are missing are not missed
}

// Rules for endpoints that follow DNS (client.md, 2).
const (
	maxAddresses  = 128              // endpoints per base; further addresses are not used
	missedAnswers = 2                // fresh answers in a row without an address,
	missedFor     = 30 * time.Second // and at least this long, or twice the TTL, before its endpoint drains
	rotatingFor   = 10 * time.Minute // after an address has come back, absence says nothing
)

// An addressState is what an origin knows of one endpoint's address. It is guarded by origin.mu.
type addressState struct {
	addr   netip.Addr
	seen   int       // number of the last answer that had it
	missed time.Time // since when it is missing; zero: it is not
	gone   bool      // it takes no new attempt
}

// newOrigin makes the origin of a base. It looks nothing up yet.
func newOrigin(up *upstream, b *base, rules *guard, balanced bool) *origin {
	o := &origin{up: up, base: b, guard: rules}
	if _, isLiteral := literal(b.target.host); balanced && !isLiteral && up.transport == nil && up.client.proxy == nil {
		o.byAddress = true
		return o
	}
	ep, err := up.newEndpoint(b.url.Scheme, b.target, serverOf(b.url), rules, netip.AddrPort{})
	if err != nil { // New has asked the proxy before, so it has changed its mind
		o.denied = err
		return o
	}
	ep.base, ep.tier = b, b.side
	ep.seat = up.balancer.NewEndpoint(b.target.String(), ep.gate)
	if o.denied = ep.denied; ep.denied == nil {
		o.endpoints = []*endpoint{ep}
	}
	return o
}

// follow begins to follow the name, at the first call. Each answer comes in order, outside locks.
func (o *origin) follow() {
	if !o.byAddress {
		return
	}
	o.followed.Do(func() {
		stop := o.up.client.resolver.Watch(o.base.target.host, func(u dnscache.Update) { o.answer(u.Result, u.Fresh) })
		o.mu.Lock()
		o.stop = stop
		o.mu.Unlock()
	})
}

// answer takes the addresses of an answer: new ones become endpoints, missing ones drain in the end.
func (o *origin) answer(r dnscache.Result, fresh bool) {
	if r.Len() == 0 {
		return // failed and negative answers drain nobody
	}
	now := time.Now()
	o.mu.Lock()
	if fresh {
		o.answers++
	}
	o.admitLocked(r, now)
	var drained []*endpoint
	if fresh && !r.Partial() {
		drained = o.missLocked(r, now)
	}
	o.mu.Unlock()
	o.up.seatEndpoints()
	for _, ep := range drained {
		ep.pool.CloseIdle()
	}
}

// admitLocked makes endpoints of addresses not seen before. They come from the family of the first address.
func (o *origin) admitLocked(r dnscache.Result, now time.Time) {
	family := r.At(0).Is4()
	for addr := range r.All() {
		if addr.Is4() != family {
			continue
		}
		if i := slices.IndexFunc(o.endpoints, func(ep *endpoint) bool { return ep.address.addr == addr }); i >= 0 {
			ep := o.endpoints[i]
			if !ep.address.missed.IsZero() {
				o.rotating = now.Add(rotatingFor)
			}
			ep.address.seen, ep.address.missed, ep.address.gone = o.answers, time.Time{}, false
			continue
		}
		if err := o.guard.check(addr); err != nil {
			o.denied = err
			continue
		}
		if len(o.endpoints) < maxAddresses {
			o.endpoints = append(o.endpoints, o.pinned(addr))
		}
	}
}

// pinned makes the endpoint of one address. Name and address travel apart: the name stays what TLS verifies.
func (o *origin) pinned(addr netip.Addr) *endpoint {
	up, b := o.up, o.base
	peer := netip.AddrPortFrom(addr, b.port())
	ep, _ := up.newEndpoint(b.url.Scheme, b.target, serverOf(b.url), o.guard, peer) // no proxy, so no error
	ep.base, ep.tier = b, b.side
	ep.address = &addressState{addr: addr, seen: o.answers}
	ep.seat = up.balancer.NewEndpoint(peer.String(), ep.gate)
	return ep
}

// missLocked drains the endpoints whose addresses have been missing from two fresh answers in a row, and for long enough. It
// returns those that begin to.
func (o *origin) missLocked(r dnscache.Result, now time.Time) (drained []*endpoint) {
	grace := max(2*r.TTL(), missedFor)
	for _, ep := range o.endpoints {
		a := ep.address
		switch {
		case a.seen == o.answers || a.gone:
		case a.missed.IsZero():
			a.missed = now
		case now.Before(o.rotating):
		case o.answers-a.seen >= missedAnswers && now.Sub(a.missed) >= grace:
			a.gone = true
			drained = append(drained, ep)
		}
	}
	return drained
}

// usable returns the endpoints that may get attempts, and retires those that drain and have none left.
func (o *origin) usable() (usable []*endpoint) {
	o.mu.Lock()
	var kept, over []*endpoint
	for _, ep := range o.endpoints {
		switch {
		case ep.address == nil || !ep.address.gone:
			usable, kept = append(usable, ep), append(kept, ep)
		case ep.seat.Pending() > 0:
			kept = append(kept, ep)
		default:
			over = append(over, ep)
		}
	}
	o.endpoints = kept
	o.mu.Unlock()
	for _, ep := range over {
		o.up.client.retire(ep)
	}
	return usable
}

// all returns every endpoint of the origin.
func (o *origin) all() []*endpoint {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.endpoints)
}

// empty reports whether there is no endpoint.
func (o *origin) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.endpoints) == 0
}

// whyNone returns the guard's word, where that is why there is no endpoint.
func (o *origin) whyNone() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.denied
}

// first waits for the first answer, for a call that finds no endpoint. All callers share one lookup.
func (o *origin) first(ctx context.Context) error {
	r, err := o.up.client.resolver.Lookup(ctx, o.base.target.host)
	if err != nil {
		return err
	}
	o.answer(r, false)
	return nil
}

// close stops following.
func (o *origin) close() {
	o.followed.Do(func() {}) // nobody begins now
	o.mu.Lock()
	stop := o.stop
	o.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// port is the base's port as a number.
func (b *base) port() uint16 {
	n, _ := strconv.ParseUint(b.target.port, 10, 16) // validated
	return uint16(n)
}
