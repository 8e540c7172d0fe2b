package client

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sortie-go/sortie/dnscache"
)

// A spot is where an upstream is to be found: a base URL or, for an upstream without any, a host that was asked for.
type spot struct {
	scheme string
	target hostPort
	name   string // for reports
	base   *base  // nil: the URL is used as it is
	guard  *guard
	proxy  *url.URL // nil: none. An origin keeps the one it began with
}

// same reports whether two spots are one. A base URL that is written in another way is another.
func (s spot) same(o spot) bool {
	if s.base == nil || o.base == nil {
		return s.base == o.base && s.scheme == o.scheme && s.target == o.target
	}
	return s.base.text == o.base.text && s.base.side == o.base.side
}

// byAddress reports whether there is an endpoint for each address of the name: if there is something to balance, and nobody
// else chooses the address.
func (s spot) byAddress(r *recipe, c *Client) bool {
	_, isLiteral := literal(s.target.host)
	return r.balanced && !isLiteral && r.kit.transport == nil && c.proxy == nil
}

// An origin is a spot and the endpoints that stand for it: one, whose dialer resolves the name, or one per address of the name
// where there is something to balance. How addresses become endpoints is in addresses.go.
type origin struct {
	spot
	cluster   *cluster
	byAddress bool        // an endpoint per address, which follow DNS
	seated    atomic.Bool // the balancer knows an endpoint of it: calls need not wait for DNS

	following sync.Once

	mu        sync.Mutex
	endpoints []*endpoint // in the order of their first appearance
	denied    error       // why there is none: the guard's word on the last address
	closed    bool        // no endpoint comes any more
	stop      func()      // ends the watch; nil: not followed
	addresses             // of the name; byAddress only
}

// newOrigin makes the origin of a spot. It looks nothing up yet.
func newOrigin(cl *cluster, s spot, r *recipe) *origin {
	o := &origin{spot: s, cluster: cl}
	if o.byAddress = s.byAddress(r, cl.core.client); !o.byAddress {
		o.singleLocked(r) // nobody else has it yet
	}
	return o
}

// singleLocked makes the one endpoint, unless its address is a literal one and refused.
func (o *origin) singleLocked(r *recipe) {
	if addr, ok := literal(o.target.host); ok {
		if o.denied = o.guard.check(addr); o.denied != nil {
			return
		}
	}
	o.endpoints = []*endpoint{o.newEndpoint(r, nil)}
}

// remake makes the endpoints fit another recipe, and other rules of the guard. It returns those that have no place any more.
func (o *origin) remake(r *recipe) (left []*endpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.endpoints
	o.endpoints = nil
	for _, ep := range before {
		switch {
		case !o.permits(ep), ep.kit != r.kit && ep.draining():
			left = append(left, ep)
		case ep.kit != r.kit:
			left = append(left, ep)
			o.endpoints = append(o.endpoints, o.successor(r, ep))
		default:
			o.endpoints = append(o.endpoints, ep)
		}
	}
	switch {
	case o.byAddress:
		o.admitLocked()
	case len(before) == 0:
		o.singleLocked(r)
	}
	return left
}

// permits asks the guard again about an endpoint with a known address, and keeps its word.
func (o *origin) permits(ep *endpoint) bool {
	addr, ok := literal(o.target.host)
	if ep.address != nil {
		addr, ok = ep.address.addr, true
	}
	if !ok {
		return true
	}
	err := o.guard.check(addr)
	if err != nil {
		o.denied = err
	}
	return err == nil
}

// follow begins to follow the name, at the first call. Each answer comes in order, outside locks.
func (o *origin) follow() {
	if !o.byAddress {
		return
	}
	o.following.Do(func() {
		stop := o.cluster.core.client.resolver.Watch(o.target.host, o.answer)
		o.mu.Lock()
		closed := o.closed
		o.stop = stop
		o.mu.Unlock()
		if closed {
			stop()
		}
	})
}

// sort returns the endpoints that may get attempts, those that may not at present, and those that have drained and are the
// origin's no more.
func (o *origin) sort() (usable, resting, drained []*endpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var kept []*endpoint
	for _, ep := range o.endpoints {
		switch role := o.roleLocked(ep); {
		case role == draining && !ep.attempts.any():
			drained = append(drained, ep)
			continue
		case role == serving:
			usable = append(usable, ep)
		default:
			resting = append(resting, ep)
		}
		kept = append(kept, ep)
	}
	o.endpoints = kept
	return usable, resting, drained
}

// A role is what an endpoint is there for.
type role string

const (
	serving  role = ""         // it gets attempts
	draining role = "draining" // it gets none any more
	reserve  role = "reserve"  // its address is of the family that nothing is sent to at present
)

func (o *origin) roleLocked(ep *endpoint) role {
	switch {
	case ep.draining():
		return draining
	case !o.activeLocked(ep):
		return reserve
	}
	return serving
}

func (o *origin) roleOf(ep *endpoint) role {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.roleLocked(ep)
}

// all returns every endpoint of the origin.
func (o *origin) all() []*endpoint {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.endpoints)
}

// whyNone returns the guard's word, where that is why there is no endpoint.
func (o *origin) whyNone() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.denied
}

// first waits for the first answer, for a call that finds no endpoint. All callers share one lookup.
func (o *origin) first(ctx context.Context) error {
	r, err := o.cluster.core.client.resolver.Lookup(ctx, o.target.host)
	if err != nil {
		return err
	}
	o.answer(dnscache.Update{Result: r})
	return nil
}

// close stops following, and returns the endpoints, which are nobody's now.
func (o *origin) close() []*endpoint {
	o.mu.Lock()
	left, stop := o.endpoints, o.stop
	o.closed, o.endpoints, o.stop = true, nil, nil
	o.mu.Unlock()
	if stop != nil {
		stop()
	}
	return left
}

// port is the target's port as a number.
func (h hostPort) portNumber() uint16 {
	n, _ := strconv.ParseUint(h.port, 10, 16) // validated
	return uint16(n)
}

// peer is the address of a pinned endpoint with its port.
func (o *origin) peer(addr netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(addr, o.target.portNumber())
}
