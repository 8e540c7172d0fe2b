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
	c := a.call
	if up.hosts != nil {
		return up.pickHost(a)
	}
	if f := up.await(c); f != nil {
		return f
	}
	q := up.query(c)
	for {
		p := up.balancer.Pick(&q)
		if p.Endpoint == nil {
			return up.nothing(q.Tier, p.Known)
		}
		ep := (*up.seats.Load())[p.Endpoint]
		if ep == nil { // it was retired this very moment
			p.Endpoint.Release()
			q.Denied = append(q.Denied, p.Endpoint)
			continue
		}
		if !ep.admit(a) {
			p.Endpoint.Release()
			q.Denied = append(q.Denied, p.Endpoint)
			continue
		}
		a.endpoint = ep
		a.note(p)
		return nil
	}
}

// query says what the next attempt of a call is picked for.
func (up *upstream) query(c *call) balance.Query {
	var tried []*balance.Endpoint // nothing is allocated for the first attempt
	for _, a := range c.attempts {
		tried = append(tried, a.endpoint.seat)
	}
	return balance.Query{
		Now: c.start.Add(c.attemptStart()), Tier: up.tierOf(c.side), Key: c.hashKey(), Tried: tried,
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
func (up *upstream) untried(c *call) bool {
	if up.hosts != nil {
		return false
	}
	q := up.query(c)
	return up.balancer.HasUntried(&q)
}

// untriedForHedge is untried for a second attempt, which suspects and probes do not serve.
func (up *upstream) untriedForHedge(c *call) bool {
	q := up.query(c)
	q.Hedge = true
	return up.balancer.HasUntried(&q)
}

// note keeps what the pick says beside the endpoint.
func (a *attempt) note(p balance.Pick) {
	if p.Wish == balance.Again {
		for _, before := range a.call.attempts {
			if before.endpoint == a.endpoint && before.reason != ReasonStatus {
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

// pickHost takes the endpoint of the request's own host.
func (up *upstream) pickHost(a *attempt) *failure {
	c := a.call
	ep, err := up.hosts.acquire(c.req.URL.Scheme, c.host)
	switch {
	case err != nil:
		return &failure{reason: ReasonConnectFailed, err: err}
	case ep.denied != nil:
		ep.release()
		return &failure{reason: ReasonDenied, err: ep.denied}
	case !ep.admit(a):
		ep.release()
		return &failure{reason: ReasonBreakerOpen, retryAfter: ep.gate.next(time.Now())}
	}
	a.endpoint = ep
	return nil
}

// nothing says why there is no endpoint to pick.
func (up *upstream) nothing(tier balance.Tier, known int) *failure {
	now := time.Now()
	if known > 0 {
		return &failure{reason: ReasonBreakerOpen, retryAfter: up.nextProbe(now)}
	}
	for _, o := range up.origins[tier] {
		if denied := o.whyNone(); denied != nil {
			return &failure{reason: ReasonDenied, err: denied}
		}
	}
	return &failure{reason: ReasonNoEndpoint}
}

// nextProbe is when the first breaker may admit something again.
func (up *upstream) nextProbe(now time.Time) time.Duration {
	first := time.Duration(-1)
	for _, ep := range up.endpoints() {
		if d := ep.gate.next(now); first < 0 || d < first {
			first = d
		}
	}
	return max(first, 0)
}

// await waits for the first answer of DNS where the call finds no endpoint, within its own limits.
func (up *upstream) await(c *call) *failure {
	tier := up.tierOf(c.side)
	if up.known(tier) {
		return nil
	}
	f := up.lookUp(c, tier)
	if f == nil || tier == balance.Secondary || up.spill == 0 {
		return f
	}
	if up.known(balance.Secondary) || up.lookUp(c, balance.Secondary) == nil {
		return nil // a tier whose name does not resolve is one without endpoints: the call spills
	}
	return f
}

// known reports whether a tier has endpoints, and makes sure that it follows DNS from now on.
func (up *upstream) known(tier balance.Tier) bool {
	known := false
	for _, o := range up.origins[tier] {
		o.follow()
		known = known || !o.empty()
	}
	return known
}

// lookUp waits for the first answer for one of a tier's origins.
func (up *upstream) lookUp(c *call, tier balance.Tier) (f *failure) {
	for _, o := range up.origins[tier] {
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
		return &failure{reason: c.contextReason(cause), err: fmt.Errorf("dns lookup of %s: %w", o.base.target.host, cause)}
	}
	return &failure{reason: ReasonDNS, err: err}
}
