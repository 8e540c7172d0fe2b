package client

import (
	"fmt"
	"strings"
)

// A routeTable finds the upstream that a host means. It is immutable once built.
type routeTable struct {
	exact    map[string]portChoice // by host
	wildcard map[string]portChoice // by suffix, ".shop.example"
	all      portChoice            // of "*"
}

// A portChoice holds the upstreams of one host or suffix: for certain ports, and for any other.
type portChoice struct {
	byPort map[string]*upstream
	any    *upstream
}

func (c portChoice) find(port string) *upstream {
	if up := c.byPort[port]; up != nil {
		return up
	}
	return c.any
}

// find returns the upstream for a host, or nil. Exact hosts come before wildcards, longer suffixes before shorter ones,
// and at the same length forms with a port before forms without.
func (t *routeTable) find(h hostPort) *upstream {
	if up := t.exact[h.host].find(h.port); up != nil {
		return up
	}
	for rest := h.host; len(t.wildcard) > 0; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		// The dot belongs to the suffix, so "*.shop.example" needs at least one label more than the apex has.
		if up := t.wildcard[rest[dot:]].find(h.port); up != nil {
			return up
		}
		rest = rest[dot+1:]
	}
	return t.all.find(h.port)
}

// A hostPattern is one entry of Upstream.Hosts, parsed.
type hostPattern struct {
	host     string // exact host, or suffix of a wildcard
	port     string // "" is any
	wildcard bool
}

// parsePattern reads one entry of Upstream.Hosts. Its errors say what would be right.
func parsePattern(text string) (hostPattern, error) {
	if text == "" {
		return hostPattern{}, fmt.Errorf(`empty; name a host, such as "api.shop.example"`)
	}
	if strings.ContainsAny(text, "/@?#") {
		return hostPattern{}, fmt.Errorf("%q is more than a host; leave out scheme, user, path and query", text)
	}
	host, port := splitPort(text)
	if strings.Contains(host, ":") && !strings.HasPrefix(text, "[") {
		return hostPattern{}, fmt.Errorf(`%q: write an IPv6 address in brackets, as in "[2001:db8::1]"`, text)
	}
	if err := checkPort(port); err != nil {
		return hostPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	if strings.HasPrefix(text, "*") {
		suffix := strings.TrimPrefix(host, "*")
		if suffix != "" && (suffix[0] != '.' || len(suffix) == 1) || strings.Contains(suffix, "*") {
			return hostPattern{}, fmt.Errorf(`%q: "*" stands for whole labels in front, as in "*.shop.example", or alone`, text)
		}
		suffix, err := canonicalSuffix(suffix)
		if err != nil {
			return hostPattern{}, fmt.Errorf("%q is no host: %w", text, err)
		}
		return hostPattern{suffix, port, true}, nil
	}
	if strings.Contains(host, "*") {
		return hostPattern{}, fmt.Errorf(`%q: "*" stands for whole labels in front, as in "*.shop.example", or alone`, text)
	}
	host, err := canonicalHost(host)
	if err != nil {
		return hostPattern{}, fmt.Errorf("%q is no host: %w", text, err)
	}
	if !plausibleHost(host) {
		return hostPattern{}, fmt.Errorf("%q is no host: a label is empty or too long", text)
	}
	return hostPattern{host, port, false}, nil
}

// plausibleHost reports whether a canonical host has labels of 1 to 63 characters (RFC 1035, 2.3.4); IP addresses do.
func plausibleHost(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
	}
	return !strings.ContainsAny(host, " /")
}

// canonicalSuffix is canonicalHost for what follows the "*": "" or "." and a host.
func canonicalSuffix(suffix string) (string, error) {
	if suffix == "" {
		return "", nil
	}
	host, err := canonicalHost(suffix[1:])
	if err == nil && !plausibleHost(host) {
		err = fmt.Errorf("a label is empty or too long")
	}
	return "." + host, err
}

// add enters a pattern; it returns the upstream that holds it already, if there is one.
func (t *routeTable) add(p hostPattern, up *upstream) (taken *upstream) {
	if p.wildcard && p.host == "" {
		return t.all.add(p.port, up)
	}
	table := t.exact
	if p.wildcard {
		table = t.wildcard
	}
	choice := table[p.host]
	taken = choice.add(p.port, up)
	table[p.host] = choice
	return taken
}

// add enters up for a port, "" being any; it returns the upstream that holds it already, if there is one.
func (c *portChoice) add(port string, up *upstream) (taken *upstream) {
	if port == "" {
		if c.any == nil {
			c.any = up
			return nil
		}
		return c.any
	}
	if taken = c.byPort[port]; taken == nil {
		if c.byPort == nil {
			c.byPort = make(map[string]*upstream)
		}
		c.byPort[port] = up
	}
	return taken
}
