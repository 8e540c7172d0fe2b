package balance

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Gate is an endpoint's breaker, as far as picking has to know it. It is asked often, and must answer from memory without
// waiting.
type Gate interface {
	// Ready reports whether an attempt would be admitted, and whether that would be a probe of a half-open breaker.
	// Neither means that the endpoint is not available.
	Ready(now time.Time) (admits, probing bool)
}

// An Endpoint is one address of an upstream, with what is known of it. It is made by [Balancer.NewEndpoint] and belongs to
// that balancer. It is safe for concurrent use.
type Endpoint struct {
	balancer *Balancer
	address  string
	hash     uint64 // of the address
	gate     Gate   // may be nil
	tier     int8   // guarded by Balancer.mu

	pending atomic.Int64
	cost    atomicFloat  // seconds, at the instant seen
	seen    atomic.Int64 // of the last sample; 0: there is none

	// What a pick has to know, as instants; written under mu.
	watch   atomic.Int64 // until then the endpoint needs a closer look: one of the following
	suspect atomic.Int64 // until then others are preferred
	ejected atomic.Int64 // until then it is left out
	ramp    atomic.Int64 // start of its slow start; 0: none
	gated   atomic.Bool  // a newcomer that has not answered yet
	warm    atomic.Bool  // it has answered

	mu       sync.Mutex
	newcomer bool
	runs     runs
	interval struct{ ok, failed int } // outcomes in this Interval
	out      ejections
}

const nowhere = -1 // tier of an endpoint that is in no set

// NewEndpoint returns an endpoint that nothing is known of. It is picked once it has been given to Set. The address tells
// endpoints apart for Rendezvous, and must be the same in all processes that are to agree. The gate may be nil.
func (b *Balancer) NewEndpoint(address string, gate Gate) *Endpoint {
	return &Endpoint{balancer: b, address: address, hash: hashString(address), gate: gate, tier: nowhere}
}

// ready asks the gate.
func (ep *Endpoint) ready(now time.Time) (admits, probing bool) {
	if ep.gate == nil {
		return true, false
	}
	return ep.gate.Ready(now)
}

// Address returns what NewEndpoint was given.
func (ep *Endpoint) Address() string { return ep.address }

// Release ends an attempt that was picked, with the end of its body. It must be called once per pick.
func (ep *Endpoint) Release() { ep.pending.Add(-1) }

// Pending returns the number of attempts that were picked and not released.
func (ep *Endpoint) Pending() int { return int(ep.pending.Load()) }

// Cost returns the endpoint's cost at this moment; false while there is no sample.
func (ep *Endpoint) Cost(now time.Time) (time.Duration, bool) {
	decay := ep.balancer.state.Load().cfg.Decay
	return seconds(ep.costAt(ep.balancer.instant(now), decay)), ep.seen.Load() != 0
}

// Rewarm begins the slow start again: the endpoint's breaker has closed.
func (ep *Endpoint) Rewarm(now time.Time) {
	b := ep.balancer
	slowStart := b.state.Load().cfg.SlowStart
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.ramp.Store(b.instant(now))
	ep.watchLocked(slowStart)
}

// place tells an endpoint that it is in a set, with or without endpoints at work. Where there are none it is no newcomer:
// a set that is new as a whole has nothing to protect it from.
func (ep *Endpoint) place(older bool, slowStart time.Duration) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if !ep.warm.Load() {
		ep.newcomer = older
		ep.gated.Store(older)
	}
	ep.watchLocked(slowStart)
}

// answeredLocked notes the first response.
func (ep *Endpoint) answeredLocked(t int64) {
	ep.warm.Store(true)
	ep.gated.Store(false)
	if ep.newcomer {
		ep.newcomer = false
		ep.ramp.Store(t)
	}
}

// watchLocked sets watch from what it stands for.
func (ep *Endpoint) watchLocked(slowStart time.Duration) {
	until := max(ep.suspect.Load(), ep.ejected.Load())
	if start := ep.ramp.Load(); start != 0 {
		until = max(until, start+int64(slowStart))
	}
	if ep.gated.Load() {
		until = math.MaxInt64
	}
	ep.watch.Store(until)
}
