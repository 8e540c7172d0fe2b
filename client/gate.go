package client

import (
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/breaker"
	"github.com/sortie-go/sortie/metrics"
)

// A gate is the place of an endpoint's breaker: one can come, go and be replaced while attempts run.
type gate struct {
	meter    *metrics.Upstream // nil: nothing is measured
	balancer *balance.Balancer
	seat     *balance.Endpoint
	breaker  atomic.Pointer[breaker.Breaker] // nil: everything is admitted
	settings *breaker.Config                 // the recipe's; one writer at a time: who makes the endpoint, then Reload
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

// guardWith puts a breaker with these settings in place, unless that is done already. One that was there leaves the next one
// its open time.
func (g *gate) guardWith(settings *breaker.Config) {
	if g.settings == settings {
		return
	}
	g.settings = settings
	defer g.balancer.Refresh()
	if settings == nil {
		g.breaker.Store(nil)
		return
	}
	if old := g.breaker.Load(); old != nil {
		g.breaker.Store(old.Reload(*settings))
		return
	}
	cfg := *settings
	cfg.OnChange = g.changed
	g.breaker.Store(breaker.New(cfg))
}

// changed is told when the breaker opens, probes or closes.
func (g *gate) changed(change breaker.Change) {
	g.meter.BreakerChanged(change.To.String())
	g.balancer.Refresh()
	if change.To == breaker.Closed {
		g.seat.Rewarm(change.At)
	}
}

// admit asks the endpoint's breaker for the attempt's permit.
func (ep *endpoint) admit(a *attempt) bool {
	b := ep.gate.breaker.Load()
	return b == nil || b.Admit(&a.permit)
}

// close ends what the breaker has to tell.
func (g *gate) close() {
	if b := g.breaker.Load(); b != nil {
		b.Close()
	}
}
