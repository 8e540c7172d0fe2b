package client

import (
	"net/http"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// withPick chooses an endpoint and makes an attempt there. It waits for nothing but the first answer of DNS; it gives the
// stages below an attempt whose request is complete but for credentials.
func withPick(up *upstream, try trier) sender {
	return func(c *call) (*http.Response, error) {
		a, err := up.start(c)
		if err != nil {
			return nil, err
		}
		resp, err := try(a)
		c.settle(a)
		return up.outcome(a, resp, err)
	}
}

// start picks an endpoint and begins an attempt there.
func (up *upstream) start(c *call) (*attempt, error) {
	if len(c.attempts) == 0 {
		up.deposit(c.start)
	}
	a := c.newAttempt()
	if f := up.pick(a); f != nil {
		return nil, f
	}
	if err := a.begin(c.attemptStart()); err != nil {
		defer a.release()
		return nil, a.fails(ReasonRequestBody, err)
	}
	return a, nil
}

// attemptStart is now, read from the clock only if something has happened since the call began: a reading costs as much as
// all that a first attempt does before it is sent.
func (c *call) attemptStart() time.Duration {
	if len(c.attempts) == 0 && c.watch.last == 0 {
		return 0
	}
	return c.now()
}

// deposit pays a call into the accounts that its extra attempts are paid from.
func (up *upstream) deposit(now time.Time) {
	if up.budget != nil {
		up.budget.Deposit(now)
	}
	if up.hedge != nil {
		up.hedge.engine.Deposit(now)
	}
}

// outcome hands on what an attempt has brought, and lets go of one that failed.
func (up *upstream) outcome(a *attempt, resp *http.Response, err error) (*http.Response, error) {
	took := a.last - a.start
	if up.hedge != nil && a.handed {
		up.hedge.engine.Observe(took, a.call.start.Add(a.last))
	}
	if err != nil {
		a.release()
		return nil, err
	}
	a.call.answer = a
	if resp.Body != http.NoBody {
		a.early()
	}
	up.headerTime.observe(took)
	return resp, nil
}

// settle books the attempt's time to the call: the call was in the attempt's phases.
func (c *call) settle(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.kind == KindHedge:
		c.watch.book(metrics.PhaseHedgeWait, a.start)
	case a.number == 1:
		c.watch.rest(a.start)
	case a.start > c.watch.last:
		c.watch.book(metrics.PhaseBackoff, a.start) // the draining of what was discarded included
	}
	for p, d := range a.account().All() {
		c.watch.account.add(p, d)
	}
	c.watch.last = a.last
}
