package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/metrics"
)

// wire sends the attempt and waits for its headers. It gives back the response, or the failure.
func wire(a *attempt) (*http.Response, error) {
	c := a.call
	a.handed = true
	resp, info, err := a.endpoint.send(a)
	now := info.Headers
	if err != nil {
		now = time.Now()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	a.info = info
	a.watch.rest(info.Start)
	a.watch.bookWire(info, now)
	if c.limits.limited == a {
		c.limits.attempt = time.Time{}
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if cause := context.Cause(a.ctx); err == nil && cause != nil {
		resp.Body.Close() // it came too late: its body could not be read
		err = cause
	}
	if err != nil {
		a.endLocked(a.classify(err), now)
		return nil, &failure{reason: a.reason, err: err}
	}
	a.status = resp.StatusCode
	return resp, nil
}

// bookWire divides the time on the wire, which ends now, into phases. The pool's times are exact, but a request that was
// sent twice leaves some that belong to none: it is shown as "other", never spread.
func (w *stopwatch) bookWire(info pool.Info, now time.Time) {
	left := now.Sub(w.last)
	book := func(p metrics.Phase, d time.Duration) {
		d = min(max(d, 0), left)
		w.account.add(p, d)
		left -= d
	}
	if info.Acquire > 0 || info.Conn != 0 {
		book(metrics.PhaseAcquire, info.Acquire)
	}
	for i, p := range [...]metrics.Phase{metrics.PhaseDNS, metrics.PhaseConnect, metrics.PhaseTLS} {
		if step := info.Setup[i]; step.Happened {
			book(p, step.Time)
		}
	}
	if !info.InHand.IsZero() {
		last := orDefault(info.Headers, now)
		wrote := info.Wrote
		if wrote.IsZero() || wrote.After(last) {
			wrote = last // the answer came before the request was all written
		}
		book(metrics.PhaseWrite, wrote.Sub(info.InHand))
		if wrote.Before(last) || !info.Headers.IsZero() {
			book(metrics.PhaseServer, last.Sub(wrote))
		}
	}
	if left > 0 {
		book(metrics.PhaseOther, left)
	}
	w.last = now
}
