package client

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/metrics"
)

// An endpoint is one address of an upstream, with its own connections: a base URL, an address of one or, for upstreams without
// bases, a scheme, host and port that somebody has asked for.
type endpoint struct {
	name    string // scheme and host, for reports and errors
	base    *base  // nil: the URL is used as it is
	tier    Side   // the list it comes from; AutoSide without a base
	cluster *cluster
	origin  *origin

	kit       *kit
	pool      *pool.Pool        // nil if the upstream has its own Transport
	transport http.RoundTripper // nil if it has not

	meter *metrics.Endpoint // nil: nothing is measured

	// What was learnt of it: it outlives the endpoint where a Reload puts another in its place.
	seat    *balance.Endpoint
	gate    *gate
	address *addressState // of a pinned endpoint; nil: its name is resolved for each connection

	attempts  usage
	succeeded bool // another one has its seat and gate; written before it is retired
}

// newEndpoint makes an endpoint of which nothing is known yet; it dials nothing.
func (o *origin) newEndpoint(r *recipe, address *addressState) *endpoint {
	ep := o.equip(r, address)
	hostport := o.target.String()
	if address != nil {
		hostport = o.peer(address.addr).String()
	}
	ep.gate = &gate{meter: o.cluster.core.meter, balancer: o.cluster.balancer}
	ep.seat = o.cluster.balancer.NewEndpoint(hostport, ep.gate)
	ep.gate.seat = ep.seat
	ep.gate.guardWith(r.breaker)
	return ep
}

// successor makes an endpoint like another, with connections of its own.
func (o *origin) successor(r *recipe, of *endpoint) *endpoint {
	ep := o.equip(r, of.address)
	ep.gate, ep.seat = of.gate, of.seat
	of.succeeded = true
	return ep
}

// equip makes the outside of an endpoint: its pool. Where there is an address it is the only one that is dialled; name and
// address travel apart, so that the name stays what TLS verifies.
func (o *origin) equip(r *recipe, address *addressState) *endpoint {
	k := o.cluster.core
	ep := &endpoint{
		name: o.name, base: o.base, cluster: o.cluster, origin: o, kit: r.kit, transport: r.kit.transport, address: address,
	}
	ep.attempts.last = make(chan struct{})
	if o.base != nil {
		ep.tier = o.base.side
	}
	ep.meter = o.meterFor(r)
	if ep.transport != nil {
		return ep
	}
	var pinned netip.AddrPort
	if address != nil {
		pinned = o.peer(address.addr)
	}
	cfg := r.kit.conns.poolConfig()
	cfg.Transport, cfg.Scheme, cfg.Host, cfg.Proxy = r.kit.wires, o.scheme, o.target.String(), o.proxy
	cfg.Dial = k.dialer(o.scheme, o.guard, r.kit, o.proxy != nil, pinned)
	if o.proxy == nil && address == nil {
		cfg.Watch = k.client.follow(o.target.host)
	}
	if k.client.draining.Load() {
		cfg.MinIdle = 0
	}
	meterPool(ep.meter, &cfg)
	ep.pool = k.client.group.New(cfg)
	return ep
}

// draining reports whether the address has been missing from DNS for so long that it gets no attempt. It is asked under
// origin.mu.
func (ep *endpoint) draining() bool { return ep.address != nil && ep.address.gone }

// quiet ends what the endpoint does ahead.
func (ep *endpoint) quiet() {
	if ep.pool != nil {
		ep.pool.Quiet()
	}
}

// close ends the endpoint's connections.
func (ep *endpoint) close() {
	if ep.pool == nil {
		return
	}
	ep.pool.Close()
	if k := ep.cluster.core; k.recipe.Load().kit != ep.kit {
		k.client.ledger.Forget(ep.kit.ports) // other settings have taken its place
	}
}

// send puts the attempt on the wire. Whatever comes back is complete: a response with a body, or an error and no
// response, and in that case the request's body is closed.
func (ep *endpoint) send(a *attempt, now time.Time) (*http.Response, error) {
	if ep.pool != nil {
		return ep.pool.RoundTrip(&a.exchange, &a.request, pool.Want{
			Avoid:      a.avoid,
			OwnContext: true,
			Until:      a,
			OnConn:     a.advertise(),
			HTTP1:      len(a.request.Header["Upgrade"]) > 0,
			Idempotent: a.call.idempotent(),
		}, now)
	}
	return ep.sendForeign(a, now)
}

// sendForeign sends through a RoundTripper of the user's, which may break the promises that net/http makes.
func (ep *endpoint) sendForeign(a *attempt, now time.Time) (*http.Response, error) {
	info := a.exchange.Info()
	info.Start, info.Headers, info.Sends = now, pool.Never, 1 // in hand and written at once: where its time goes is not known
	if a.call.up.deadlineHeader() != "" {
		if err := a.setDeadlineHeader(now); err != nil {
			info.NeverSent = true
			return nil, err
		}
	}
	resp, err := ep.transport.RoundTrip(&a.request)
	switch {
	case err != nil && resp != nil && resp.Body != nil:
		resp.Body.Close()
	case err == nil && resp == nil:
		err = errors.New("Upstream.Transport returned neither a response nor an error")
	}
	if cause := context.Cause(a.ctx); err != nil && cause != nil {
		err = cause // which says more than the plain error of a context
	}
	if err != nil {
		return nil, err
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	info.Headers = time.Since(now)
	return resp, nil
}

// release ends one attempt at the endpoint.
func (ep *endpoint) release() {
	ep.seat.Release()
	ep.cluster.leave()
	ep.attempts.leave()
}

// idempotent reports whether the call may be repeated although the server may have seen it: by its options, else by its
// method (RFC 9110, 9.2.2), else by the headers that net/http takes as the sign of it.
func (c *call) idempotent() bool {
	if c.opts != nil {
		switch c.opts.Idempotent {
		case Yes:
			return true
		case No:
			return false
		}
	}
	switch c.req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	if x := c.extra.Load(); x != nil && x.key != "" {
		return true
	}
	_, marked := c.req.Header["Idempotency-Key"]
	_, xMarked := c.req.Header["X-Idempotency-Key"]
	return marked || xMarked
}
