package dnscache

import (
	"net/netip"
	"slices"
	"strings"
)

// Mode says under which full names a name is looked up. See the package comment for the reasons.
type Mode uint8

// The modes.
const (
	// Auto asks for a name of two dots or more as it stands, and for shorter ones by the search list. Only if neither
	// family has the name as it stands, the rest of the list follows: so names of a cluster cost two questions, not ten,
	// and are not told to public resolvers. With Servers, which know nothing of the list, it is Absolute.
	Auto Mode = iota

	// Strict walks the search list exactly as resolv.conf says. Choose it where a private search domain is meant to
	// shadow public names of two dots or more.
	Strict

	// Absolute asks for the name as it stands and nothing else.
	Absolute
)

// String returns the mode's name in lower case.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Strict:
		return "strict"
	case Absolute:
		return "absolute"
	}
	return "invalid"
}

// canonical returns the form in which a name is kept: lower case, its trailing dot kept, since a name with one is not
// searched. It reports false for what can be no host name, and for .onion (RFC 7686). A name that is canonical already
// costs no allocation.
func canonical(name string) (string, bool) {
	if !isDomainName(name) { // before ToLower, which makes an ASCII letter of a Kelvin sign
		return "", false
	}
	name = strings.ToLower(name)
	return name, !strings.HasSuffix(strings.TrimSuffix(name, "."), ".onion")
}

// isDomainName is the rule of package net, which would refuse to ask for anything else: ASCII letters, digits, hyphens
// and underscores in labels of at most 63 bytes, 253 in all, not all of it digits.
func isDomainName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	numeric := true
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			switch c := label[i]; {
			case '0' <= c && c <= '9':
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_':
				numeric = false
			default:
				return false
			}
		}
	}
	return !numeric
}

// literal returns the address that name is written as: plain, in brackets, with a zone. An IPv4 address inside IPv6 is
// taken out.
func literal(name string) (netip.Addr, bool) {
	if s, ok := strings.CutPrefix(name, "["); ok {
		if name, ok = strings.CutSuffix(s, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	if last := len(name) - 1; last < 0 || !strings.Contains(name, ":") && (name[last] < '0' || name[last] > '9') {
		return netip.Addr{}, false // as most names: ParseAddr would allocate an error
	}
	addr, err := netip.ParseAddr(name)
	return addr.Unmap(), err == nil
}

// candidate is one full name to ask for, with its dot, or the hosts file under the short name.
type candidate struct {
	name  string
	hosts bool
}

// hostsFile is the candidate that stands for /etc/hosts. It costs no question.
func hostsFile(short string) candidate { return candidate{short, true} }

// candidates returns what to ask for, in order, for a canonical name. It is a pure function of its arguments.
//
// The hosts file is asked first when the first question would not find its entry: before a suffixed name, and before a
// name of one label, since package net finds "localhost" there but not "localhost.".
func candidates(name string, mode Mode, conf *resolvConf) []candidate {
	short, absolute := strings.CutSuffix(name, ".")
	full := short + "."
	dots := strings.Count(short, ".")
	var names []string
	switch {
	case absolute || mode == Absolute:
		names = []string{full}
	case mode == Auto && dots >= 2:
		rest := slices.DeleteFunc(conf.list(short), func(n string) bool { return n == full })
		names = append([]string{full}, rest...)
	default:
		names = conf.list(short)
	}
	var out []candidate
	if dots == 0 || names[0] != full {
		out = append(out, hostsFile(short))
	}
	for _, n := range names {
		out = append(out, candidate{name: n})
	}
	return out
}
