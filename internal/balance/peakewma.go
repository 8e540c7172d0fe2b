package balance

// redraws bounds the draws for one candidate, before all endpoints are looked at.
const redraws = 4

// peakEWMA draws two distinct endpoints and takes the one with the lesser load: power of two choices. With replacement, a
// quarter of the picks would go to one endpoint of two, however loaded.
func (v *view) peakEWMA(t Tier, limit rank) *Endpoint {
	eps := v.s.tiers[t]
	a := v.draw(t, limit, -1)
	if a < 0 {
		return nil
	}
	b := v.draw(t, limit, a)
	if b < 0 {
		return eps[a]
	}
	decay := v.s.cfg.Decay
	if eps[b].load(v.now, decay) < eps[a].load(v.now, decay) {
		return eps[b]
	}
	return eps[a]
}

// draw returns the index of an endpoint of at least this rank, other than the one at except; −1 if there is none.
func (v *view) draw(t Tier, limit rank, except int) int {
	eps := v.s.tiers[t]
	n, excluded := len(eps), 0
	if except >= 0 {
		excluded = 1
	}
	for range 1 + redraws {
		i := v.intN(n - excluded)
		if excluded > 0 && i >= except {
			i++
		}
		if v.rank(eps[i], t) <= limit {
			return i
		}
	}
	start := v.intN(n)
	for k := range n {
		if i := (start + k) % n; i != except && v.rank(eps[i], t) <= limit {
			return i
		}
	}
	return -1
}
