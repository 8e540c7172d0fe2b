package client

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sortie-go/sortie/internal/balance"
)

// A cluster is a set of endpoints that attempts are spread over: those of an upstream's bases or, where it has none, those of
// one host.
type cluster struct {
	core     *core
	balancer *balance.Balancer
	held     *tablePlace // in a hostTable; nil for bases
	tiers    atomic.Pointer[tiers]

	placing sync.Mutex // one change of tiers at a time
	ended   bool       // no origin comes any more; guarded by placing

	seating sync.Mutex                                      // one change of the balancer's set at a time
	closed  bool                                            // guarded by seating
	seats   atomic.Pointer[map[*balance.Endpoint]*endpoint] // whose seat it is
}

// tiers are the origins by tier; the second is empty unless there is something to spill to. It is immutable.
type tiers [2][]*origin

// all returns the origins of both tiers.
func (t *tiers) all() []*origin { return slices.Concat(t[balance.Primary], t[balance.Secondary]) }

// newCluster returns a cluster without endpoints.
func newCluster(k *core, r *recipe) *cluster {
	cl := &cluster{core: k, balancer: newBalancer(k, r)}
	cl.tiers.Store(new(tiers))
	cl.seats.Store(&map[*balance.Endpoint]*endpoint{})
	return cl
}

// place says where the endpoints are from now on, and what they are made of. Origins that were there before stay. Those that
// are gone, and endpoints that had to be made anew, take no further attempt and end with the last one they have.
func (cl *cluster) place(r *recipe, spots [2][]spot) {
	cl.placing.Lock()
	defer cl.placing.Unlock()
	if !cl.ended {
		cl.placeLocked(r, spots)
	}
}

func (cl *cluster) placeLocked(r *recipe, spots [2][]spot) {
	old, next := cl.tiers.Load(), new(tiers)
	cl.balancer.Configure(r.balance)
	var left []*endpoint
	for t, list := range spots {
		for _, s := range list {
			o := old.find(s, r)
			if o == nil {
				o = newOrigin(cl, s, r)
			} else {
				left = append(left, o.remake(r)...)
			}
			next[t] = append(next[t], o)
		}
	}
	cl.seat(next)
	staying := next.all()
	for _, o := range old.all() {
		if !slices.Contains(staying, o) {
			left = append(left, o.close()...)
		}
	}
	for _, ep := range left { // no pick finds them any more
		cl.core.client.retire(ep)
	}
	for _, ep := range cl.endpoints() {
		ep.gate.guardWith(r.breaker)
	}
}

// find returns the origin that serves a spot as the recipe wants it; nil: there is none.
func (t *tiers) find(s spot, r *recipe) *origin {
	for _, o := range t.all() {
		if o.spot.same(s) && o.byAddress == s.byAddress(r, o.cluster.core.client) {
			return o
		}
	}
	return nil
}

// reseat looks again at which endpoints there are.
func (cl *cluster) reseat() { cl.seat(nil) }

// seat puts origins in force, unless it is given nil, tells the balancer which endpoints there are, and ends those that have
// drained.
func (cl *cluster) seat(next *tiers) {
	cl.seating.Lock()
	defer cl.seating.Unlock()
	if cl.closed {
		return
	}
	if next == nil {
		next = cl.tiers.Load()
	}
	seats := make(map[*balance.Endpoint]*endpoint)
	var set [2][]*balance.Endpoint
	var over []*endpoint
	seated := make(map[*origin]bool) // as sorted, not as it may be a moment later: who finds an origin seated finds its seats
	for t, origins := range next {
		for _, o := range origins {
			usable, resting, drained := o.sort()
			for _, ep := range usable {
				set[t] = append(set[t], ep.seat)
				seats[ep.seat] = ep
			}
			for _, ep := range resting {
				seats[ep.seat] = ep
			}
			over = append(over, drained...)
			seated[o] = len(usable)+len(resting) > 0
		}
	}
	// A pick that comes between the two finds nobody at a seat, and asks again when this is over: it sees by the seats that there
	// is something new to be found. So they come last, or one that has begun in between would take them for what it went by.
	cl.balancer.Set(set[balance.Primary], set[balance.Secondary])
	if !maps.Equal(*cl.seats.Load(), seats) {
		cl.seats.Store(&seats)
	}
	cl.tiers.Store(next)
	for o, any := range seated {
		o.seated.Store(any)
	}
	for _, ep := range over {
		cl.core.client.retire(ep)
	}
	if cl.core.client.draining.Load() { // asked after they can be found: Drain looks for them after it has said so
		for _, ep := range seats {
			ep.quiet()
		}
	}
}

// A seating is what a pick has gone by.
type seating struct {
	tiers *tiers
	seats *map[*balance.Endpoint]*endpoint
}

func (cl *cluster) now() seating { return seating{cl.tiers.Load(), cl.seats.Load()} }

// settled is now, but for a change that is half done: it waits for the end of that.
func (cl *cluster) settled() seating {
	cl.seating.Lock()
	defer cl.seating.Unlock()
	return cl.now()
}

// enter returns the endpoint of a seat, with an attempt entered there; nil: it has been retired this very moment.
func (cl *cluster) enter(seat *balance.Endpoint) *endpoint {
	for {
		ep := (*cl.seats.Load())[seat]
		if ep == nil || ep.attempts.enter() {
			return ep
		}
		// It was retired, so the seats are others by now.
	}
}

// tierOf is the tier in which a call from a side begins.
func (t *tiers) tierOf(side Side) balance.Tier {
	if side == External && len(t[balance.Secondary]) > 0 {
		return balance.Secondary
	}
	return balance.Primary
}

// endpoints returns the endpoints, those included that get no attempt at the moment.
func (cl *cluster) endpoints() (all []*endpoint) {
	for _, o := range cl.tiers.Load().all() {
		all = append(all, o.all()...)
	}
	return all
}

// end lets the cluster go: no attempt begins here any more, those that run may end.
func (cl *cluster) end() {
	cl.placing.Lock()
	defer cl.placing.Unlock()
	cl.placeLocked(cl.core.recipe.Load(), [2][]spot{})
	cl.ended = true
}

// leave ends one attempt in the cluster.
func (cl *cluster) leave() {
	if cl.held != nil {
		cl.held.release()
	}
}

// close ends the cluster at once.
func (cl *cluster) close() {
	cl.seating.Lock()
	cl.closed = true
	cl.seating.Unlock()
	for _, o := range cl.tiers.Load().all() {
		for _, ep := range o.close() {
			ep.close()
			ep.gate.close()
		}
	}
	cl.balancer.Close()
}
