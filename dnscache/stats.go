package dnscache

import (
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// counters are the Resolver's, off the hot path.
type counters struct {
	misses, coalesced, stale, held, partial, negative atomic.Uint64

	questions, timeouts, evictions, goneHits atomic.Uint64

	codes    [16]atomic.Uint64 // replies by response code; the last is all others
	failures [Closed + 1]atomic.Uint64
}

// answer counts a reply that counts.
func (c *counters) answer(p parsed) {
	c.codes[min(int(p.rcode), len(c.codes)-1)].Add(1)
}

// rcodeOf names a reply's code as metrics do.
func rcodeOf(p parsed) string {
	switch p.rcode {
	case dnsmessage.RCodeSuccess:
		return "noerror"
	case dnsmessage.RCodeNameError:
		return "nxdomain"
	case dnsmessage.RCodeServerFailure:
		return "servfail"
	}
	return "other"
}

func (c *counters) failed(k Kind) { c.failures[k].Add(1) }

// Stats are counts since the Resolver's first use, and facts of the moment.
type Stats struct {
	Names  int // kept
	Pinned int // of them

	Hits      uint64 // reads served at once
	Misses    uint64 // reads that waited for a lookup
	Coalesced uint64 // of them, for one that another reader had begun
	Stale     uint64 // reads served past the end of a record
	Held      uint64 // reads served although DNS denies the name
	Partial   uint64 // reads served while one family was unknown
	Negative  uint64 // reads that were told that there is no address

	Questions uint64            // sent to DNS servers
	Replies   map[string]uint64 // those that counted, by response code: "NOERROR", "SERVFAIL"
	Timeouts  uint64            // sockets that got no reply in time
	Failures  map[Kind]uint64   // errors handed to readers

	Evictions     uint64   // names that had to make room
	Flights       int      // records being asked for now
	DroppedEvents int      // that OnEvent was too slow for
	Resting       []string // servers that are not asked for the moment, since they did not answer
}

// Stats returns the counts. Before the first use, and on an invalid Resolver, they are zero.
func (r *Resolver) Stats() Stats {
	c := r.state.Load()
	if c == nil {
		return Stats{}
	}
	st := &c.stats
	s := Stats{
		Misses: st.misses.Load(), Coalesced: st.coalesced.Load(),
		Stale: st.stale.Load(), Held: st.held.Load(), Partial: st.partial.Load(), Negative: st.negative.Load(),
		Questions: st.questions.Load(), Timeouts: st.timeouts.Load(), Evictions: st.evictions.Load(),
		Replies: make(map[string]uint64), Failures: make(map[Kind]uint64),
		Resting: c.servers.rest(time.Now()),
	}
	for code := range st.codes {
		if n := st.codes[code].Load(); n > 0 {
			s.Replies[countedAs(code)] = n
		}
	}
	for k := range st.failures {
		if n := st.failures[k].Load(); n > 0 {
			s.Failures[Kind(k)] = n
		}
	}
	if c.events != nil {
		s.DroppedEvents = c.events.lost()
	}
	c.countEntries(&s)
	return s
}

// countedAs names a counter of replies.
func countedAs(code int) string {
	var c counters
	if code == len(c.codes)-1 {
		return "OTHER"
	}
	return codeName(dnsmessage.RCode(code))
}

func (c *core) countEntries(s *Stats) {
	s.Hits = c.stats.goneHits.Load()
	for _, e := range c.all() {
		s.Names++
		s.Hits += e.hits.n.Load()
		if e.pinned.Load() {
			s.Pinned++
		}
		for _, r := range e.recs {
			if r != nil && !r.value.Peek().Since.IsZero() {
				s.Flights++
			}
		}
	}
}
