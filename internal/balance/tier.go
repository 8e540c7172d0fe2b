package balance

import "cmp"

// How the tiers stand is found out by looking at all endpoints, and kept for a tenth of a second.
const healthEvery = int64(100e6)

// A health is that, in one word, so that it can be kept without a lock and without allocating:
//
//	bits 0 to 13   the share of Primary's attempts that stay there, in hundredths of a per cent
//	bits 14, 15    Primary, Secondary is in panic, as seen by a call that may spill
//	bit 16         Secondary is in panic, as seen by a call that begins there
//	above          the instant until which it is kept, without its lowest bits
//
// The zero health is none.
type health uint64

const (
	wholeShare  = 10_000
	shareMask   = 1<<14 - 1
	panicBit    = 14
	aloneBit    = 16
	untilMask   = ^health(1<<17 - 1)
	assumedLoad = 1.4 // spill factor where none is given
)

func (h health) share() int         { return int(h & shareMask) }
func (h health) panic(t Tier) bool  { return h>>(panicBit+t)&1 == 1 }
func (h health) alone() bool        { return h>>aloneBit&1 == 1 }
func (h health) keeps(t int64) bool { return health(t) < h&untilMask }

// drawTier decides in which tier a pick begins, by one draw, and what it has to know about the tiers.
func (v *view) drawTier(b *Balancer) {
	s := v.s
	v.drawn = v.q.Tier
	v.spill = v.drawn == Primary && s.cfg.SpillFactor > 0 && len(s.tiers[Secondary]) > 0
	if !v.spill && !s.cfg.panics() {
		return
	}
	h := health(b.health.Load())
	if !h.keeps(v.now) {
		fresh := s.health(v)
		b.health.CompareAndSwap(uint64(h), uint64(fresh)) // unless a Refresh came between
		h = fresh
	}
	if !v.spill {
		v.panic[v.drawn] = v.drawn == Secondary && h.alone() || v.drawn == Primary && h.panic(Primary)
	} else {
		v.panic = [2]bool{h.panic(Primary), h.panic(Secondary)}
		if v.intN(wholeShare) >= h.share() {
			v.drawn = Secondary
		}
	}
}

// panics reports whether there may be a panic.
func (c *Config) panics() bool { return c.ejects() && c.Eject.Panic > 0 }

// health looks at all endpoints.
func (s *state) health(v *view) health {
	var percent [2]float64 // available, of those known
	var bears [2]float64   // h: how much of all attempts the tier can bear
	factor := cmp.Or(s.cfg.SpillFactor, assumedLoad)
	for t, tier := range s.tiers {
		if len(tier) == 0 {
			continue
		}
		percent[t] = 100 * float64(v.available(tier)) / float64(len(tier))
		bears[t] = min(100, factor*percent[t])
	}
	spills := s.cfg.SpillFactor > 0 && len(s.tiers[Secondary]) > 0
	other := 0.0
	if spills {
		other = bears[Secondary]
	}
	share := 1.0
	if sum := bears[Primary] + other; sum > 0 && sum < 100 {
		share = bears[Primary] / sum
	} else if sum > 0 {
		share = bears[Primary] / 100
	}
	h := health(share * wholeShare)
	sum := bears[Primary] + other
	if s.panicking(Primary, percent[Primary], sum) {
		h |= 1 << panicBit
	}
	if spills && s.panicking(Secondary, percent[Secondary], sum) {
		h |= 1 << (panicBit + 1)
	}
	if s.panicking(Secondary, percent[Secondary], bears[Secondary]) {
		h |= 1 << aloneBit
	}
	return h | health(v.now+healthEvery)&untilMask
}

// panicking reports whether a tier has too few endpoints left and nobody can take over what they are spared.
func (s *state) panicking(t Tier, percent, bears float64) bool {
	return s.cfg.panics() && len(s.tiers[t]) > 0 && percent < float64(s.cfg.Eject.Panic) && bears < 100
}

// available counts the endpoints that are neither ejected nor kept by their breakers.
func (v *view) available(tier []*Endpoint) (n int) {
	for _, ep := range tier {
		if v.s.cfg.ejects() && v.now < ep.ejected.Load() {
			continue
		}
		if admits, probing := ep.ready(v.q.Now); admits || probing {
			n++
		}
	}
	return n
}
