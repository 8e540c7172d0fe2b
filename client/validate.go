package client

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// parsedBases are the base URLs of one upstream.
type parsedBases struct{ internal, external []*base }

func (p parsedBases) all() []*base {
	return append(slices.Clip(p.internal), p.external...)
}

// validate finds every mistake, and returns the parsed bases of each upstream.
func (cfg *Config) validate(m *mistakes) []parsedBases {
	if cfg.Resolver != nil {
		m.add("Resolver", cfg.Resolver.Validate())
	}
	if cfg.MaxUnlisted < 0 {
		m.addf("MaxUnlisted", "%d is negative; use 0 for the default of 256", cfg.MaxUnlisted)
	}
	if cfg.Side > External {
		m.addf("Side", "%d is no side; use client.Internal, client.External or leave it out", cfg.Side)
	}
	if cfg.Strict {
		if cfg.Unlisted != (Policy{}) {
			m.addf("Unlisted", "has no effect, since Strict refuses unlisted hosts; remove one of them")
		}
		if cfg.MaxUnlisted > 0 && !cfg.hasIdentity() {
			m.addf("MaxUnlisted", "has no effect, since Strict refuses unlisted hosts; remove one of them")
		}
	}
	if cfg.Guard != nil && cfg.Proxy != nil {
		m.addf("Guard", "has no effect with Proxy: the address it would judge is the proxy's; remove one of them")
	}
	checkCount(m, "DrainTimeout", cfg.DrainTimeout)
	cfg.Unlisted.validate("Unlisted", m)
	if c := cfg.Unlisted.Conns; c != nil && c.UserTimeout > 0 && cfg.Dial != nil {
		m.addf("Unlisted.Conns.UserTimeout", "has no effect with Config.Dial, which makes the sockets; remove one of them")
	}
	if cfg.Unlisted.Balance == nil {
		cfg.Unlisted.single("Unlisted", m)
	}
	if t := cfg.Unlisted.Timeout; t != nil && t.DeadlineHeader != "" {
		m.addf("Unlisted.Timeout.DeadlineHeader", "has no effect: it is not sent to unlisted hosts; remove it")
	}

	if cfg.Guard != nil {
		cfg.Guard.validate(m)
	}
	v := validation{m: m, proxy: cfg.Proxy, names: make(map[string]int), hosts: make(map[hostPattern]string)}
	bases := make([]parsedBases, len(cfg.Upstreams))
	for i := range cfg.Upstreams {
		bases[i] = v.upstream(i, &cfg.Upstreams[i], cfg)
	}
	return bases
}

// hasIdentity reports whether an upstream has no bases; MaxUnlisted bounds its hosts too.
func (cfg *Config) hasIdentity() bool {
	for _, u := range cfg.Upstreams {
		if len(u.Internal)+len(u.External) == 0 {
			return true
		}
	}
	return false
}

// A validation carries what must be unique across upstreams.
type validation struct {
	m     *mistakes
	names map[string]int
	hosts map[hostPattern]string // path of the field that has it
	proxy func(*http.Request) (*url.URL, error)
}

func (v *validation) upstream(i int, u *Upstream, cfg *Config) parsedBases {
	path := fmt.Sprintf("Upstreams[%d]", i)
	v.name(path+".Name", i, u.Name)
	v.patterns(path+".Hosts", u.Hosts)
	bases := v.bases(path, u)
	all := bases.all()
	if u.PreserveHost && len(all) == 0 {
		v.m.addf(path+".PreserveHost", "has no effect without a base URL; add Internal or External, or remove it")
	}
	v.serverName(path+".ServerName", u.ServerName, all)
	if u.Transport != nil {
		switch {
		case u.Policy.Conns != nil:
			v.m.addf(path+".Policy.Conns", "has no effect with Transport, which has connections of its own; remove one of them")
		case u.ServerName != "":
			v.m.addf(path+".ServerName", "has no effect with Transport, which has TLS settings of its own; remove one of them")
		}
		if cfg.Guard != nil && len(bases.internal) < len(all) {
			v.m.addf(path+".Transport", "dials by itself, so Config.Guard cannot judge its addresses; remove one of them")
		}
	}
	u.Policy.validate(path+".Policy", v.m)
	if c := u.Policy.Conns; c != nil && c.UserTimeout > 0 && cfg.Dial != nil {
		v.m.addf(path+".Policy.Conns.UserTimeout", "has no effect with Config.Dial, which makes the sockets; remove one of them")
	}
	if len(all) < 2 && u.Policy.Balance == nil {
		u.Policy.single(path+".Policy", v.m)
	}
	switch {
	case u.SpillFactor == 0 || u.SpillFactor == none && len(u.Internal) > 0 && len(u.External) > 0:
	case len(u.Internal) == 0 || len(u.External) == 0:
		v.m.addf(path+".SpillFactor", "has no effect unless both Internal and External are given")
	case u.SpillFactor < 1:
		v.m.addf(path+".SpillFactor", "%v is below 1; use 0 for the default of 1.4 or -1 for never", u.SpillFactor)
	}
	if c := u.Policy.Conns; c != nil && c.Protocol == H2C && anyScheme(all, "https") {
		v.m.addf(path+".Policy.Conns.Protocol", "H2C is HTTP/2 without TLS, but a base URL has https; use Auto, or http bases")
	}
	if s, ok := u.Signer.(interface{ Validate() error }); ok {
		v.m.add(path+".Signer", s.Validate())
	}
	return bases
}

func (v *validation) serverName(path, name string, all []*base) {
	switch host, err := canonicalHost(name); {
	case name == "":
	case !anyScheme(all, "https"):
		v.m.addf(path, "has no effect without an https base URL")
	case err != nil || !plausibleHost(host):
		v.m.addf(path, "%q is no host name; write it as it stands in the certificate, without scheme and port", name)
	}
}

func (v *validation) name(path string, i int, name string) {
	switch first, taken := v.names[name]; {
	case name == "":
		v.m.addf(path, `is empty; give the upstream a name, such as "catalog"`)
	case !nameForm.MatchString(name):
		v.m.addf(path, "%q must have 1 to 63 characters of a-z, 0-9, '.', '_', '-', and begin with a letter or digit", name)
	case taken:
		v.m.addf(path, "%q is the name of Upstreams[%d] already", name, first)
	default:
		v.names[name] = i
	}
}

func (v *validation) patterns(path string, hosts []string) {
	if len(hosts) == 0 {
		v.m.addf(path, `is empty; list the hosts of the URLs that mean this upstream, such as "api.shop.example"`)
	}
	for j, text := range hosts {
		field := fmt.Sprintf("%s[%d]", path, j)
		p, err := parsePattern(text)
		if err != nil {
			v.m.add(field, err)
			continue
		}
		if other, taken := v.hosts[p]; taken {
			v.m.addf(field, "%q stands in %s already", text, other)
			continue
		}
		v.hosts[p] = field
	}
}

// bases parses the base URLs; none may stand twice, on one side or on both.
func (v *validation) bases(path string, u *Upstream) parsedBases {
	seen := make(map[string]string)
	parse := func(list string, texts []string, side Side) []*base {
		var parsed []*base
		for j, text := range texts {
			field := fmt.Sprintf("%s.%s[%d]", path, list, j)
			b, err := parseBase(text, side)
			if err != nil {
				v.m.add(field, err)
				continue
			}
			key := b.url.Scheme + "://" + b.target.String() + b.url.RequestURI()
			if other, taken := seen[key]; taken {
				v.m.addf(field, "%q stands in %s already", text, other)
				continue
			}
			seen[key] = field
			if b.proxy, err = proxyFor(v.proxy, b.url.Scheme, b.target); err != nil {
				v.m.add(field, err)
			}
			parsed = append(parsed, b)
		}
		return parsed
	}
	return parsedBases{parse("Internal", u.Internal, Internal), parse("External", u.External, External)}
}

func anyScheme(bases []*base, scheme string) bool {
	for _, b := range bases {
		if b.url.Scheme == scheme {
			return true
		}
	}
	return false
}

func (p *Policy) validate(path string, m *mistakes) {
	if p.Timeout != nil {
		p.Timeout.validate(path+".Timeout", m)
	}
	if p.Retry != nil {
		p.Retry.validate(path+".Retry", p.Timeout, m)
	} else if p.Budget != (Budget{}) && p.Hedge == nil {
		m.addf(path+".Budget", "has no effect without Retry or Hedge, which spend it; add one or remove it")
	}
	p.Budget.validate(path+".Budget", m)
	p.validateProtection(path, m)
	if p.Conns != nil {
		p.Conns.validate(path+".Conns", m)
	}
}

func (t *Timeout) validate(path string, m *mistakes) {
	checkOrNone(m, path+".Total", t.Total)
	checkOrNone(m, path+".Attempt", t.Attempt)
	checkOrNone(m, path+".Progress", t.Progress)
	checkOwnHeader(m, path+".DeadlineHeader", t.DeadlineHeader)
	in := t.withDefaults()
	if in.Total == 0 {
		return
	}
	if in.Attempt > in.Total {
		m.addf(path+".Attempt", "%v is longer than Total (%v), which ends the call first; make it shorter", in.Attempt, in.Total)
	}
	if in.Progress > in.Total {
		m.addf(path+".Progress", "%v is longer than Total (%v), which ends the call first; make it shorter", in.Progress, in.Total)
	}
}

// checkOrNone accepts 0 (the default), −1 (no limit) and what is positive.
func checkOrNone[T ~int64 | ~int](m *mistakes, path string, value T) {
	if value < none {
		m.addf(path, "%v is negative; use 0 for the default or -1 for none", value)
	}
}

// checkCount accepts 0 (the default) and what is positive.
func checkCount[T ~int64 | ~int](m *mistakes, path string, value T) {
	if value < 0 {
		m.addf(path, "%v is negative; use 0 for the default", value)
	}
}

func (c *Conns) validate(path string, m *mistakes) {
	checkCount(m, path+".MaxConns", c.MaxConns)
	checkCount(m, path+".MaxIdle", c.MaxIdle)
	checkCount(m, path+".MinIdle", c.MinIdle)
	checkCount(m, path+".MaxStreams", c.MaxStreams)
	checkCount(m, path+".MaxWaiters", c.MaxWaiters)
	checkCount(m, path+".DialLimit", c.DialLimit)
	checkOrNone(m, path+".MaxWait", c.MaxWait)
	checkCount(m, path+".DialTimeout", c.DialTimeout)
	checkCount(m, path+".IdleTimeout", c.IdleTimeout)
	checkOrNone(m, path+".MaxAge", c.MaxAge)
	checkCount(m, path+".DrainTime", c.DrainTime)
	checkOrNone(m, path+".PingAfter", c.PingAfter)
	checkCount(m, path+".PingTimeout", c.PingTimeout)
	checkOrNone(m, path+".UserTimeout", c.UserTimeout)
	checkOrNone(m, path+".DrainBytes", c.DrainBytes)
	limit := orDefault(c.MaxConns, 256)
	if c.MaxIdle > limit {
		m.addf(path+".MaxIdle", "%d is more than MaxConns (%d); it cannot be reached", c.MaxIdle, limit)
	}
	if keep := orDefault(c.MaxIdle, limit); c.MinIdle > keep {
		m.addf(path+".MinIdle", "%d is more than MaxIdle (%d); those above it would be closed at once", c.MinIdle, keep)
	}
	if c.DrainTime > 0 && c.DrainBytes == none {
		m.addf(path+".DrainTime", "has no effect with DrainBytes -1; remove one of them")
	}
	if c.PingTimeout > 0 && c.PingAfter == none {
		m.addf(path+".PingTimeout", "has no effect with PingAfter -1; remove one of them")
	}
	if c.Protocol == HTTP1 && (c.MaxStreams > 0 || c.PingAfter > 0) {
		m.addf(path+".Protocol", "HTTP1 has neither streams nor pings, so MaxStreams and PingAfter have no effect; remove them")
	}
	if c.Protocol > H2C {
		m.addf(path+".Protocol", "%d is no protocol; use client.Auto, client.HTTP1 or client.H2C", c.Protocol)
	}
	if c.Ports != nil {
		c.Ports.validate(path+".Ports", m)
	}
	if c.TLS != nil && c.TLS.ServerName != "" {
		m.addf(path+".TLS.ServerName", "is overruled; set Upstream.ServerName, or leave it to the base URL's host")
	}
}

// validate finds prefixes that no address falls under when it is compared: IPv4 ones must be written as such, and link-local
// addresses stay refused.
func (g *Guard) validate(m *mistakes) {
	for i, p := range g.Allow {
		path := fmt.Sprintf("Guard.Allow[%d]", i)
		switch {
		case !p.IsValid():
			m.addf(path, "is no prefix; write one such as netip.MustParsePrefix(\"10.0.0.0/8\")")
		case p.Addr().Is4In6():
			m.addf(path, "%v has no effect: write it as an IPv4 prefix", p)
		case p.Addr().IsLinkLocalUnicast():
			m.addf(path, "%v has no effect: name a link-local address as a base URL or a host of an upstream", p)
		}
	}
}
