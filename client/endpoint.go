package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/pool"
)

// An endpoint is one address of an upstream, with its own connections: a base URL, or, for upstreams without bases, a
// scheme, host and port that somebody has asked for.
type endpoint struct {
	name   string // scheme and host, for reports and errors
	base   *base  // nil: the URL is used as it is
	tier   Side   // the list it comes from; AutoSide without a base
	denied error  // the guard's word on a literal address

	pool      *pool.Pool        // nil if the upstream has its own Transport
	transport http.RoundTripper // nil if it has not

	place   *tablePlace       // in a hostTable; nil for a base
	seat    *balance.Endpoint // in the upstream's balancer; nil in a hostTable
	gate    *gate
	address *addressState // of a pinned endpoint; nil: its name is resolved for each connection
}

// send puts the attempt on the wire. Whatever comes back is complete: a response with a body, or an error and no
// response, and in that case the request's body is closed.
func (ep *endpoint) send(a *attempt, now time.Time) (*http.Response, error) {
	if ep.pool != nil {
		return ep.pool.RoundTrip(&a.exchange, &a.request, pool.Want{
			Avoid:      a.avoid,
			OwnContext: true,
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

// release ends one call's use of the endpoint.
func (ep *endpoint) release() {
	if ep.place != nil {
		ep.place.release()
	}
	if ep.seat != nil {
		ep.seat.Release()
	}
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
