package client

import (
	"net/http"

	"github.com/sortie-go/sortie/metrics"
)

// withPick chooses an endpoint and makes an attempt there. It waits for nothing; it gives the stages below an attempt whose
// request is complete but for credentials.
func withPick(up *upstream, try trier) sender {
	return func(c *call) (*http.Response, error) {
		if len(c.attempts) == 0 && up.budget != nil {
			up.budget.Deposit(c.start)
		}
		a := c.newAttempt()
		if f := up.pick(a); f != nil {
			return nil, f
		}
		if err := a.begin(); err != nil {
			defer a.release()
			return nil, a.fails(ReasonRequestBody, err)
		}
		resp, err := try(a)
		c.settle(a)
		if err != nil {
			a.release()
			return nil, err
		}
		c.answer = a
		up.headerTime.observe(a.watch.last.Sub(a.start))
		return resp, nil
	}
}

// settle books the attempt's time to the call: the call was in the attempt's phases.
func (c *call) settle(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.number == 1 {
		c.watch.rest(a.start)
	} else if a.start.After(c.watch.last) {
		c.watch.book(metrics.PhaseBackoff, a.start) // the draining of what was discarded included
	}
	for p, d := range a.watch.account.All() {
		c.watch.account.add(p, d)
	}
	c.watch.last = a.watch.last
}
