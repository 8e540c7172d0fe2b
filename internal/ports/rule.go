package ports

import (
	"net/netip"
	"time"
)

// A Rule is one keeper of ports, a NAT or the kernel: how many it has for a destination and how long it keeps each.
type Rule struct {
	Name   string // of the preset; "custom"
	Source string // where its figures come from, with their date

	Budget int // ports to one destination that are this process's own
	Holds  Holds
	Scope  Scope

	Warn, Admit float64 // parts of Budget: from where it warns, and where it refuses

	// Advise makes it warn and never refuse: its keeper says by itself when there is no port, as the kernel does.
	Advise bool
}

// Holds say how long a port is kept after its connection has ended so.
type Holds struct {
	Ours   time.Duration // FIN, ours first
	Theirs time.Duration // FIN, the peer's first
	Reset  time.Duration // RST
	Silent time.Duration // a SYN that nobody answered
}

// Longest returns the longest of them.
func (h Holds) Longest() time.Duration { return max(h.Ours, h.Theirs, h.Reset, h.Silent) }

func (h Holds) after(e Ending) time.Duration {
	switch e {
	case Unsent:
		return 0
	case ClosedByPeer, Lost: // a connection that fell silent: a NAT sees no end of it, and the kernel has none to wait for
		return h.Theirs
	case Reset:
		return h.Reset
	case Silent:
		return h.Silent
	}
	return h.Ours
}

// Scope says which destinations a rule is about.
type Scope uint8

const (
	Everywhere Scope = iota
	PublicIPv4       // what a NAT translates
	Loopback         // this machine
	Elsewhere        // all but this machine
)

var sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598: behind a carrier's NAT, so not past ours

// Covers reports whether the scope has addr in it.
func (s Scope) Covers(addr netip.Addr) bool {
	addr = addr.Unmap()
	switch s {
	case PublicIPv4:
		return addr.Is4() && addr.IsGlobalUnicast() && !addr.IsPrivate() && !sharedSpace.Contains(addr)
	case Loopback:
		return addr.IsLoopback()
	case Elsewhere:
		return !addr.IsLoopback()
	}
	return true
}

// admitAt is how many ports may be held: one at least, or nothing could ever be dialled.
func (r *Rule) admitAt() int { return max(1, int(r.Admit*float64(r.Budget))) }

// warnAt is how many may be held without a word.
func (r *Rule) warnAt() int { return int(r.Warn * float64(r.Budget)) }

// A Policy is the rules of one upstream. It must not change once it has been used.
type Policy struct{ Rules []Rule }
