package client

import (
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sortie-go/sortie/internal/budget"
	"github.com/sortie-go/sortie/internal/pool"
)

// unlistedName is the name of the upstream that stands for every host no upstream lists.
const unlistedName = "_unlisted"

// An upstream is a configured one at work.
type upstream struct {
	client       *Client
	name         string
	exactHost    string // the first host that is no wildcard; for URL
	preserveHost bool
	timeout      Timeout
	limit        *limitPolicy   // nil: off
	retry        *retryPolicy   // nil: off
	budget       *budget.Budget // nil: nothing spends it
	headerTime   headerTime
	conns        Conns
	signer       Signer
	transport    http.RoundTripper // nil: the client's own pools
	wires        *pool.Transport   // nil with transport

	internal, external []*endpoint // one per base, in order; both empty: hosts is used
	hosts              *hostTable
	internalGuard      *guard
	externalGuard      *guard

	calls callList
	send  sender
}

// newUpstream builds a validated upstream.
func newUpstream(c *Client, cfg Upstream, bases parsedBases) *upstream {
	up := &upstream{
		client: c, name: cfg.Name, preserveHost: cfg.PreserveHost,
		timeout: cfg.Policy.Timeout.withDefaults(), conns: cfg.Policy.Conns.orZero(),
		retry: cfg.Policy.Retry.compile(), signer: cfg.Signer, transport: cfg.Transport,
	}
	up.limit = cfg.Policy.Limit.compile(up.timeout)
	if up.retry != nil {
		up.budget = cfg.Policy.Budget.compile(time.Now())
	}
	if up.transport == nil {
		up.wires = pool.NewTransport(up.conns.transportConfig(cfg.ServerName))
	}
	named := namedAddrs(cfg.Hosts, bases)
	up.internalGuard = &guard{named: named}
	up.externalGuard = &guard{named: named}
	unlisted := cfg.Name == unlistedName
	if g := c.guard; g != nil {
		up.externalGuard.strict, up.externalGuard.allow = true, g.Allow
	}
	for _, b := range bases.internal {
		up.internal = append(up.internal, up.baseEndpoint(b, up.internalGuard))
	}
	for _, b := range bases.external {
		up.external = append(up.external, up.baseEndpoint(b, up.externalGuard))
	}
	if len(up.internal)+len(up.external) == 0 {
		rules := up.internalGuard // named by its Hosts, so it counts as internal
		if unlisted {
			rules = up.externalGuard
		}
		up.hosts = newHostTable(c.maxUnlisted, func(scheme string, host hostPort) *endpoint {
			return up.newEndpoint(scheme, host, scheme+"://"+host.String(), rules)
		}, c.retire)
	}
	up.send = pipeline(up)
	return up
}

func (up *upstream) baseEndpoint(b *base, rules *guard) *endpoint {
	ep := up.newEndpoint(b.url.Scheme, b.target, serverOf(b.url), rules)
	ep.base, ep.tier = b, b.side
	return ep
}

// newEndpoint makes an endpoint with its pool. It dials nothing.
func (up *upstream) newEndpoint(scheme string, target hostPort, name string, rules *guard) *endpoint {
	ep := &endpoint{name: name, transport: up.transport}
	if addr, ok := literal(target.host); ok {
		ep.denied = rules.check(addr)
	}
	if up.transport != nil {
		return ep
	}
	proxy, err := up.client.proxyFor(scheme, target)
	if err != nil {
		ep.denied = err
		return ep
	}
	cfg := up.conns.poolConfig()
	cfg.Transport, cfg.Scheme, cfg.Host, cfg.Proxy = up.wires, scheme, target.String(), proxy
	cfg.Dial = up.client.dialer(scheme, rules, up.conns, proxy != nil)
	ep.pool = up.client.group.New(cfg)
	return ep
}

// pick returns the endpoint for the next attempt; the caller must release it.
func (up *upstream) pick(c *call) (*endpoint, error) {
	if up.hosts != nil {
		return up.hosts.acquire(c.req.URL.Scheme, c.host), nil
	}
	tier := up.tier(c.side)
	for _, ep := range tier {
		if !c.tried(ep) {
			return ep, nil
		}
	}
	return tier[0], nil
}

// untried reports whether pick would find an endpoint that the call has not tried.
func (up *upstream) untried(c *call) bool {
	if up.hosts != nil {
		return false
	}
	for _, ep := range up.tier(c.side) {
		if !c.tried(ep) {
			return true
		}
	}
	return false
}

// tried reports whether the call has made an attempt at an endpoint.
func (c *call) tried(ep *endpoint) bool {
	for _, a := range c.attempts {
		if a.endpoint == ep {
			return true
		}
	}
	return false
}

// tier returns the endpoints for a side. An upstream with one list uses it on both.
func (up *upstream) tier(side Side) []*endpoint {
	if side == Internal && len(up.internal) > 0 || len(up.external) == 0 {
		return up.internal
	}
	return up.external
}

// endpoints returns all endpoints of the upstream.
func (up *upstream) endpoints() []*endpoint {
	if up.hosts != nil {
		return up.hosts.all()
	}
	return append(append([]*endpoint(nil), up.internal...), up.external...)
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
	for _, b := range append(append([]*base(nil), bases.internal...), bases.external...) {
		add(b.target.host)
	}
	return named
}

// proxyFor asks Config.Proxy about an endpoint.
func (c *Client) proxyFor(scheme string, target hostPort) (*url.URL, error) {
	if c.proxy == nil {
		return nil, nil
	}
	u := &url.URL{Scheme: scheme, Host: target.String(), Path: "/"}
	return c.proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
}
