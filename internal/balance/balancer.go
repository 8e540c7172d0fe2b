package balance

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Tier is one of the two lists of endpoints.
type Tier uint8

const (
	Primary   Tier = iota // the list that calls use, and the only one unless there is something to spill to
	Secondary             // the list that calls spill to
)

func (t Tier) other() Tier { return 1 - t }

// A Balancer chooses among the endpoints of one upstream. It must be made by [New]. It is safe for concurrent use and owns
// no goroutine and no timer.
//
// Every method that takes the present time should be given what the clock says; it may be a little behind what others
// gave.
type Balancer struct {
	epoch   time.Time // what instants count from
	state   atomic.Pointer[state]
	health  atomic.Uint64 // packed: see health
	turns   [2]atomic.Uint64
	keyless atomic.Uint64 // picks by Rendezvous without a key
	mean    mean
	evalAt  atomic.Int64 // when the next Interval ends; written under mu
	events  events

	mu sync.Mutex // taken to change the state and to eject
}

// state is what a pick reads: settings and endpoints. It is never written, only replaced.
type state struct {
	cfg   Config
	tiers [2][]*Endpoint
}

// New returns a balancer without endpoints.
func New(cfg Config, now time.Time) *Balancer {
	b := &Balancer{epoch: now.Add(-time.Second)} // so that no instant is 0, which stands for never
	b.events.init(cfg.OnEject)
	b.state.Store(&state{cfg: cfg.withDefaults()})
	for i := range b.turns {
		b.turns[i].Store(rand.Uint64()) // or all clients would begin at the same endpoint
	}
	return b
}

// Configure changes the settings and keeps the endpoints with what was learnt of them, ejections included.
func (b *Balancer) Configure(cfg Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &state{cfg: cfg.withDefaults(), tiers: b.state.Load().tiers}
	b.publishLocked(s)
}

// Set replaces the endpoints. One that was in the set before keeps what was learnt of it, and so does one that comes back.
// An endpoint may be in one tier only, once. The slices are copied.
func (b *Balancer) Set(primary, secondary []*Endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.state.Load()
	for _, tier := range old.tiers {
		for _, ep := range tier {
			ep.tier = nowhere
		}
	}
	s := &state{cfg: old.cfg}
	for i, tier := range [...][]*Endpoint{primary, secondary} {
		s.tiers[i] = append([]*Endpoint(nil), tier...)
		for _, ep := range tier {
			ep.tier = int8(i)
		}
	}
	b.publishLocked(s)
}

// publishLocked puts s in force and tells the endpoints what it means for them.
func (b *Balancer) publishLocked(s *state) {
	for _, tier := range s.tiers {
		older := false
		for _, ep := range tier {
			older = older || ep.warm.Load()
		}
		for _, ep := range tier {
			ep.place(older, s.cfg.SlowStart)
		}
	}
	b.state.Store(s)
	b.Refresh()
}

// Refresh makes the next pick look at all endpoints before it draws a tier. Otherwise that happens ten times a second, so
// this is for those who know of a change: that of a breaker.
func (b *Balancer) Refresh() { b.health.Store(0) }

// Mean returns the running average of the time to headers, over all endpoints; 0 while there is no sample. Failed attempts
// have no part in it.
func (b *Balancer) Mean() time.Duration { return seconds(b.mean.load()) }

// Close ends the delivery to OnEject: it is not called after Close has returned. It waits for a call that runs, and so
// must not be called from it.
func (b *Balancer) Close() { b.events.close() }

// instant is now as the endpoints' atomic fields have it: nanoseconds since the epoch.
func (b *Balancer) instant(now time.Time) int64 { return int64(now.Sub(b.epoch)) }

func (b *Balancer) time(instant int64) time.Time { return b.epoch.Add(time.Duration(instant)) }
