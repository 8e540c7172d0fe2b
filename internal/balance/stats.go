package balance

import "time"

// Stats is a picture of a balancer.
type Stats struct {
	Endpoints []EndpointStats // Primary first, in the order of the set
	Share     float64         // of the picks from Primary that stay there; 1 without spill
	Panic     [2]bool         // by tier: ejection is ignored
	Keyless   uint64          // picks by Rendezvous that had no key
	Mean      time.Duration   // running average of the time to headers; 0: no sample
}

// EndpointStats is a picture of an endpoint.
type EndpointStats struct {
	Endpoint *Endpoint
	Tier     Tier
	Pending  int
	Cost     time.Duration // at this moment; 0: no sample
	Warm     bool          // it has answered
	Factor   float64       // share of its full share; below 1 in slow start
	Suspect  time.Duration // how long others will be preferred
	InRow    int           // failures in a row

	Ejected  time.Duration // how long it will be left out; 0: it is not
	Times    int           // ejections not forgiven
	Ejection Ejection      // the last, with what led to it; zero: none
}

// Stats returns a picture of the balancer. Its parts are read one after another.
func (b *Balancer) Stats(now time.Time) Stats {
	v := view{q: &Query{Now: now}, s: b.state.Load(), now: b.instant(now)}
	h := v.s.health(&v)
	out := Stats{
		Share: float64(h.share()) / wholeShare, Panic: [2]bool{h.panic(Primary), h.panic(Secondary) || h.alone()},
		Keyless: b.keyless.Load(), Mean: b.Mean(),
	}
	for t, tier := range v.s.tiers {
		for _, ep := range tier {
			s := ep.stats(&v)
			s.Tier = Tier(t)
			out.Endpoints = append(out.Endpoints, s)
		}
	}
	return out
}

func (ep *Endpoint) stats(v *view) EndpointStats {
	_, probing := ep.ready(v.q.Now)
	left := func(until int64) time.Duration { return time.Duration(max(until-v.now, 0)) }
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return EndpointStats{
		Endpoint: ep, Pending: ep.Pending(), Warm: ep.warm.Load(),
		Cost: seconds(ep.costAt(v.now, v.s.cfg.Decay)), Factor: v.factor(ep, probing),
		Suspect: left(ep.suspect.Load()), InRow: ep.runs.failures,
		Ejected: left(ep.ejected.Load()), Times: ep.out.times, Ejection: ep.out.last,
	}
}
