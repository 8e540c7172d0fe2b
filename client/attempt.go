package client

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
	"github.com/sortie-go/sortie/internal/pool"
)

// An attempt is one request on the wire. Its context lives as long as its body.
type attempt struct {
	call       *call
	number     int
	permit     breaker.Permit
	told       atomic.Bool // its outcome, to those who learn from it
	avoid      uint64      // a connection that must not be used
	kind       Kind
	waited     time.Duration
	endpoint   *endpoint
	start      time.Time
	ctx        context.Context
	cancel     context.CancelCauseFunc
	request    http.Request // the one clone of the caller's request; what is sent
	url        url.URL
	sent       *requestBody // nil: no body, or one that needs no watching
	ownsHeader bool         // the header map is not the caller's any more
	handed     bool         // the wire has got the request
	timer      *time.Timer  // of a hedge: its time limit
	watch      stopwatch    // its own time, from the pick to the headers

	// Guarded by call.mu once the attempt has been sent.
	info     pool.Info
	status   int
	ended    bool
	endedAt  time.Time
	reason   Reason
	released bool
}

// newAttempt returns the call's next attempt, which has no endpoint yet.
func (c *call) newAttempt() *attempt {
	a := &c.first
	if len(c.attempts) > 0 {
		a = new(attempt)
	}
	a.call, a.number, a.kind, a.waited = c, len(c.attempts)+1, c.kind, c.waited
	return a
}

// begin starts the attempt at its endpoint: its context, its clone of the request, its time limit.
func (a *attempt) begin(now time.Time) error {
	c := a.call
	a.start, a.watch.last = now, now
	a.ctx, a.cancel = context.WithCancelCause(c.context())
	a.build()
	err := a.setBody()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts = append(c.attempts, a)
	if c.ending != nil {
		a.cancel(c.ending)
	}
	if limit := c.limits.perAttempt; limit > 0 && a.kind != KindHedge {
		c.limits.attempt, c.limits.limited = now.Add(limit), a
	}
	c.armLocked(now)
	return err
}

// limitTime gives a second attempt beside another one a time limit of its own.
func (a *attempt) limitTime(limit time.Duration) {
	if limit > 0 {
		a.timer = time.AfterFunc(limit, func() { a.cancel(ErrAttemptTimeout) })
	}
}

// build makes the request that is sent. It shares the caller's header map as long as nobody has to write to it.
func (a *attempt) build() {
	c := a.call
	a.request = *c.req.WithContext(a.ctx)
	if b := a.endpoint.base; b != nil {
		b.rewrite(&a.url, c.req.URL)
		a.request.Host = a.hostHeader()
	} else {
		a.url = *c.req.URL
		a.url.User = nil
	}
	a.request.URL = &a.url
	if a.request.Header == nil {
		a.request.Header = make(http.Header)
		a.ownsHeader = true
	}
	if name := c.up.deadlineHeader(); name != "" {
		a.ownHeader()
		delete(a.request.Header, name)
	}
	if c.key != "" {
		a.ownHeader()
		a.request.Header[c.keyHeader] = []string{c.key}
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
// was not processed.
func (a *attempt) neverSent() bool {
	return !a.handed || a.info.NeverSent || a.reason == ReasonStreamRefused
}

// fails ends the attempt and returns the failure that goes up the pipeline.
func (a *attempt) fails(reason Reason, err error) *failure {
	a.call.mu.Lock()
	a.endLocked(reason, time.Now())
	a.call.mu.Unlock()
	return &failure{reason: reason, err: err}
}

// endLocked notes how the attempt ended, unless that is known already.
func (a *attempt) endLocked(reason Reason, now time.Time) {
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
	}
}

func (a *attempt) reportLocked(now time.Time) Attempt {
	reason := a.reason
	if a.ended {
		now = a.endedAt
	} else {
		reason = statusReason(a.status)
	}
	return Attempt{
		Number: a.number, Kind: a.kind, Wait: a.waited, Endpoint: a.endpoint.name,
		Start: a.start.Sub(a.call.start), Duration: now.Sub(a.start),
		Reason: reason, Status: a.status, Account: a.watch.account,
		Conn: Conn{
			ID: a.info.Conn, Remote: a.info.Remote, Proto: a.info.Proto,
			Reused: a.info.Reused, IdleTime: a.info.IdleTime, Age: a.info.Age, Sends: a.info.Sends,
		},
	}
}
