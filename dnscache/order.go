package dnscache

import (
	"net/netip"
	"slices"
	"time"
)

// dialOrder puts addresses in the order in which they are dialled: the preferred family, which comes first in addrs,
// before the other; inside each family the start rotates with turn; the families interleave; addresses that failed
// lately come last. If all have, that says nothing, and the plain order holds.
func dialOrder(addrs []netip.Addr, port uint16, turn int, cool func(netip.AddrPort) bool) []netip.AddrPort {
	var first, second []netip.AddrPort
	for _, a := range addrs {
		ap := netip.AddrPortFrom(a, port)
		if a.Is4() == addrs[0].Is4() {
			first = append(first, ap)
		} else {
			second = append(second, ap)
		}
	}
	order := interleave(rotate(first, turn), rotate(second, turn))
	warm := make([]netip.AddrPort, 0, len(order))
	var cold []netip.AddrPort
	for _, ap := range order {
		if cool(ap) {
			cold = append(cold, ap)
		} else {
			warm = append(warm, ap)
		}
	}
	return append(warm, cold...)
}

func rotate(in []netip.AddrPort, by int) []netip.AddrPort {
	if len(in) < 2 {
		return in
	}
	by %= len(in)
	return append(slices.Clone(in[by:]), in[:by]...)
}

func interleave(a, b []netip.AddrPort) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(a)+len(b))
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			out = append(out, a[i])
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}

// fits drops the addresses that a network such as "tcp4" excludes.
func fits(addrs []netip.Addr, network string) []netip.Addr {
	switch network[len(network)-1] {
	case '4':
		return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.Is4() })
	case '6':
		return slices.DeleteFunc(addrs, netip.Addr.Is4)
	}
	return addrs
}

// cooling returns a function that reports whether an address is cooling at now.
func (t *healthTable) cooling(now time.Time) func(netip.AddrPort) bool {
	return func(a netip.AddrPort) bool { return now.Before(t.get(a).cool) }
}
