package client

import (
	"context"
	"fmt"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/metrics"
)

// pick chooses the endpoint of an attempt, and has its breaker admit it. The attempt holds the endpoint from then on.
func (up *upstream) pick(a *attempt) *failure {
	for {
		at := up.places.Load()
		f := at.pick(a)
		if f == nil || up.places.Load() == at {
			if f != nil && f.reason == ReasonBreakerOpen {
				up.meter.BreakerRejected(a.call.context())
			}
			return f
		}
		// A Reload came between, so what was not there may be elsewhere.
	}
}

func (p *places) pick(a *attempt) *failure {
	if p.hosts == nil {
		return p.cluster.pick(a)
	}
	u := a.call.req.URL
	host, err := hostPortOf(u.Scheme, u.Host)
	if err != nil {
		return &failure{reason: ReasonInvalidRequest, err: err} // cannot be: route has understood it
	}
	place, err := p.hosts.acquire(u.Scheme, host)
	if err != nil {
		return &failure{reason: ReasonConnectFailed, err: err}
	}
	f := place.cluster.pick(a)
	if f != nil {
		place.release()
	}
	return f
}

func (cl *cluster) pick(a *attempt) *failure {
	for {
		before := cl.now()
		f := cl.pickFrom(before.tiers, a)
		if f == nil || cl.settled() == before {
			return f
		}
	}
}

func (cl *cluster) pickFrom(t *tiers, a *attempt) *failure {
	c := a.call
	if f := t.await(c, cl.spills()); f != nil {
		return f
	}
	q := cl.query(t, c)
	for {
		p := cl.balancer.Pick(&q)
		if p.Endpoint == nil {
			return cl.nothing(t, q.Tier, p.Known)
		}
		ep := cl.enter(p.Endpoint)
		if ep == nil {
			p.Endpoint.Release()
			q.Denied = append(q.Denied, p.Endpoint)
			continue
		}
		if !ep.admit(a) {
			p.Endpoint.Release()
			ep.attempts.leave()
			q.Denied = append(q.Denied, p.Endpoint)
			continue
		}
		a.endpoint = ep
		a.note(p)
		return nil
	}
}

// query says what the next attempt of a call is picked for.
func (cl *cluster) query(t *tiers, c *call) balance.Query {
	var tried []*balance.Endpoint // nothing is allocated for the first attempt
	for _, a := range c.attempts {
		tried = append(tried, a.endpoint.seat)
	}
	return balance.Query{
		Now: c.start.Add(c.attemptStart()), Tier: t.tierOf(c.side), Key: c.hashKey(), Tried: tried,
		Untried: c.kind == KindMove, Hedge: c.kind == KindHedge,
	}
}

// hashKey is the key for Rendezvous.
func (c *call) hashKey() string {
	if c.opts != nil && c.opts.HashKey != "" {
		return c.opts.HashKey
	}
	if b := c.up.policy.Balance; b != nil && b.Hash != nil {
		return b.Hash(c.req)
	}
	return ""
}

// untried reports whether there is an endpoint that the call has not tried, for a move.
func (c *call) untried() bool {
	cl := c.last().endpoint.cluster
	q := cl.query(cl.tiers.Load(), c)
	return cl.balancer.HasUntried(&q)
}

// untriedForHedge is untried for a second attempt, which suspects and probes do not serve.
func (c *call) untriedForHedge() bool {
	cl := c.last().endpoint.cluster
	q := cl.query(cl.tiers.Load(), c)
	q.Hedge = true
	return cl.balancer.HasUntried(&q)
}

// note keeps what the pick says beside the endpoint.
func (a *attempt) note(p balance.Pick) {
	if p.Wish == balance.Again {
		for _, before := range a.call.attempts {
			if before.endpoint.seat == a.endpoint.seat && before.reason != ReasonStatus {
				a.avoid = before.info().Conn // behind a virtual address, another connection may lead elsewhere
			}
		}
	}
	if p.Panic {
		a.call.panicked = true
	}
	if p.WouldEject {
		a.call.wouldHave("eject: left out " + a.endpoint.name)
	}
	if a.permit.Denied() {
		a.call.wouldHave("breaker: denied " + a.endpoint.name)
	}
}

// nothing says why there is no endpoint to pick.
func (cl *cluster) nothing(t *tiers, tier balance.Tier, known int) *failure {
	now := time.Now()
	if known > 0 {
		return &failure{reason: ReasonBreakerOpen, retryAfter: cl.nextProbe(now)}
	}
	for _, o := range t[tier] {
		if denied := o.whyNone(); denied != nil {
			return &failure{reason: ReasonDenied, err: denied}
		}
	}
	return &failure{reason: ReasonNoEndpoint}
}

// nextProbe is when the first breaker may admit something again.
func (cl *cluster) nextProbe(now time.Time) time.Duration {
	first := time.Duration(-1)
	for _, ep := range cl.endpoints() {
		if d := ep.gate.next(now); first < 0 || d < first {
			first = d
		}
	}
	return max(first, 0)
}

// spills reports whether calls may go from the first tier to the second.
func (cl *cluster) spills() bool { return cl.core.recipe.Load().balance.SpillFactor > 0 }

// await waits for the first answer of DNS where the call finds no endpoint, within its own limits.
func (t *tiers) await(c *call, spills bool) *failure {
	tier := t.tierOf(c.side)
	if t.known(tier) {
		return nil
	}
	f := t.lookUp(c, tier)
	if f == nil || tier == balance.Secondary || !spills {
		return f
	}
	if t.known(balance.Secondary) || t.lookUp(c, balance.Secondary) == nil {
		return nil // a tier whose name does not resolve is one without endpoints: the call spills
	}
	return f
}

// known reports whether a tier has endpoints, and makes sure that it follows DNS from now on.
func (t *tiers) known(tier balance.Tier) bool {
	known := false
	for _, o := range t[tier] {
		o.follow()
		known = known || o.seated.Load()
	}
	return known
}

// lookUp waits for the first answer for one of a tier's origins.
func (t *tiers) lookUp(c *call, tier balance.Tier) (f *failure) {
	for _, o := range t[tier] {
		if !o.byAddress {
			return nil // it has no endpoint because the guard refused it
		}
		if f = c.lookUp(o); f == nil {
			return nil
		}
	}
	return f
}

// lookUp waits for an origin's first answer, and books that to DNS.
func (c *call) lookUp(o *origin) *failure {
	ctx, done := c.waiting()
	defer done()
	if limit := c.limits.perAttempt; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrAttemptTimeout)
		defer cancel()
	}
	c.mu.Lock()
	c.watch.rest(c.now())
	c.mu.Unlock()
	err := o.first(ctx)
	c.mu.Lock()
	c.watch.book(metrics.PhaseDNS, c.now())
	c.mu.Unlock()
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause != nil:
		return &failure{reason: c.contextReason(cause), err: fmt.Errorf("dns lookup of %s: %w", o.target.host, cause)}
	}
	return &failure{reason: ReasonDNS, err: err}
}
