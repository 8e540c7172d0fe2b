package dnscache

import (
	"context"
	"net/netip"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// Hooks is what tests need to reach: the paths of configuration files, the wall clock, the platform's resolver, the
// routing table. Set them before first use.
type Hooks struct {
	ResolvConf, Hosts string
	SystemLookup      func(ctx context.Context, name string) ([]netip.Addr, error)
	Routed            func(netip.Addr) bool
	WallOffset        *atomic.Int64
}

// Hook sets the hooks of r.
func Hook(r *Resolver, h Hooks) {
	r.test = testHooks{
		resolvConf: h.ResolvConf, hosts: h.Hosts, systemLookup: h.SystemLookup, routed: h.Routed, wallOffset: h.WallOffset,
	}
}

// Candidates returns what a walk asks for name under the text of a resolv.conf.
func Candidates(name string, mode Mode, resolvConf, hostname string) (out []string) {
	for _, c := range candidates(name, mode, parseResolvConf(resolvConf, hostname)) {
		out = append(out, c.String())
	}
	return out
}

// Canonical is the form in which names are kept.
func Canonical(name string) (string, bool) { return canonical(name) }

// Literal reads a name that is an address.
func Literal(name string) (netip.Addr, bool) { return literal(name) }

// ParseResolvConf returns what is read of a resolv.conf.
func ParseResolvConf(text, hostname string) (search []string, ndots int, single bool) {
	c := parseResolvConf(text, hostname)
	return c.search, c.ndots, c.single
}

// Reply is what the tap makes of a message.
type Reply struct {
	Verdict string
	Addrs   []netip.Addr
	TTL     uint32
	HasSOA  bool
	NegTTL  uint32
	Why     string
}

// ParseReply judges a message that answers a question for name and type.
func ParseReply(id uint16, name string, kind dnsmessage.Type, msg []byte, stream bool) (Reply, bool) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return Reply{}, false
	}
	p := parseReply(query{id, dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET}}, msg, stream)
	verdicts := [...]string{"ignored", "truncated", "positive", "nodata", "nxdomain", "soft"}
	return Reply{verdicts[p.verdict], p.addrs, p.ttl, p.hasSOA, p.negTTL, p.why}, true
}
