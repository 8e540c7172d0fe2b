package client

import (
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

// A gate is the place of an endpoint's breaker: one can come, go and be replaced while attempts run.
type gate struct {
	breaker atomic.Pointer[breaker.Breaker] // nil: everything is admitted
}

// Ready is what the balancer asks.
func (g *gate) Ready(now time.Time) (admits, probing bool) {
	if b := g.breaker.Load(); b != nil {
		return b.Ready(now)
	}
	return true, false
}

// next is how long nothing will be admitted.
func (g *gate) next(now time.Time) time.Duration {
	if b := g.breaker.Load(); b != nil {
		return b.Next(now)
	}
	return 0
}

// state is the breaker's, in a word.
func (g *gate) state() string {
	if b := g.breaker.Load(); b != nil {
		return b.State().String()
	}
	return breaker.Closed.String()
}

// guardWith puts an endpoint's breaker in place.
func (ep *endpoint) guardWith(up *upstream, policy *Breaker) {
	if policy == nil {
		return
	}
	ep.gate.breaker.Store(breaker.New(policy.engine(up.timeout.Attempt, func(change breaker.Change) {
		up.balancer.Refresh()
		if seat := ep.seat; seat != nil && change.To == breaker.Closed {
			seat.Rewarm(change.At)
		}
	})))
}

// admit asks the endpoint's breaker for the attempt's permit.
func (ep *endpoint) admit(a *attempt) bool {
	b := ep.gate.breaker.Load()
	return b == nil || b.Admit(&a.permit)
}

// close ends the endpoint: its connections, and what its breaker has to tell.
func (ep *endpoint) close() {
	if ep.pool != nil {
		ep.pool.Close()
	}
	if b := ep.gate.breaker.Load(); b != nil {
		b.Close()
	}
}
