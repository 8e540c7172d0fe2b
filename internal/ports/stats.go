package ports

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// quietFor is how long after its last dial a destination that holds nothing still stands in the statistics.
const quietFor = 5 * time.Minute

// Stats is one destination at one moment.
type Stats struct {
	Dest netip.AddrPort // zero: all destinations that are not told apart, and so not limited

	Preset, Source string // of the rule that will refuse first; "": there is none
	Open, Dialing  int
	Cooling        int           // closed, and kept by that rule
	Held, Budget   int           // ports; Budget 0: no limit
	Hold           time.Duration // the longest of that rule

	Dialed   uint64  // ever
	PerSec   float64 // dials, over the last minute
	Requests uint64  // carried by connections that are closed
	Forecast Forecast

	Refused   uint64 // connects, by a rule
	NoPort    uint64 // by the kernel
	Suspected uint64 // connects that timed out where others were answered lately, while ports ran short
}

// Stats returns the destinations that hold something or were dialled lately, the fullest first, and last those that are not told
// apart.
func (l *Ledger) Stats() []Stats {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Stats, 0, len(l.known)+1)
	for _, d := range l.known {
		if !d.idle(now) || now-d.last < quietFor {
			all = append(all, d.stats(now))
		}
	}
	slices.SortFunc(all, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(b.Held, a.Held), a.Dest.Compare(b.Dest))
	})
	if l.rest != nil {
		all = append(all, l.rest.stats(now))
	}
	return all
}

// used orders those without a budget by what no machine has more of.
func (s Stats) used() float64 {
	budget := s.Budget
	if budget == 0 {
		budget = 1 << 16
	}
	return float64(s.Held) / float64(budget)
}

func (d *destination) stats(now time.Duration) Stats {
	s := Stats{
		Dest: d.addr, Open: d.open, Dialing: d.dialing, Held: d.open + d.dialing,
		Dialed: d.dialed, PerSec: d.dials.perSecond(now, d.born, minute), Requests: d.requests.Load(),
		Refused: d.refused, NoPort: d.noPort, Suspected: d.suspected,
	}
	if a := d.tightest(); a != nil {
		s.Preset, s.Source, s.Budget, s.Hold = a.rule.Name, a.rule.Source, a.rule.Budget, a.rule.Holds.Longest()
		s.Cooling, s.Held = a.cool.sum, d.heldBy(a)
		s.Forecast = d.forecast(a, now)
	}
	return s
}

// Utilization is the part of its budget that the fullest destination of a policy holds; false: none has a budget.
func (l *Ledger) Utilization(p *Policy) (part float64, ok bool) {
	now := time.Since(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.known {
		if !slices.Contains(d.met, p) {
			continue
		}
		d.expire(now)
		for i := range d.accounts {
			a := &d.accounts[i]
			part, ok = max(part, float64(d.heldBy(a))/float64(a.rule.Budget)), true
		}
	}
	return part, ok
}
