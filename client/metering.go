package client

import (
	"context"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// A meter is what metrics keep of one call while it runs. There is none without Config.Metrics.
type meter struct {
	ctx   context.Context // the caller's, with the call's span
	call  metrics.CallSpan
	first metrics.AttemptSpan
}

// measure begins the measurement of a call whose upstream is known, or certain not to be.
func (c *call) measure() {
	m := c.client.unrouted
	if c.up != nil {
		m = c.up.meter
	}
	if m == nil {
		return
	}
	side := ""
	if c.side != AutoSide {
		side = c.side.String()
	}
	c.meter = &meter{}
	c.meter.ctx, c.meter.call = m.StartCall(c.req.Context(), side, c.start)
}

// measured ends it. The attempts have been recorded before.
func (c *call) measured() {
	m := c.meter
	if m == nil {
		return
	}
	c.mu.Lock()
	rec := metrics.Call{
		Method: methodOf(c.req), Template: template(c.context()), Error: errorType(c.reason, int(c.status)), Status: int(c.status),
		Start: c.start, Duration: c.endedAt, Attempts: len(c.attempts), Phases: c.watch.account.phases(),
	}
	if m.call.Recorded() {
		rec.Records = c.recordsLocked()
		if deadline, ok := c.deadline(); ok {
			rec.TimeLeft = max(deadline.Sub(c.start.Add(c.endedAt)), 0)
		}
	}
	c.mu.Unlock()
	m.call.End(&rec)
}

// recordsLocked are the rows of the attempts in the waterfall of an inbound request.
func (c *call) recordsLocked() []metrics.AttemptRecord {
	records := make([]metrics.AttemptRecord, len(c.attempts))
	for i, a := range c.attempts {
		records[i] = metrics.AttemptRecord{
			Kind: a.kind.String(), Endpoint: a.endpoint.name, Start: a.start, End: a.endedAt,
			Status: int(a.status), Error: errorType(a.reason, int(a.status)), Phases: a.account().phases(),
		}
	}
	return records
}

// measure begins the measurement of an attempt, whose URL is known, and returns the context that it is sent with.
func (a *attempt) measure(ctx context.Context, now time.Duration) context.Context {
	m := a.call.meter
	if m == nil {
		return ctx
	}
	if a.span = &m.first; a != &a.call.first {
		a.span = new(metrics.AttemptSpan)
	}
	ctx, *a.span = a.endpoint.meter.StartAttempt(ctx, metrics.AttemptStart{
		Method: methodOf(a.call.req), Template: template(ctx), URL: &a.url,
		Resend: int(a.number) - 1, Hedge: a.kind == KindHedge, Start: a.call.start.Add(now),
	})
	return ctx
}

// propagate writes the trace context to the request, before it is signed. Baggage is for endpoints of our own.
func (a *attempt) propagate() {
	if a.span != nil {
		a.request.Header, a.ownsHeader = a.span.Inject(a.endpoint.tier == Internal, a.request.Header, a.ownsHeader)
	}
}

// measured ends it: when the attempt's place is given back, since only the end of the body tells how it went.
func (a *attempt) measured() {
	if a.span == nil {
		return
	}
	c := a.call
	c.mu.Lock()
	info := a.info()
	rec := metrics.Attempt{
		Start: c.start.Add(a.start), Duration: a.last - a.start, Status: int(a.status), Error: errorType(a.reason, int(a.status)), Proto: info.Proto(),
		Conn: info.Conn, Reused: info.Reused, Waited: waitedForDial(info), Peer: info.Remote().Addr(),
		Phases: a.account().phases(), Sent: a.bodySent(), Received: -1,
	}
	if a == c.answer && c.delivered { // else its body was discarded
		rec.Received = c.received
	}
	if !a.wired {
		rec.Duration = a.endedAt - a.start
	}
	c.mu.Unlock()
	a.span.End(&rec)
}

// bodySent is the size of the request's body if all of it was sent, which is known if it was declared and answered; else −1.
func (a *attempt) bodySent() int64 {
	if a.status == 0 {
		return -1
	}
	if !hasBody(a.call.req) {
		return 0
	}
	if n := a.call.req.ContentLength; n > 0 {
		return n
	}
	return -1
}

// phases is the account as package metrics takes it.
func (a Account) phases() metrics.Phases { return metrics.Phases{Time: a.times, Happened: a.happened} }

// errorType is the error type of an outcome.
func errorType(r Reason, status int) metrics.ErrorType {
	if r == ReasonStatus {
		return metrics.StatusError(status)
	}
	if r >= numReasons {
		return metrics.ErrorOther
	}
	return reasonFacts[r].errorType
}
