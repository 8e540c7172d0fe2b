package dnscache

import (
	"fmt"
	"iter"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// Source says where an answer comes from.
type Source uint8

// The sources.
const (
	SourceDNS     Source = iota // a DNS server
	SourceHosts                 // the hosts file
	SourceLiteral               // the name is an address
	SourceSystem                // the platform's own resolver
)

// String returns the source's name in lower case.
func (s Source) String() string {
	switch s {
	case SourceDNS:
		return "dns"
	case SourceHosts:
		return "hosts"
	case SourceLiteral:
		return "literal"
	case SourceSystem:
		return "system"
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// Result is an answer. It is one word wide, immutable, and safe for concurrent use: no slice of the cache can be reached
// through it. The zero Result has no address.
//
// Addresses of the preferred family come first, in the server's order inside a family. Preferred is the family that
// connected last for this name; before the first connection IPv6 where this machine has a route to it, else IPv4.
type Result struct{ s *snapshot }

// Len returns the number of addresses.
func (r Result) Len() int {
	if r.s == nil {
		return 0
	}
	return len(r.s.addrs)
}

// At returns address i, from 0 to Len()-1. IPv4 is never inside IPv6.
func (r Result) At(i int) netip.Addr { return r.s.addrs[i] }

// All iterates over the addresses.
func (r Result) All() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := range r.Len() {
			if !yield(r.s.addrs[i]) {
				return
			}
		}
	}
}

// Append appends the addresses to dst.
func (r Result) Append(dst []netip.Addr) []netip.Addr {
	if r.s == nil {
		return dst
	}
	return append(dst, r.s.addrs...)
}

// TTL returns the time left until the first of the records ends, negative when it has. It is the only method that reads
// the clock. A literal address never ends: the longest Duration.
func (r Result) TTL() time.Duration {
	switch {
	case r.s == nil:
		return 0
	case r.s.end.IsZero():
		return math.MaxInt64
	}
	return time.Until(r.s.end)
}

// Stale reports whether an address is given out past its time, because DNS has not answered yet, or not at all.
func (r Result) Stale() bool { return r.has(flagStale) }

// Held reports whether DNS denies the name at the moment, and the last good answer is kept for Resolver.Hold.
func (r Result) Held() bool { return r.has(flagHeld) }

// Partial reports whether one family is unknown: it failed, or its answer has not come yet. A family that DNS says is
// empty does not make a Result partial.
func (r Result) Partial() bool { return r.has(flagPartial) }

// Source says where the answer comes from.
func (r Result) Source() Source {
	if r.s == nil {
		return SourceDNS
	}
	return r.s.source
}

// Asked returns the full name that answered, with its dot: "redis.prod.svc.cluster.local." for "redis". From the hosts
// file it is the short name, for a literal the address.
func (r Result) Asked() string {
	if r.s == nil {
		return ""
	}
	return r.s.asked
}

// String returns the addresses, separated by spaces.
func (r Result) String() string {
	var b strings.Builder
	for a := range r.All() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.String())
	}
	return b.String()
}

func (r Result) has(f flags) bool { return r.s != nil && r.s.flags&f != 0 }

// flags tell the read path what is special about a snapshot. Zero is the hit: positive, complete, in its time, nothing to
// be asked.
type flags uint8

const (
	flagDue     flags = 1 << iota // a reader should start a flight
	flagWait                      // a reader may have something to wait for
	flagError                     // there is no address
	flagStale                     // an address is past its end
	flagHeld                      // DNS denies the name
	flagPartial                   // one family is unknown
)

// snapshot is what readers see of an entry. It is immutable.
type snapshot struct {
	addrs  []netip.Addr
	flags  flags
	source Source
	asked  string
	end    time.Time // of the record that ends first; zero: never
	err    *Error    // without addresses

	recs [families]*fresh.Snapshot[*answer] // nil for a family that is not asked
}

func literalSnapshot(addr netip.Addr) *snapshot {
	return &snapshot{addrs: []netip.Addr{addr}, source: SourceLiteral, asked: addr.String()}
}

// sameAnswers reports whether two snapshots rest on the same answers and say the same about them: then nobody needs to
// hear of the second. A denial repeated is the same.
func (s *snapshot) sameAnswers(old *snapshot) bool {
	const shown = flagStale | flagHeld | flagPartial | flagError
	switch {
	case s.flags&shown != old.flags&shown || (s.err == nil) != (old.err == nil):
		return false
	case s.err != nil:
		return s.err.Kind == old.err.Kind
	}
	for f := range families {
		if valueOf(s.recs[f]) != valueOf(old.recs[f]) {
			return false
		}
	}
	return true
}

func valueOf(s *fresh.Snapshot[*answer]) *answer {
	if s == nil {
		return nil
	}
	return s.Value
}
