package balance

import "slices"

// rank says how well an endpoint serves a pick; less is better.
type rank int8

const (
	plain   rank = iota // as good as any
	suspect             // it has just failed twice or more
	held                // slow start holds it back

	// The same for endpoints that the call has tried.
	againPlain
	againSuspect
	againHeld

	leftOut  // ejected
	unusable // not admitted, refused already, or not what was asked for
)

const (
	fresh = held      // the worst of those not tried
	again = againHeld // the worst of those that are not ejected
)

// rank judges an endpoint. The everyday case is two atomic loads and a question to its breaker.
func (v *view) rank(ep *Endpoint, t Tier) rank {
	if len(v.q.Denied) > 0 && slices.Contains(v.q.Denied, ep) {
		return unusable
	}
	admits, probing := ep.ready(v.q.Now)
	if !admits {
		return unusable
	}
	r := plain
	if probing || v.now < ep.watch.Load() {
		if r = v.closer(ep, t, probing); r >= leftOut {
			return r
		}
	}
	if len(v.q.Tried) > 0 && slices.Contains(v.q.Tried, ep) {
		return r + againPlain
	}
	return r
}

// closer judges an endpoint of which something is known.
func (v *view) closer(ep *Endpoint, t Tier, probing bool) rank {
	shunned := v.now < ep.suspect.Load()
	switch {
	case v.now < ep.ejected.Load() && v.s.cfg.ejects() && !v.panic[t]:
		return leftOut
	case v.q.Hedge && (probing || shunned):
		return unusable
	case v.thinned(ep, probing) || ep.pending.Load() >= v.room(ep, t, probing):
		return held
	case shunned:
		return suspect
	}
	return plain
}
