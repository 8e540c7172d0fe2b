package balance

import (
	"math/rand/v2"
	"time"
)

// Cause says why an endpoint was ejected. The zero Cause is none.
type Cause uint8

const (
	ByConnect     Cause = 1 + iota // failed dials in a row
	ByConsecutive                  // failures in a row
	ByMargin                       // failing more than its peers
	ByRelapse                      // the first outcome after an ejection was a failure
)

// String returns the cause's name in lower case, such as "connect"; "" for none.
func (c Cause) String() string {
	return [...]string{"", "connect", "consecutive", "margin", "relapse"}[c]
}

// An Ejection is the decision to leave an endpoint out for a while.
type Ejection struct {
	Endpoint *Endpoint
	Cause    Cause
	At       time.Time
	For      time.Duration
	Times    int     // ejections that have not been forgiven, this one included
	InRow    int     // failures in a row that led to it
	Share    float64 // ByMargin: share of failures in the Interval,
	Median   float64 // and that of its tier
	Shadow   bool    // it was not carried out
}

// ejections is what an endpoint keeps of them, guarded by its mutex.
type ejections struct {
	times     int
	probation bool  // nothing good was seen since the last: one failure ejects again
	forgive   int64 // when times falls by one
	last      Ejection
}

// causeLocked returns why the endpoint should be ejected after this outcome, or 0. Late outcomes of attempts made before
// an ejection neither end its probation nor add to it.
func (ep *Endpoint) causeLocked(o Outcome, e *Eject, t int64) Cause {
	if e == nil || t < ep.ejected.Load() {
		return 0
	}
	switch {
	case o == OK:
		ep.out.probation = false
	case o == Neutral:
	case ep.out.probation:
		return ByRelapse
	case e.Connect > 0 && ep.runs.dials >= e.Connect:
		return ByConnect
	case e.Consecutive > 0 && ep.runs.failures >= e.Consecutive:
		return ByConsecutive
	}
	return 0
}

// eject ejects an endpoint if its tier can do without it.
func (b *Balancer) eject(ep *Endpoint, why Ejection, t int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ejectLocked(ep, why, t)
}

func (b *Balancer) ejectLocked(ep *Endpoint, why Ejection, t int64) {
	s := b.state.Load()
	e := s.cfg.Eject
	if e == nil || ep.tier == nowhere || t < ep.ejected.Load() || !mayEject(s.tiers[ep.tier], e.MaxPercent, t) {
		return
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	out := &ep.out
	out.times++
	out.probation = true
	length := float64(min(e.MaxTime, e.Base*time.Duration(min(out.times, 1000)))) * (1 + 0.2*rand.Float64())
	until := t + int64(length)
	out.forgive = until + int64(e.Interval)

	why.Endpoint, why.At, why.For = ep, b.time(t), time.Duration(length)
	why.Times, why.InRow, why.Shadow = out.times, ep.runs.failures, e.Shadow
	out.last = why
	ep.ejected.Store(until)
	if !e.Shadow {
		ep.ramp.Store(until)
	}
	ep.watchLocked(s.cfg.SlowStart)
	b.Refresh()
	b.events.add(why)
}

// mayEject reports whether one more of the tier may go: the bound is tested on the number after the step, so that a small
// set can lose one (envoyproxy/gateway#8140) and no set all (envoyproxy/envoy#26877).
func mayEject(tier []*Endpoint, maxPercent int, t int64) bool {
	after := 1
	for _, ep := range tier {
		if t < ep.ejected.Load() {
			after++
		}
	}
	return after <= max(1, len(tier)*maxPercent/100) && after < len(tier)
}
