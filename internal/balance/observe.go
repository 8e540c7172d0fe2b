package balance

import "time"

// Outcome says how an attempt ended, as far as its endpoint is concerned. The zero Outcome is [Neutral].
type Outcome uint8

const (
	Neutral    Outcome = iota // says nothing about the endpoint
	OK                        // it did what it is there for
	Failed                    // it was reached, or should have been, and failed
	DialFailed                // no connection could be made; a failure as well
)

// An Observation is the outcome of one attempt.
type Observation struct {
	Outcome Outcome

	// Time is how long the endpoint took, from the connection in hand to the headers; without headers, how long the attempt
	// ran. After a Neutral outcome it is a lower bound, as a hedge that lost gives one, and 0 is none.
	Time time.Duration

	Answered bool // headers came, of whatever kind: the endpoint is at work
}

// Observe tells how an attempt went, once, when that is known.
func (ep *Endpoint) Observe(o Observation, now time.Time) {
	b := ep.balancer
	t := b.instant(now)
	cfg := &b.state.Load().cfg
	mean := b.mean.load()
	if cfg.Eject != nil && t >= b.evalAt.Load() {
		b.evaluate(t)
	}

	ep.mu.Lock()
	if o.Answered && !ep.warm.Load() {
		ep.answeredLocked(t)
	}
	ep.learnLocked(o, t, cfg.Decay, mean)
	ep.countLocked(o.Outcome, t)
	ep.watchLocked(cfg.SlowStart)
	cause := ep.causeLocked(o.Outcome, cfg.Eject, t)
	ep.mu.Unlock()

	if o.Outcome == OK {
		b.mean.add(max(o.Time.Seconds(), 0), t, cfg.Decay)
	}
	if cfg.Eject == nil {
		return
	}
	if cause != 0 {
		b.eject(ep, Ejection{Cause: cause}, t)
	}
	b.events.deliver()
}

// countLocked keeps the runs, the interval and the suspicion.
func (ep *Endpoint) countLocked(o Outcome, t int64) {
	switch o {
	case OK:
		ep.interval.ok++
		ep.runs = runs{}
		ep.suspect.Store(0)
		return
	case Failed:
		ep.runs.dials = 0
	case DialFailed:
		ep.runs.dials++
	default:
		return
	}
	ep.interval.failed++
	ep.runs.failures++
	if d := suspicion(ep.runs.failures); d > 0 {
		ep.suspect.Store(t + int64(d))
	}
}
