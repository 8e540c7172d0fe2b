package client

import (
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/breaker"
	"github.com/sortie-go/sortie/internal/limit"
	"github.com/sortie-go/sortie/internal/pool"
)

// judge reads the verdict column of the table of reasons: what the end of an attempt means for its endpoint.
func (a *attempt) judge(reason Reason) verdict {
	switch v := reasonFacts[reason].verdict; v {
	case byStatus:
		return statusVerdict(int(a.status))
	case bySlowness:
		if a.endpoint.slow(a.ran()) {
			return bad
		}
		return neutral
	case badDial:
		// A dial reports once, through the attempt that asked for it: others who waited for it are neutral.
		if a.endpoint.pool == nil {
			return badDial // a foreign Transport does not tell whose dial it was
		}
		if waitedForDial(a.info()) {
			return badDial
		}
		return neutral
	default:
		return v
	}
}

// waitedForDial reports whether an attempt waited for a dial that was made for it.
func waitedForDial(info *pool.Info) bool {
	for _, step := range info.Setup {
		if step.Happened {
			return true
		}
	}
	return false
}

// statusVerdict judges an answer of 400 or more. 501 and 505 speak of the request, and 429 of the client as a whole.
func statusVerdict(status int) verdict {
	switch {
	case status == http.StatusTooManyRequests:
		return neutral
	case status < 500, status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return good
	}
	return bad
}

// ran is how long the endpoint has had the attempt: to the headers, else so far.
func (a *attempt) ran() time.Duration {
	info := a.info()
	if info.Headers >= 0 {
		return info.Headers - max(info.InHand, 0)
	}
	from := a.start
	if info.InHand >= 0 {
		from = info.Start.Sub(a.call.start) + info.InHand
	}
	if a.ended {
		return a.endedAt - from
	}
	return a.call.now() - from
}

// slowFactor times the cost of an endpoint is too long for it to be the caller's deadline alone.
const slowFactor = 3

// slow reports whether an attempt that a deadline ended after d has been kept waiting for longer than its endpoint's cost
// explains.
func (ep *endpoint) slow(d time.Duration) bool {
	limit := time.Second
	// Where nothing has succeeded yet, the cost is made of failures, and hanging for as long as the last time is no excuse.
	if cost, known := ep.seat.Cost(time.Now()); known && ep.cluster.balancer.Mean() > 0 {
		limit = slowFactor * cost
	}
	return d >= limit
}

// tell reports the attempt's outcome, once, to whoever learns from it.
func (a *attempt) tell(reason Reason) {
	if !a.call.up.learns() || a.told.Swap(true) {
		return
	}
	v := neutral
	if a.handed {
		v = a.judge(reason)
	}
	a.permit.Report(v.breaker())
	now, ran := time.Now(), a.ran()
	if a.handed {
		o := balance.Observation{Outcome: v.balance(), Answered: a.status != 0}
		if v != neutral || reason == ReasonLocalReset {
			o.Time = ran
		}
		a.endpoint.seat.Observe(o, now)
		if v == badDial || a.status != 0 {
			a.endpoint.dialled(v != badDial)
		}
	}
	overloaded := a.status == http.StatusTooManyRequests
	if l := a.call.up.limit; l != nil && (v != neutral || overloaded) {
		overloaded = overloaded || reason.ErrorType() == "timeout"
		l.slots.Observe(limit.Sample{Time: ran, Failed: v == bad || v == badDial, Overloaded: overloaded}, now)
	}
}

// early tells an endpoint's balancer, at the headers, how long they took; what the answer is worth is told at its end, since a
// body that breaks is a failure.
func (a *attempt) early() {
	if !a.call.up.learns() {
		return
	}
	a.endpoint.seat.Observe(balance.Observation{Time: a.ran(), Answered: true}, a.call.start.Add(a.last))
	if a.permit.Probing() {
		a.tell(statusReason(a.status)) // others wait for the word of a probe
	}
}

// learns reports whether anybody wants to know how attempts end: with one endpoint, and nothing to keep calls from it, nobody
// does.
func (up *upstream) learns() bool {
	p := &up.policy
	return p.Breaker != nil || p.Eject != nil || p.Balance != nil || p.Limit != nil || len(up.bases.internal)+len(up.bases.external) > 1
}

// verdictAfter is how long after its headers an answer counts at the latest, however long its body: half of the window in
// which it counts.
func (up *upstream) verdictAfter() time.Duration {
	window := 10 * time.Second
	if b := up.policy.Breaker; b != nil {
		window = orDefault(b.Window, window)
	}
	return window / 2
}

func (v verdict) breaker() breaker.Outcome {
	switch v {
	case good:
		return breaker.OK
	case bad, badDial:
		return breaker.Failed
	}
	return breaker.Neutral
}

func (v verdict) balance() balance.Outcome {
	switch v {
	case good:
		return balance.OK
	case bad:
		return balance.Failed
	case badDial:
		return balance.DialFailed
	}
	return balance.Neutral
}
