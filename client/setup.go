package client

import (
	"slices"
	"time"
)

// A setup is one configuration at work: which upstream a host means, and the pipelines of the calls that begin now. It is
// immutable; Reload replaces it whole.
type setup struct {
	routes    routeTable
	upstreams []*upstream // as configured
	unlisted  *upstream   // nil under Strict
	drainFor  time.Duration
}

// setUp builds the setup of a validated configuration. An upstream whose name is in the old one goes on with its core.
func (c *Client) setUp(cfg Config, bases []parsedBases, old *setup) *setup {
	s := &setup{
		routes:   routeTable{exact: make(map[string]portChoice), wildcard: make(map[string]portChoice)},
		drainFor: orDefault(cfg.DrainTimeout, 10*time.Second),
	}
	maxHosts := orDefault(cfg.MaxUnlisted, 256)
	at := func(u Upstream, b parsedBases) *upstream {
		k := old.core(u.Name)
		if k == nil {
			k = newCore(c, u.Name)
		}
		k.settle(u, b, cfg.Guard, maxHosts)
		return k.configure(u, b)
	}
	for i, u := range cfg.Upstreams {
		up := at(u, bases[i])
		s.upstreams = append(s.upstreams, up)
		for _, text := range u.Hosts {
			pattern, _ := parsePattern(text) // validated
			s.routes.add(pattern, up)
		}
	}
	if !cfg.Strict {
		s.unlisted = at(Upstream{Name: unlistedName, Policy: cfg.Unlisted}, parsedBases{})
	}
	return s
}

// find returns the upstream for a host; nil: it is refused.
func (s *setup) find(host hostPort) *upstream {
	if up := s.routes.find(host); up != nil {
		return up
	}
	return s.unlisted
}

// all returns the configured upstreams and the one for unlisted hosts.
func (s *setup) all() []*upstream {
	all := append([]*upstream(nil), s.upstreams...)
	if s.unlisted != nil {
		all = append(all, s.unlisted)
	}
	return all
}

// core returns the core of the upstream with this name; nil: there is none.
func (s *setup) core(name string) *core {
	for _, up := range s.all() {
		if up.name == name {
			return up.core
		}
	}
	return nil
}

// everyUpstream returns the upstreams in force, and the removed ones that still have calls.
func (c *Client) everyUpstream() []*upstream {
	all := c.setup.Load().all()
	for _, up := range c.removed.list() {
		if !slices.Contains(all, up) { // for a moment an upstream is in both
			all = append(all, up)
		}
	}
	return all
}
