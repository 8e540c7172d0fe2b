package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// wire sends the attempt and waits for its headers. It gives back the response, or the failure.
func wire(a *attempt) (*http.Response, error) {
	c := a.call
	a.handed = true
	began := a.last
	resp, err := a.endpoint.send(a, c.start.Add(began))

	c.mu.Lock()
	defer c.mu.Unlock()
	a.wired = true
	if err == nil {
		a.last = began + a.exchange.Info().Headers
	} else {
		a.last = c.now()
	}
	if c.limits.limited == a {
		c.limits.attempt = 0
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if cause := context.Cause(a.ctx); err == nil && cause != nil {
		resp.Body.Close() // it came too late: its body could not be read
		err = cause
	}
	if err != nil {
		a.endLocked(a.classify(err), a.last)
		return nil, wireFailure(a.reason, err)
	}
	a.status = int32(resp.StatusCode)
	return resp, nil
}

// account divides the attempt's time, from the pick to the headers or the failure, into phases. The pool's times are exact,
// but a request that was sent twice leaves some that belong to none: it is shown as "other", never spread.
func (a *attempt) account() Account {
	var acc Account
	left := a.last - a.start
	book := func(p metrics.Phase, d time.Duration) {
		d = min(max(d, 0), left)
		acc.add(p, d)
		left -= d
	}
	if a.signed {
		book(metrics.PhaseCredential, a.signing)
	}
	if !a.wired {
		return acc
	}
	info := a.exchange.Info()
	if info.Acquire > 0 || info.Conn != 0 {
		book(metrics.PhaseAcquire, info.Acquire)
	}
	for i, p := range [...]metrics.Phase{metrics.PhaseDNS, metrics.PhaseConnect, metrics.PhaseTLS} {
		if step := info.Setup[i]; step.Happened {
			book(p, step.Time)
		}
	}
	if info.InHand >= 0 {
		last := info.Headers
		if last < 0 {
			last = a.last - info.Start.Sub(a.call.start)
		}
		wrote := info.Wrote
		if wrote < 0 || wrote > last {
			wrote = last // the answer came before the request was all written
		}
		book(metrics.PhaseWrite, wrote-info.InHand)
		if wrote < last || info.Headers >= 0 {
			book(metrics.PhaseServer, last-wrote)
		}
	}
	if left > 0 {
		book(metrics.PhaseOther, left)
	}
	return acc
}
