package client

import (
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/metrics"
)

// wire sends the attempt and waits for its headers. It gives back the response, or an error whose reason stands in the
// attempt.
func wire(c *call) (*http.Response, error) {
	a := c.last()
	a.handed = true
	begin := time.Now()
	resp, info, err := a.endpoint.send(a)
	now := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.rest(begin)
	a.info = info
	bookWire(&a.account, info, begin, now)
	for p, d := range a.account.All() {
		c.watch.account.add(p, d)
	}
	c.watch.last = now
	c.limits.attempt = time.Time{}
	if err != nil {
		a.endLocked(c.classify(a, err), now)
		return nil, err
	}
	a.status, c.status = resp.StatusCode, resp.StatusCode
	return resp, nil
}

// bookWire divides the time on the wire into phases. The pool's times are exact, but a send that was made twice leaves
// some that belong to none: it is shown as "other", never spread.
func bookWire(account *Account, info pool.Info, begin, end time.Time) {
	left := end.Sub(begin)
	book := func(p metrics.Phase, d time.Duration) {
		d = min(max(d, 0), left)
		account.add(p, d)
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
		last := orTime(info.Headers, end)
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
}

func orTime(t, def time.Time) time.Time {
	if t.IsZero() {
		return def
	}
	return t
}
