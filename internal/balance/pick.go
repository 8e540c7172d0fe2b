package balance

import "time"

// A Query says what an attempt is picked for.
type Query struct {
	Now  time.Time
	Tier Tier   // where the call begins; only from Primary does it spill
	Key  string // for Rendezvous

	Tried  []*Endpoint // endpoints at which this call has been already
	Denied []*Endpoint // endpoints whose breakers have just refused it: never picked

	Untried bool // only an available endpoint that was not tried: for a move
	Hedge   bool // as Untried, and neither suspect nor half-open, nor from a tier in panic
}

// Wish is the first of the wishes that could be met.
type Wish uint8

const (
	Fresh      Wish = iota // available and not tried, in the tier drawn
	Spilled                // likewise, in the other tier
	Again                  // tried before: another connection should be asked for
	LastResort             // ejected
)

// String returns the wish's name in lower case, such as "last_resort".
func (w Wish) String() string { return [...]string{"fresh", "spilled", "again", "last_resort"}[w] }

// A Pick is what was chosen.
type Pick struct {
	Endpoint   *Endpoint // nil: none. Else an attempt is pending there, and must be released
	Tier       Tier      // of the endpoint
	Wish       Wish
	Panic      bool // ejection was ignored in that tier
	WouldEject bool // a dry run of ejection would have left the endpoint out
	Known      int  // endpoints in the tiers that the query reaches
}

// Pick chooses an endpoint and counts an attempt as pending there. It takes no lock and allocates nothing.
func (b *Balancer) Pick(q *Query) Pick {
	v := view{q: q}
	v.look(b)
	const races = 4 // lost against others who picked the same endpoint
	for range races {
		p, held := v.wish()
		if p.Endpoint == nil || v.take(p, held) {
			return p
		}
	}
	p, _ := v.wish()
	if p.Endpoint != nil {
		p.Endpoint.pending.Add(1)
	}
	return p
}

// take counts the attempt. It returns false if others came first and the endpoint, in slow start, has had its share.
func (v *view) take(p Pick, held bool) bool {
	ep := p.Endpoint
	pending := ep.pending.Add(1)
	if held || v.now >= ep.watch.Load() || pending <= v.room(ep, p.Tier, false) {
		return true
	}
	ep.pending.Add(-1)
	return false
}

// HasUntried reports whether there is an available endpoint that the call has not tried: whether a move is possible.
func (b *Balancer) HasUntried(q *Query) bool {
	v := view{q: q}
	v.look(b)
	v.untried = true
	p, _ := v.wish()
	return p.Endpoint != nil
}
