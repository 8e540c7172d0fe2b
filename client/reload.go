package client

import (
	"slices"
	"sync"
)

// Reload puts another configuration in force, without losing a call or what was learnt. It returns an error that names every
// mistake in cfg, as [New] does; then nothing has changed. After Shutdown has begun it returns [ErrDraining], and [ErrClosed] after
// its end. It waits for nothing but another Reload, and may be called concurrently with everything.
//
// Calls that begin after Reload has returned are routed and protected by cfg. Those that run finish under the policies they
// began with.
//
// Upstreams are the same if their Names are, and base URLs if they are written alike and stand in the same list. What stays the
// same keeps its state: endpoints with their connections, latencies and ejections, breakers, budget, hedge delay and counters.
// A Limit is changed in place, and a smaller one waits for calls to end. A changed Breaker starts anew, but an endpoint whose old
// one was open gets nothing until that time is over. Base URLs that are gone get no further attempt, upstreams that are gone no
// further call; what runs there may end within 5 minutes.
//
// Connections are made anew, while the old ones drain, where they depend on something that has changed: Policy.Conns, whose TLS
// is compared by its pointer, ServerName, Transport, and rules by which an address that was permitted is refused: those of Guard,
// and literal addresses that were named in Hosts and base URLs. With Balance given or taken away, endpoints are new altogether.
//
// Resolver, Metrics, Logger and Side cannot change; a nil Resolver means the one of the client's own, if it has that. Proxy, Dial and OnCall are
// functions, which cannot be compared: those given to New stay in force, and it is a mistake to give one where there was none, or
// to leave one out. The environment is not read again.
func (c *Client) Reload(cfg Config) error {
	if err := c.calls.refusal(); err != nil {
		return err
	}
	var m mistakes
	c.checkFixed(&cfg, &m)
	bases := cfg.validate(&m) // under no lock: it asks what the user has supplied
	if err := m.err(); err != nil {
		return err
	}
	c.reloading.Lock()
	defer c.reloading.Unlock()
	if err := c.calls.refusal(); err != nil {
		return err
	}
	old := c.setup.Load()
	next := c.setUp(cfg, bases, old)
	gone := slices.DeleteFunc(old.all(), func(up *upstream) bool { return next.core(up.name) == up.core })
	c.removed.add(gone...) // first, so that each is in one of the two lists at every moment
	c.setup.Store(next)
	for _, up := range gone {
		c.remove(up)
	}
	return nil
}

// checkFixed finds fields that cannot change, and fills in those that cannot be compared.
func (c *Client) checkFixed(cfg *Config, m *mistakes) {
	const advice = "cannot change during the life of a Client; make another one"
	if cfg.Resolver != c.resolver && !(cfg.Resolver == nil && c.ownResolver) {
		m.addf("Resolver", advice)
	}
	if cfg.Metrics != c.metrics {
		m.addf("Metrics", advice)
	}
	if cfg.Side != c.configured && cfg.Side != c.side && cfg.Side <= External {
		m.addf("Side", advice)
	}
	if cfg.Logger != c.logger {
		m.addf("Logger", advice)
	}
	for _, f := range []struct {
		name        string
		before, now bool
	}{
		{"Proxy", c.proxy != nil, cfg.Proxy != nil},
		{"Dial", c.dial != nil, cfg.Dial != nil},
		{"OnCall", c.onCall != nil, cfg.OnCall != nil},
	} {
		if f.before != f.now {
			m.addf(f.name, advice)
		}
	}
	if cfg.Proxy != nil && c.proxy != nil {
		cfg.Proxy = c.proxy
	}
}

// remove ends an upstream that the setup holds no more: when its last call has ended.
func (c *Client) remove(up *upstream) {
	ended := c.calls.remove(up)
	up.quiet()
	c.background.Go(func() {
		defer c.removed.drop(up)
		up.closeIdle()
		c.outlast(ended)
		for _, call := range c.calls.of(up) { // those that have had their time
			call.cut()
		}
		up.close()
	})
}

// removed are the upstreams that a Reload has removed and that are not closed yet.
type removed struct {
	mu        sync.Mutex
	upstreams []*upstream
}

func (r *removed) add(ups ...*upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upstreams = append(r.upstreams, ups...)
}

func (r *removed) drop(up *upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upstreams = slices.DeleteFunc(r.upstreams, func(other *upstream) bool { return other == up })
}

func (r *removed) list() []*upstream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.upstreams)
}

func (r *removed) has(up *upstream) bool { return slices.Contains(r.list(), up) }
