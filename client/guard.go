package client

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
)

// A guardError is a refused address.
type guardError struct {
	addr netip.Addr
	why  string
}

func (e *guardError) Error() string {
	return fmt.Sprintf("address %s refused: %s", e.addr, e.why)
}

func (e *guardError) Unwrap() error { return ErrDenied }

// Metadata services answer with credentials whoever asks from inside the machine, so nothing but a configuration may lead
// there. 169.254.169.254 and its like are link-local; these are not.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS, IPv6
	netip.MustParseAddr("fd00:ec2::23"),    // AWS, EKS Pod Identity
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud, IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
}

var (
	shared = netip.MustParsePrefix("100.64.0.0/10")  // carrier-grade NAT, RFC 6598
	nat64  = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	nat64L = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215, for local use: it leads into a private network
)

// A guard judges the addresses of one kind of endpoint: the bases of an upstream on one side, or unlisted hosts. It is safe for
// concurrent use; a Reload changes its rules under the dialers that ask it.
type guard struct{ rules atomic.Pointer[guardRules] }

// guardRules are immutable.
type guardRules struct {
	named  []netip.Addr   // literals that the upstream itself names
	strict bool           // private addresses are refused too
	allow  []netip.Prefix // but not these
}

// check returns nil if the address may be dialled.
func (g *guard) check(addr netip.Addr) error { return g.rules.Load().check(addr) }

// set puts rules in force, and reports whether they may refuse what was permitted before.
func (g *guard) set(rules *guardRules) (narrower bool) {
	old := g.rules.Swap(rules)
	if old == nil {
		return false
	}
	for _, addr := range old.named {
		narrower = narrower || rules.check(addr) != nil
	}
	return narrower || rules.strict && (!old.strict || !includes(rules.allow, old.allow))
}

// includes reports whether every one of the prefixes lies in one of the others.
func includes(others, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if !slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }) {
			return false
		}
	}
	return true
}

// check returns nil if the address may be dialled.
func (g *guardRules) check(addr netip.Addr) error {
	addr = embedded(addr)
	if slices.Contains(g.named, addr) {
		return nil
	}
	if addr.IsLinkLocalUnicast() || slices.Contains(metadataAddrs, addr) {
		return &guardError{addr, "link-local and metadata addresses must be named by a base URL or a host of the upstream"}
	}
	if !g.strict || slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if kind := privateKind(addr); kind != "" {
		return &guardError{addr, kind + " addresses are closed to external calls by Config.Guard; list it in Guard.Allow if it is meant"}
	}
	return nil
}

// embedded returns the IPv4 address inside a mapped or NAT64 address, which is where the packets would go.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// privateKind names the kind of an address that is not public; "" if it is.
func privateKind(addr netip.Addr) string {
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case shared.Contains(addr):
		return "shared"
	case nat64L.Contains(addr):
		return "local NAT64"
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsMulticast():
		return "multicast"
	}
	return ""
}

// namedAddrs are the literal addresses that an upstream's configuration names: those are meant.
func namedAddrs(hosts []string, bases parsedBases) []netip.Addr {
	var named []netip.Addr
	add := func(host string) {
		if addr, ok := literal(host); ok {
			named = append(named, embedded(addr))
		}
	}
	for _, text := range hosts {
		if p, err := parsePattern(text); err == nil && !p.wildcard {
			add(p.host)
		}
	}
	for _, b := range bases.all() {
		add(b.target.host)
	}
	return named
}
