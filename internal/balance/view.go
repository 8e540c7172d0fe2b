package balance

import (
	"math/rand/v2"
	"sync/atomic"
)

// A view is one pick at work: the question, and what has been found out for it. It lives on the stack.
type view struct {
	q       *Query
	s       *state
	turns   *[2]atomic.Uint64
	now     int64
	drawn   Tier
	spill   bool    // the other tier may serve as well
	panic   [2]bool // ejection is ignored
	untried bool
	keyed   bool // by Rendezvous: slow start is a weight there, and no coin is tossed

	seed   uint64 // of slow start's coins: one per endpoint and pick
	random uint64

	settled   float64 // mean pending of the settled in settledIn; negative: there are none
	settledIn int8
}

// look begins a pick. The query is in its place already: through here it would escape to the heap.
func (v *view) look(b *Balancer) {
	q := v.q
	v.s, v.turns, v.now = b.state.Load(), &b.turns, b.instant(q.Now)
	v.untried = q.Untried || q.Hedge
	v.seed = rand.Uint64()
	v.random, v.settledIn = v.seed, nowhere
	if v.s.cfg.Picker == Rendezvous {
		if v.keyed = q.Key != ""; !v.keyed {
			b.keyless.Add(1)
		}
	}
	v.drawTier(b)
}

// wish goes through the wishes. What it reports as held back by slow start was taken because there was no other.
func (v *view) wish() (p Pick, held bool) {
	near, far := v.drawn, v.drawn.other()
	p.Known = len(v.s.tiers[near])
	if v.spill {
		p.Known += len(v.s.tiers[far])
	}
	if ep := v.choose(near, plain); ep != nil { // the everyday
		return v.pick(p, ep, near, Fresh), false
	}
	nearBest, nearEP := v.best(near)
	if nearBest <= fresh {
		return v.pick(p, v.chooseOr(nearEP, near, nearBest), near, Fresh), nearBest == fresh
	}
	farBest, farEP := unusable, (*Endpoint)(nil)
	if v.spill {
		farBest, farEP = v.best(far)
	}
	switch {
	case farBest <= fresh:
		return v.pick(p, v.chooseOr(farEP, far, farBest), far, Spilled), farBest == fresh
	case v.untried:
		return p, false
	case nearBest <= again:
		return v.pick(p, v.chooseOr(nearEP, near, nearBest), near, Again), true
	case farBest <= again:
		return v.pick(p, v.chooseOr(farEP, far, farBest), far, Again), true
	case nearBest == leftOut:
		return v.pick(p, v.chooseOr(nearEP, near, leftOut), near, LastResort), true
	case farBest == leftOut:
		return v.pick(p, v.chooseOr(farEP, far, leftOut), far, LastResort), true
	}
	return p, false
}

func (v *view) pick(p Pick, ep *Endpoint, t Tier, w Wish) Pick {
	p.Endpoint, p.Tier, p.Wish, p.Panic = ep, t, w, v.panic[t]
	if e := v.s.cfg.Eject; e != nil && e.Shadow {
		p.WouldEject = v.now < ep.ejected.Load()
	}
	return p
}

// chooseOr lets the picker choose among the endpoints of at least this rank, of which ep is one. Should they all have
// changed meanwhile, it is ep.
func (v *view) chooseOr(ep *Endpoint, t Tier, limit rank) *Endpoint {
	if chosen := v.choose(t, limit); chosen != nil {
		return chosen
	}
	return ep
}

// choose lets the picker choose among the endpoints of at least this rank; nil: there is none.
func (v *view) choose(t Tier, limit rank) *Endpoint {
	eps := v.s.tiers[t]
	picker := v.s.cfg.Picker
	switch {
	case len(eps) == 0 || v.q.Hedge && v.panic[t]:
		return nil
	case len(eps) == 1 || picker == InOrder:
		return v.inOrder(t, limit)
	case picker == LeastConnections:
		return v.leastConnections(t, limit)
	case picker == RoundRobin:
		return v.roundRobin(t, limit)
	case v.keyed:
		return v.rendezvous(t, limit)
	}
	return v.peakEWMA(t, limit)
}

// best returns the best rank in the tier, and an endpoint that has it.
func (v *view) best(t Tier) (rank, *Endpoint) {
	best, which := unusable, (*Endpoint)(nil)
	eps := v.s.tiers[t]
	if len(eps) == 0 || v.q.Hedge && v.panic[t] {
		return best, nil
	}
	start := v.intN(len(eps))
	for i := range eps {
		ep := eps[(start+i)%len(eps)]
		if r := v.rank(ep, t); r < best {
			best, which = r, ep
		}
	}
	return best, which
}

// intN draws evenly from [0, n), give or take one in 2^32.
func (v *view) intN(n int) int {
	v.random += 0x9e3779b97f4a7c15
	return int(mix(v.random) >> 32 * uint64(n) >> 32)
}
