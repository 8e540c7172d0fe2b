package client

import (
	"net/http"
	"time"
)

// withHedge is withPick with a second attempt beside the first when that is slow. It waits for the first acceptable outcome,
// or for both; it gives back the winner's, or of two that are not acceptable a response before an error.
func withHedge(up *upstream, h *hedgePolicy, try trier) sender {
	alone := withPick(up, try)
	if h == nil {
		return alone
	}
	return func(c *call) (*http.Response, error) {
		delay, known := h.engine.Delay(time.Now())
		if !known {
			return alone(c)
		}
		if why := c.mayHedge(); why != hedgeAllowed {
			resp, err := alone(c)
			if a := c.last(); a != nil && a.last-a.start >= delay {
				c.suppressed(why) // it would have been due
			}
			return resp, err
		}
		first, err := up.start(c)
		if err != nil {
			return nil, err
		}
		r := &hedgeRace{up: up, call: c, try: try, delay: delay, legs: make(chan leg, 2)}
		r.run(first)
		return r.decide(first)
	}
}

// decide waits for the legs.
func (r *hedgeRace) decide(first *attempt) (*http.Response, error) {
	decided := false
	defer func() {
		if !decided { // the user's code has panicked while the second attempt was made
			r.finish(first)
		}
	}()
	due := time.NewTimer(r.delay - (r.call.now() - first.start))
	defer due.Stop()
	running, second := 1, (*attempt)(nil)
	var worse *leg // an outcome that is not acceptable, while the other may be
	for {
		select {
		case <-due.C:
			if second = r.second(); second != nil {
				running++
			}
		case l := <-r.legs:
			running--
			if running > 0 && !r.acceptable(l) {
				worse = &l
				continue
			}
			chosen, beaten := better(worse, l)
			decided = true
			return r.win(chosen, beaten, first, second, running)
		}
	}
}

// better chooses between two outcomes of which at most the later is acceptable. The other is discarded.
func better(worse *leg, l leg) (chosen leg, other *leg) {
	if worse == nil {
		return l, nil
	}
	if l.resp == nil && worse.resp != nil {
		return *worse, &l
	}
	return l, worse
}

// outcomeOf is how the second attempt went, in the words of sortie.hedge.attempts.
func (r *hedgeRace) outcomeOf(second *attempt, chosen leg, beaten *leg) string {
	switch {
	case r.call.context().Err() != nil: // the caller has ended both
		return "lost"
	case chosen.a != second && (beaten == nil || r.acceptable(*beaten)):
		return "lost"
	case chosen.a == second && r.acceptable(chosen):
		return "won"
	}
	return "failed"
}

// win makes a leg's outcome the stage's.
func (r *hedgeRace) win(l leg, beaten *leg, first, second *attempt, running int) (*http.Response, error) {
	c := r.call
	other := first
	if l.a == first {
		other = second
	}
	l.a.runBeside(false)
	if beaten != nil {
		beaten.discard()
	}
	c.hedged, c.hedgeWon = c.hedged || second != nil, l.a == second && l.err == nil
	if second != nil {
		c.up.meter.Hedged(c.context(), r.outcomeOf(second, l, beaten))
	}
	c.settle(l.a)
	if l.err == nil {
		c.answer = l.a
	}
	if running == 0 {
		other = nil
	}
	r.finish(other)
	if beaten != nil && beaten.panicked != nil {
		if l.resp != nil {
			l.resp.Body.Close()
		}
		panic(beaten.panicked) // a mistake of the user's is not hidden because the other attempt went well
	}
	if l.panicked != nil {
		panic(l.panicked)
	}
	return r.up.outcome(l.a, l.resp, l.err)
}
