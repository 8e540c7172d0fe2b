package balance

import "math"

// leastConnections looks at all endpoints for the fewest pending, ties at random. There is no order to keep, so none to
// lose.
func (v *view) leastConnections(t Tier, limit rank) *Endpoint {
	var best *Endpoint
	fewest, ties := int64(math.MaxInt64), 0
	for _, ep := range v.s.tiers[t] {
		if v.rank(ep, t) > limit {
			continue
		}
		switch p := ep.pending.Load(); {
		case p < fewest:
			best, fewest, ties = ep, p, 1
		case p == fewest:
			if ties++; v.intN(ties) == 0 {
				best = ep
			}
		}
	}
	return best
}

// roundRobin takes the next in turn. One that may not be used misses its turn; its neighbour does not get it, or it would
// have twice its share.
func (v *view) roundRobin(t Tier, limit rank) *Endpoint {
	eps := v.s.tiers[t]
	n := uint64(len(eps))
	turn := uint64(0)
	for range n {
		turn = v.turns[t].Add(1) % n
		if ep := eps[turn]; v.rank(ep, t) <= limit {
			return ep
		}
	}
	// Others took the turns of those that may be used.
	for k := range n {
		if ep := eps[(turn+k)%n]; v.rank(ep, t) <= limit {
			return ep
		}
	}
	return nil
}

// inOrder takes the first.
func (v *view) inOrder(t Tier, limit rank) *Endpoint {
	for _, ep := range v.s.tiers[t] {
		if v.rank(ep, t) <= limit {
			return ep
		}
	}
	return nil
}
