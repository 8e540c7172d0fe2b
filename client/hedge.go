package client

import (
	"net/http"
	"sync"
	"time"

	"github.com/sortie-go/sortie/internal/hedge"
)

// hedgePolicy is a Hedge at work.
type hedgePolicy struct {
	engine *hedge.Hedge
	shadow bool
}

func (h *Hedge) engine() hedge.Config {
	return hedge.Config{
		ExtraLoad: orDefault(h.ExtraLoad, 0.05), Delay: h.Delay, Min: orDefault(h.Min, 10*time.Millisecond), Shadow: h.Shadow,
	}
}

// A hedgeRefusal is why there is no second attempt, in the words of sortie.hedge.suppressed.
type hedgeRefusal string

const (
	hedgeAllowed         hedgeRefusal = ""
	hedgeUnwanted        hedgeRefusal = "unwanted" // by the call's own options: nothing was suppressed
	hedgeDraining        hedgeRefusal = "draining"
	hedgeNotIdempotent   hedgeRefusal = "not_idempotent"
	hedgeNotReplayable   hedgeRefusal = "not_replayable"
	hedgeLimit           hedgeRefusal = "limit"
	hedgePanic           hedgeRefusal = "panic"
	hedgeNoOtherEndpoint hedgeRefusal = "no_other_endpoint"
	hedgeBudget          hedgeRefusal = "budget"
)

// mayHedge says whether a second attempt is possible at all, as far as the call itself decides it.
func (c *call) mayHedge() hedgeRefusal {
	switch {
	case c.options().NoHedge:
		return hedgeUnwanted
	case c.client.draining.Load():
		return hedgeDraining
	case !c.idempotent():
		return hedgeNotIdempotent
	case hasBody(c.req) && c.req.GetBody == nil && c.buffered() == nil:
		return hedgeNotReplayable // the first attempt has the body
	}
	attempts := 2
	if c.up.retry != nil && !c.options().NoRetry {
		attempts = c.up.retry.attempts
	}
	if c.counted() >= attempts {
		return hedgeLimit
	}
	return hedgeAllowed
}

// suppressed counts a second attempt that was due and is not made.
func (c *call) suppressed(why hedgeRefusal) {
	if why != hedgeUnwanted {
		c.up.meter.HedgeSuppressed(c.context(), string(why))
	}
}

// A hedgeRace is an attempt and the second one made because it is slow. Each runs on a goroutine of its own, which the client
// waits for at its end.
type hedgeRace struct {
	up    *upstream
	call  *call
	try   trier
	delay time.Duration
	legs  chan leg // room for both: nobody blocks

	mu   sync.Mutex
	over bool // a leg that comes in now has lost
}

// A leg is the outcome of one of the two.
type leg struct {
	a        *attempt
	resp     *http.Response
	err      error
	panicked any
}

// run makes one leg's attempt.
func (r *hedgeRace) run(a *attempt) {
	a.runBeside(true)
	r.call.client.background.Go(func() {
		l := leg{a: a}
		func() {
			defer func() { // a panic goes on where the caller is
				if l.panicked = recover(); l.panicked != nil {
					_ = a.fails(ReasonPanic, nil)
				}
			}()
			l.resp, l.err = r.try(a) //nolint:bodyclose // the winner's is the caller's; discard closes the other
		}()
		r.mu.Lock()
		lost := r.over
		if !lost {
			r.legs <- l
		}
		r.mu.Unlock()
		if lost {
			l.discard()
		}
	})
}

// discard ends a leg that is not the call's answer. It may outlast the call.
func (l leg) discard() {
	if l.resp != nil {
		keep(l.resp, l.a)
	}
	l.a.over()
	l.a.closeBody()
}

// runBeside notes whether the attempt is on a goroutine of its own.
func (a *attempt) runBeside(beside bool) {
	a.call.mu.Lock()
	a.beside = beside
	a.call.mu.Unlock()
}

// acceptable reports whether the leg wins: nobody would want it repeated.
func (r *hedgeRace) acceptable(l leg) bool {
	return l.err == nil && l.panicked == nil && !r.up.repeats(l.resp.StatusCode)
}

// second starts the second leg, if everything still speaks for it. It is due while the first one runs.
func (r *hedgeRace) second() *attempt {
	c, h := r.call, r.up.hedge
	now := time.Now()
	why := c.mayHedge()
	if why == hedgeAllowed {
		switch {
		case !c.untriedForHedge():
			if why = hedgeNoOtherEndpoint; c.panicked {
				why = hedgePanic
			}
		case !h.engine.Try(now, r.up.budget):
			why = hedgeBudget
		}
	}
	switch {
	case why != hedgeAllowed:
		c.suppressed(why)
		return nil
	case h.shadow:
		c.wouldHave("hedge: a second attempt")
		return nil
	}
	c.nextIs(KindHedge, r.delay)
	before := len(c.attempts)
	a, err := r.up.start(c)
	switch {
	case err != nil && len(c.attempts) == before:
		c.suppressed(hedgeNoOtherEndpoint)
		return nil
	case err != nil:
		c.up.meter.Hedged(c.context(), "failed")
		return nil
	}
	a.limitTime(c.limits.perAttempt)
	r.run(a)
	return a
}

// finish ends the race: whoever comes in from now on has lost. The other, if it still runs, is broken off; on HTTP/1, where
// that costs a connection, only after a while.
func (r *hedgeRace) finish(other *attempt) {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	for {
		select {
		case l := <-r.legs:
			l.discard()
			continue
		default:
		}
		break
	}
	if other == nil {
		return
	}
	if r.call.answeredOverHTTP2() {
		other.stop(errLost)
		return
	}
	r.call.client.background.Go(func() {
		patience := time.NewTimer(hedge.Patience(r.delay))
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-other.ctx.Done(): // it has ended
		case <-r.call.client.closing:
		}
		other.stop(errLost)
	})
}

// answeredOverHTTP2 reports whether the call's connections are such that breaking an attempt off costs none.
func (c *call) answeredOverHTTP2() bool {
	return c.answer != nil && c.answer.info().Proto() == "HTTP/2.0"
}
