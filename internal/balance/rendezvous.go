package balance

import "math"

const (
	crowded     = 1.25 // times the mean pending,
	crowdedMore = 1    // and one more: above that a key goes elsewhere
)

// rendezvous takes the endpoint with the highest score for the key, so that a change of the set moves only the keys of
// the endpoints that changed. One that is crowded is passed over: a popular key does not overrun its endpoint.
func (v *view) rendezvous(t Tier, limit rank) *Endpoint {
	key := hashString(v.q.Key)
	best, crowd := v.highest(t, limit, key, math.Inf(1))
	if best != nil && float64(best.pending.Load()) > crowd {
		best, _ = v.highest(t, limit, key, crowd)
	}
	return best
}

// highest returns the endpoint with the highest score, of those of at least this rank and with no more than bound pending,
// and above which number they are crowded.
func (v *view) highest(t Tier, limit rank, key uint64, bound float64) (best *Endpoint, crowd float64) {
	top, sum, n := 0.0, int64(0), 0
	for _, ep := range v.s.tiers[t] {
		if v.rank(ep, t) > limit {
			continue
		}
		pending := ep.pending.Load()
		sum += pending
		n++
		if s := v.score(ep, key); s > top && float64(pending) <= bound {
			best, top = ep, s
		}
	}
	return best, crowded*float64(sum)/float64(max(n, 1)) + crowdedMore
}

// score is weighted rendezvous hashing: the highest is at each endpoint with a chance in proportion to its weight f. With u
// from the hash that is −f/ln(u), or, in the same order and cheaper where f is 1, the f-th root of u.
func (v *view) score(ep *Endpoint, key uint64) float64 {
	u := unit(mix(key ^ ep.hash))
	if f := v.weight(ep); f < 1 {
		return math.Pow(u, 1/f)
	}
	return u
}

// weight is slow start for those who draw nothing that could be thinned.
func (v *view) weight(ep *Endpoint) float64 {
	if _, probing := ep.ready(v.q.Now); probing || v.now < ep.watch.Load() && !ep.gated.Load() {
		return v.factor(ep, probing)
	}
	return 1
}
