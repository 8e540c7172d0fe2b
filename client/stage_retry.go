package client

import (
	"net/http"
	"slices"
)

// withRetry makes further attempts until one is acceptable or it may not. It waits between them, and books that as "backoff".
// It gives back the last real response, rather than an error about retrying: an error of a later attempt replaces it only if
// the caller itself has ended the call.
func withRetry(p *retryPolicy, next sender) sender {
	if p == nil {
		return next
	}
	return func(c *call) (*http.Response, error) {
		if c.options().NoRetry {
			return next(c)
		}
		if err := p.prepare(c); err != nil {
			return nil, &failure{reason: ReasonRequestBody, err: err}
		}
		var last *kept
		why := "" // of the retry that runs, for metrics; "" for a first attempt or a move
		for {
			before := len(c.attempts)
			resp, err := next(c)
			good := err == nil && !slices.Contains(p.statuses, resp.StatusCode)
			if why != "" && len(c.attempts) > before {
				c.up.meter.Retried(c.context(), why, retryOutcome(good))
			}
			if good {
				return resp, nil
			}
			f, _ := err.(*failure)
			s := p.decide(c, resp, f)
			if !s.again {
				c.stoppedBy(s.why)
				if s.why != "" {
					c.up.meter.RetrySuppressed(c.context(), string(s.why))
				}
				return c.settleFor(last, resp, f)
			}
			if why = retryReason(f); s.move {
				why = ""
			}
			c.again(s)
			if resp != nil {
				last = keep(resp, c.answer)
				c.answer.over()
			}
			if f := c.pause(s.wait); f != nil {
				c.cutShort(f)
				return c.settleFor(last, nil, f)
			}
		}
	}
}

// cutShort notes that the retry that was decided on is not made, since a limit of ours ended the wait for it.
func (c *call) cutShort(f *failure) {
	why := StoppedDeadline
	switch f.reason {
	case ReasonDeadline:
	case ReasonDraining:
		why = StoppedDraining
	default: // the caller has gone
		return
	}
	c.stoppedBy(why)
	c.up.meter.RetrySuppressed(c.context(), string(why))
}

// again notes what kind of attempt comes next.
func (c *call) again(s step) {
	kind := KindRetry
	if s.move {
		kind = KindMove
		c.moves++
	}
	c.nextIs(kind, s.wait)
}

// settleFor ends the attempts: with the response at hand, with the one kept, or with the failure.
func (c *call) settleFor(last *kept, resp *http.Response, f *failure) (*http.Response, error) {
	switch {
	case resp != nil:
		return resp, nil
	case last == nil, c.context().Err() != nil:
		return nil, f
	}
	c.answer = last.attempt
	return last.resp, nil
}

// over ends an attempt whose response is not the call's.
func (a *attempt) over() {
	a.call.mu.Lock()
	a.endLocked(statusReason(a.status), a.last)
	a.call.mu.Unlock()
	a.release()
}
