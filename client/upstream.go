package client

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
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
	policy       Policy
	timeout      Timeout
	conns        Conns
	limit        *limitPolicy   // nil: off
	retry        *retryPolicy   // nil: off
	hedge        *hedgePolicy   // nil: off
	budget       *budget.Budget // nil: nothing spends it
	headerTime   headerTime
	signer       Signer
	transport    http.RoundTripper // nil: the client's own pools
	wires        *pool.Transport   // nil with transport

	bases    parsedBases
	origins  [2][]*origin // by tier; both empty: hosts is used
	hosts    *hostTable
	balancer *balance.Balancer
	spill    float64 // factor; 0: never

	seating sync.Mutex                                      // one change of the balancer's set at a time
	seats   atomic.Pointer[map[*balance.Endpoint]*endpoint] // whose seat it is

	calls callList
	send  sender
}

// newUpstream builds a validated upstream.
func newUpstream(c *Client, cfg Upstream, bases parsedBases) *upstream {
	up := &upstream{
		client: c, name: cfg.Name, preserveHost: cfg.PreserveHost, policy: cfg.Policy,
		timeout: cfg.Policy.Timeout.withDefaults(), conns: cfg.Policy.Conns.orZero(),
		bases: bases, retry: cfg.Policy.Retry.compile(), signer: cfg.Signer, transport: cfg.Transport,
	}
	now := time.Now()
	up.limit = cfg.Policy.Limit.compile(up.timeout)
	up.hedge = cfg.Policy.Hedge.compile(now)
	if _, observes := cfg.Signer.(observer); observes || up.retry != nil || up.hedge != nil {
		up.budget = cfg.Policy.Budget.compile(now)
	}
	if up.transport == nil {
		up.wires = pool.NewTransport(up.conns.transportConfig(cfg.ServerName))
	}
	up.spill = cfg.spill()
	up.balancer = balance.New(cfg.Policy.balanceConfig(up.spill), now)
	up.place(cfg, bases)
	up.send = pipeline(up)
	return up
}

// spill is the factor in force; 0 is never.
func (u *Upstream) spill() float64 {
	if len(u.Internal) == 0 || len(u.External) == 0 {
		return 0
	}
	return max(orDefault(u.SpillFactor, 1.4), 0)
}

// place makes the origins of the bases, or the table of hosts. If only one list is given it is the primary tier for both
// sides.
func (up *upstream) place(cfg Upstream, bases parsedBases) {
	named := namedAddrs(cfg.Hosts, bases)
	inside, outside := &guard{named: named}, &guard{named: named}
	if g := up.client.guard; g != nil {
		outside.strict, outside.allow = true, slices.Clone(g.Allow)
	}
	balanced := cfg.Policy.Balance != nil
	var tiers [][]*origin
	for _, list := range []struct {
		bases []*base
		rules *guard
	}{{bases.internal, inside}, {bases.external, outside}} {
		var origins []*origin
		for _, b := range list.bases {
			origins = append(origins, newOrigin(up, b, list.rules, balanced))
		}
		if len(origins) > 0 {
			tiers = append(tiers, origins)
		}
	}
	copy(up.origins[:], tiers)
	if len(tiers) > 0 {
		up.seatEndpoints()
		return
	}
	rules := inside // named by its Hosts, so it counts as internal
	if cfg.Name == unlistedName {
		rules = outside
	}
	up.hosts = newHostTable(up.client.maxUnlisted, func(scheme string, host hostPort) (*endpoint, error) {
		return up.newEndpoint(scheme, host, scheme+"://"+host.String(), rules, netip.AddrPort{})
	}, up.client.retire)
}

// newEndpoint makes an endpoint with its pool; it dials nothing. A valid pinned address is the only one that is dialled.
func (up *upstream) newEndpoint(scheme string, target hostPort, name string, rules *guard, pinned netip.AddrPort) (*endpoint, error) {
	ep := &endpoint{name: name, transport: up.transport, gate: &gate{}}
	ep.guardWith(up, up.policy.Breaker)
	if addr, ok := literal(target.host); ok {
		ep.denied = rules.check(addr)
	}
	if up.transport != nil {
		return ep, nil
	}
	proxy, err := proxyFor(up.client.proxy, scheme, target)
	if err != nil {
		return nil, err
	}
	cfg := up.conns.poolConfig()
	cfg.Transport, cfg.Scheme, cfg.Host, cfg.Proxy = up.wires, scheme, target.String(), proxy
	cfg.Dial = up.client.dialer(scheme, rules, up.conns, proxy != nil, pinned)
	if proxy == nil && !pinned.IsValid() {
		cfg.Watch = up.client.follow(target.host)
	}
	ep.pool = up.client.group.New(cfg)
	return ep, nil
}

// seatEndpoints tells the balancer which endpoints there are.
func (up *upstream) seatEndpoints() {
	up.seating.Lock()
	defer up.seating.Unlock()
	seats := make(map[*balance.Endpoint]*endpoint)
	var tiers [2][]*balance.Endpoint
	for t, origins := range up.origins {
		for _, o := range origins {
			for _, ep := range o.usable() {
				tiers[t] = append(tiers[t], ep.seat)
			}
			for _, ep := range o.all() {
				seats[ep.seat] = ep
			}
		}
	}
	up.seats.Store(&seats)
	up.balancer.Set(tiers[balance.Primary], tiers[balance.Secondary])
}

// tierOf is the tier in which a call from a side begins.
func (up *upstream) tierOf(side Side) balance.Tier {
	if side == External && len(up.origins[balance.Secondary]) > 0 {
		return balance.Secondary
	}
	return balance.Primary
}

// endpoints returns all endpoints of the upstream.
func (up *upstream) endpoints() []*endpoint {
	if up.hosts != nil {
		return up.hosts.all()
	}
	var all []*endpoint
	for _, origins := range up.origins {
		for _, o := range origins {
			all = append(all, o.all()...)
		}
	}
	return all
}

// close ends what the upstream does by itself.
func (up *upstream) close() {
	for _, origins := range up.origins {
		for _, o := range origins {
			o.close()
		}
	}
	for _, ep := range up.endpoints() {
		ep.close()
	}
	up.balancer.Close()
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

// proxyFor asks Config.Proxy about an endpoint. Its error does not show the proxy's URL, which may hold a password.
func proxyFor(proxy func(*http.Request) (*url.URL, error), scheme string, target hostPort) (*url.URL, error) {
	if proxy == nil {
		return nil, nil
	}
	u := &url.URL{Scheme: scheme, Host: target.String(), Path: "/"}
	p, err := proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
	if err != nil {
		return nil, fmt.Errorf("choosing a proxy: %w", withoutURL(err))
	}
	return p, nil
}
