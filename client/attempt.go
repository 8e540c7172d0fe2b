package client

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/metrics"
)

// An attempt is one request on the wire. Its context lives as long as its body, and ends when its call says so. Its times are
// those of its call.
type attempt struct {
	call       *call
	permit     breaker.Permit
	avoid      uint64 // a connection that must not be used
	waited     time.Duration
	endpoint   *endpoint
	start      time.Duration // the pick
	last       time.Duration // up to here its time is known: the pick, the signature, the headers or the failure
	signing    time.Duration
	caller     detached
	ctx        context.Context
	cancel     context.CancelCauseFunc
	request    http.Request // the one clone of the caller's request; what is sent
	url        url.URL
	sent       *requestBody // nil: no body, or one that needs no watching
	timer      *time.Timer  // of a hedge: its time limit
	exchange   pool.Exchange
	span       *metrics.AttemptSpan // nil: nothing is measured
	told       atomic.Bool          // its outcome, to those who learn from it
	signAgain  atomic.Bool          // the signer has replaced what was rejected
	number     uint8
	kind       Kind
	ownsHeader bool // the header map is not the caller's any more
	signed     bool // signing is a time
	handed     bool // the wire has got the request

	// Guarded by call.mu once the attempt has been sent.
	beside   bool // it runs on a goroutine of its own, which lets go of it unless it wins
	wired    bool // the wire is done: the exchange is known
	ended    bool
	released bool
	reason   Reason
	status   int32
	endedAt  time.Duration
}

// info is what the wire has told: nothing before it is done.
func (a *attempt) info() *pool.Info {
	if !a.wired {
		return &pool.Info{InHand: pool.Never, Wrote: pool.Never, Headers: pool.Never}
	}
	return a.exchange.Info()
}

// newAttempt returns the call's next attempt, which has no endpoint yet.
func (c *call) newAttempt() *attempt {
	a := &c.first
	if len(c.attempts) > 0 {
		a = new(attempt)
	}
	a.call, a.number, a.kind, a.waited = c, uint8(len(c.attempts)+1), c.kind, c.waited()
	return a
}

// begin starts the attempt at its endpoint: its context, its time limit, its clone of the request. From enter on the call lets
// go of it; what is the user's to panic in, a propagator or GetBody, comes after that.
func (a *attempt) begin(now time.Duration) error {
	a.start, a.last = now, now
	a.route()
	a.caller.Context = a.measure(a.call.context(), now)
	a.ctx, a.cancel = context.WithCancelCause(&a.caller)
	a.enter(now)
	a.build()
	a.propagate()
	return a.setBody()
}

// enter makes the attempt one of the call's.
func (a *attempt) enter(now time.Duration) {
	c := a.call
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts = append(c.attempts, a)
	if ending := c.notedLocked().ending; ending != nil {
		a.cancel(ending)
	}
	c.watchCallerLocked()
	if limit := c.limits.perAttempt; limit > 0 && a.kind != KindHedge {
		c.limits.attempt, c.limits.limited = now+limit, a
	}
	c.armLocked(now)
}

// stop ends an attempt that may be under way: its context, and what is on the wire.
func (a *attempt) stop(cause error) {
	a.cancel(cause)
	a.exchange.Cut()
}

// limitTime gives a second attempt beside another one a time limit of its own.
func (a *attempt) limitTime(limit time.Duration) {
	if limit > 0 {
		a.timer = time.AfterFunc(limit, func() { a.stop(ErrAttemptTimeout) })
	}
}

// route makes the URL of the attempt.
func (a *attempt) route() {
	if b := a.endpoint.base; b != nil {
		b.rewrite(&a.url, a.call.req.URL)
	} else {
		a.url = *a.call.req.URL
		a.url.User = nil
	}
}

// build makes the request that is sent. It shares the caller's header map as long as nobody has to write to it.
func (a *attempt) build() {
	c := a.call
	a.request = *c.req.WithContext(a.ctx)
	if a.endpoint.base != nil {
		a.request.Host = a.hostHeader()
	}
	a.request.URL = &a.url
	if a.number > 1 {
		a.request.Body = nil // the first one's, until this one has its own
	}
	if a.request.Header == nil {
		a.request.Header = make(http.Header)
		a.ownsHeader = true
	}
	if name := c.up.deadlineHeader(); name != "" {
		a.ownHeader()
		delete(a.request.Header, name)
	}
	if x := c.extra.Load(); x != nil && x.key != "" {
		a.ownHeader()
		a.request.Header[x.keyHeader] = []string{x.key}
	}
	if user := c.req.URL.User; user != nil && a.request.Header.Get("Authorization") == "" {
		a.ownHeader()
		password, _ := user.Password()
		a.request.SetBasicAuth(user.Username(), password)
	}
}

// hostHeader is the Host to send: the caller's own, if it set one that is not just the URL's, as a reverse proxy does.
func (a *attempt) hostHeader() string {
	req := a.call.req
	switch {
	case req.Host != "" && req.Host != req.URL.Host:
		return req.Host
	case a.call.up.preserveHost:
		return req.URL.Host
	}
	return a.endpoint.base.url.Host
}

// ownHeader gives the request a header map of its own, before the first write to it.
func (a *attempt) ownHeader() {
	if !a.ownsHeader {
		a.ownsHeader = true
		a.request.Header = a.request.Header.Clone()
	}
}

// neverSent reports that the server certainly has not acted on the request: no byte of it has left, or HTTP/2 says that it
// was not processed. One that still runs beside another may have been sent.
func (a *attempt) neverSent() bool {
	return !a.beside && (!a.handed || a.info().NeverSent || a.reason == ReasonStreamRefused)
}

// fails ends the attempt and returns the failure that goes up the pipeline.
func (a *attempt) fails(reason Reason, err error) *failure {
	a.call.mu.Lock()
	a.endLocked(reason, a.call.now())
	a.call.mu.Unlock()
	return &failure{reason: reason, err: err}
}

// endLocked notes how the attempt ended, unless that is known already.
func (a *attempt) endLocked(reason Reason, now time.Duration) {
	if !a.ended {
		a.ended, a.endedAt, a.reason = true, now, reason
	}
}

// release lets go of what the attempt holds: its context and its place at the endpoint. Only the first call does anything.
func (a *attempt) release() {
	a.call.mu.Lock()
	released, reason := a.released, a.reason
	a.released = true
	a.call.mu.Unlock()
	if !released {
		a.tell(reason)
		a.cancel(nil)
		a.endpoint.release()
		a.measured()
	}
}

func (a *attempt) reportLocked(now time.Duration) Attempt {
	reason := a.reason
	if a.ended {
		now = a.endedAt
	} else {
		reason = statusReason(a.status)
	}
	info := a.info()
	return Attempt{
		Number: int(a.number), Kind: a.kind, Wait: a.waited, Endpoint: a.endpoint.name,
		Start: a.start, Duration: now - a.start,
		Reason: reason, Status: int(a.status), Account: a.account(),
		Conn: Conn{
			ID: info.Conn, Remote: info.Remote(), Proto: info.Proto(),
			Reused: info.Reused, IdleTime: info.IdleTime, Age: info.Age, Sends: int(info.Sends),
		},
	}
}
