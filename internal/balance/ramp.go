package balance

import (
	"math"
	"time"
)

// least is the share, of its full one, with which an endpoint begins its slow start. A half-open one stays there.
const least = 0.10

// factor is the share of its full share that an endpoint in slow start is due; 1 if it is in none.
func (v *view) factor(ep *Endpoint, probing bool) float64 {
	if probing {
		return least
	}
	start := ep.ramp.Load()
	age := v.now - start
	if start == 0 || age < 0 { // none, or it begins with the end of an ejection
		return 1
	}
	return rampFactor(age, v.s.cfg.SlowStart)
}

func rampFactor(age int64, slowStart time.Duration) float64 {
	if age >= int64(slowStart) {
		return 1
	}
	return max(float64(age)/float64(slowStart), least)
}

// thinned reports whether an endpoint in slow start is passed over this time. It is one coin for each endpoint and pick,
// however often the endpoint is drawn; so its chance does not depend on the picker, nor on how many others are new.
func (v *view) thinned(ep *Endpoint, probing bool) bool {
	if v.keyed || ep.gated.Load() {
		return false
	}
	f := v.factor(ep, probing)
	return f < 1 && unit(mix(v.seed^ep.hash)) >= f
}

// room is how many attempts may be pending at an endpoint: one at a newcomer that has not answered yet, in slow start its
// share of what is pending at each of the settled, and any number otherwise. Thinning bounds the share over time, this
// bounds a burst.
func (v *view) room(ep *Endpoint, t Tier, probing bool) int64 {
	if ep.gated.Load() {
		return 1
	}
	f := v.factor(ep, probing)
	if f >= 1 {
		return math.MaxInt64
	}
	mean := v.meanSettled(t)
	if mean < 0 {
		return math.MaxInt64
	}
	return max(1, int64(math.Ceil(f*mean)))
}

// meanSettled returns the mean of what is pending at the endpoints in full service; negative: there are none.
func (v *view) meanSettled(t Tier) float64 {
	if v.settledIn == int8(t) {
		return v.settled
	}
	sum, n := int64(0), 0
	for _, ep := range v.s.tiers[t] {
		if v.now >= ep.watch.Load() || !ep.gated.Load() && v.now >= ep.ejected.Load() && v.factor(ep, false) == 1 {
			sum += ep.pending.Load()
			n++
		}
	}
	v.settled, v.settledIn = -1, int8(t)
	if n > 0 {
		v.settled = float64(sum) / float64(n)
	}
	return v.settled
}
