package metrics

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Upstream records what happens to the calls of one upstream. It is for package client, which tells it of every outcome
// exactly once: good, failed, cancelled or refused. Words that are not of the sets listed count as "_OTHER".
//
// A nil *Upstream is off. All methods are safe for concurrent use; none allocates once its attributes have been seen.
type Upstream struct {
	m     *Metrics
	name  string
	value value

	span    string                      // name of its calls' spans
	options [3][2]trace.SpanStartOption // of their start, by side
	recent  connSpans
}

// Upstream returns the recorder of the upstream with this name. Beyond Config.MaxUpstreams names, and for the name "",
// which is for calls that find no upstream, it records under "_OTHER". Nil if m is nil.
func (m *Metrics) Upstream(name string) *Upstream {
	if m == nil {
		return nil
	}
	u := &Upstream{m: m, name: or(name, other), value: m.upstreams.value(name)}
	u.span = "call " + u.name
	for side := range u.options {
		attrs := []attribute.KeyValue{keyUpstream.String(u.name)}
		if word, _ := bySide.word(value(side)); side > 0 {
			attrs = append(attrs, keySide.String(word))
		}
		u.options[side] = [2]trace.SpanStartOption{trace.WithAttributes(attrs...)}
	}
	return u
}

// Retried counts a retry that has ended: reason is connect, reset, timeout, status, credential or other, outcome ok or
// failed. Moves to another endpoint and resends by the pool are no retries.
func (u *Upstream) Retried(ctx context.Context, reason, outcome string) {
	if u != nil {
		u.m.count(ctx, retryAttempts, key{u.value, byRetryReason.valueOf(reason), byRetryOutcome.valueOf(outcome)})
	}
}

// RetrySuppressed counts a retry that was not made: reason is limit, budget, breaker_open, deadline, not_replayable,
// not_idempotent or draining.
func (u *Upstream) RetrySuppressed(ctx context.Context, reason string) {
	if u != nil {
		u.m.count(ctx, retrySuppressed, key{u.value, byRetryRefusal.valueOf(reason)})
	}
}

// Hedged counts a second attempt beside a slow one: outcome is won, lost or failed.
func (u *Upstream) Hedged(ctx context.Context, outcome string) {
	if u != nil {
		u.m.count(ctx, hedgeAttempts, key{u.value, byHedgeOutcome.valueOf(outcome)})
	}
}

// HedgeSuppressed counts a hedge that was not made: reason is limit, budget, no_other_endpoint, not_replayable,
// not_idempotent, panic or draining.
func (u *Upstream) HedgeSuppressed(ctx context.Context, reason string) {
	if u != nil {
		u.m.count(ctx, hedgeSuppressed, key{u.value, byHedgeRefusal.valueOf(reason)})
	}
}

// BreakerChanged counts a change of a breaker: state, the new one, is closed, half_open or open; ejected of a balancer.
func (u *Upstream) BreakerChanged(state string) {
	if u != nil {
		u.m.count(detached(), breakerTransitions, key{u.value, byState.valueOf(state)})
	}
}

// BreakerRejected counts an attempt that was not made since a breaker did not admit it.
func (u *Upstream) BreakerRejected(ctx context.Context) {
	if u != nil {
		u.m.count(ctx, breakerRejected, key{u.value})
	}
}

// LimitRejected counts a call that the limit refused: reason is full, wait, deadline or draining.
func (u *Upstream) LimitRejected(ctx context.Context, reason string) {
	if u != nil {
		u.m.count(ctx, limitRejected, key{u.value, byLimitRefusal.valueOf(reason)})
	}
}

// Observe has read called at each collection of metrics, until stop is called. It says what is so at that moment; what it
// does not mention is not reported. It must not block, and may be called from any goroutine.
func (u *Upstream) Observe(read func(*Observation)) (stop func()) {
	if u == nil {
		return func() {}
	}
	return u.m.observers.add(func(c *collection) { read(&Observation{u, c}) })
}

// Observation takes down the state of an upstream, for [Upstream.Observe]. It is of no use after that.
type Observation struct {
	u *Upstream
	c *collection
}

// Calls says how many calls have not ended.
func (o *Observation) Calls(active int) { o.c.add(callsActive, active, key{o.u.value}) }

// RetryBudget says how many retries and hedges the budget would pay for.
func (o *Observation) RetryBudget(tokens float64) { o.c.sum(budgetTokens, tokens, key{o.u.value}) }

// Endpoints says that n endpoints of a side, internal or external, are closed, half_open, open or ejected. Ejection comes
// before the breaker's state.
func (o *Observation) Endpoints(side, state string, n int) {
	o.c.add(endpointStates, n, key{o.u.value, bySide.valueOf(side), byState.valueOf(state)})
}

// Limit says how many calls the limit admits at a time, and how many are waiting for it.
func (o *Observation) Limit(slots, waiting int) {
	o.c.sum(limitSlots, float64(slots), key{o.u.value})
	o.c.add(limitWaiting, waiting, key{o.u.value})
}

// Ports says how much of the port budget of a destination is held, from 0 to 1. The fullest destination counts.
func (o *Observation) Ports(utilization float64) {
	o.c.most(portUtilization, utilization, key{o.u.value})
}

// Connections says how many connections to an endpoint carry a request, and how many are idle.
func (o *Observation) Connections(e *Endpoint, active, idle int) {
	if e != nil {
		o.c.add(connectionsOpen, active, key{byConnState.valueOf("active"), e.value})
		o.c.add(connectionsOpen, idle, key{byConnState.valueOf("idle"), e.value})
	}
}

// Phases is a time account as package client keeps it: a time for each phase, and a bit for each that happened.
type Phases struct {
	Time     [NumPhases]time.Duration
	Happened uint16
}

// Get returns the time spent in phase p, and whether the phase happened at all.
func (p *Phases) Get(phase Phase) (time.Duration, bool) {
	if phase >= NumPhases {
		return 0, false
	}
	return p.Time[phase], p.Happened&(1<<phase) != 0
}

// attributes are the phases that happened, in seconds, as attributes of a span.
func (p *Phases) attributes(out []attribute.KeyValue) []attribute.KeyValue {
	for phase := range NumPhases {
		if d, happened := p.Get(phase); happened {
			out = append(out, attribute.Float64("sortie.phase."+phase.String(), d.Seconds()))
		}
	}
	return out
}

// connSpans remembers the spans of the newest connections, for attempts to link to.
type connSpans struct {
	mu   sync.Mutex
	last [64]connSpan
	next int
}

type connSpan struct {
	conn uint64
	span trace.SpanContext
}

func (c *connSpans) add(conn uint64, span trace.SpanContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[c.next%len(c.last)] = connSpan{conn, span}
	c.next++
}

func (c *connSpans) of(conn uint64) (trace.SpanContext, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.last {
		if s.conn == conn && conn != 0 {
			return s.span, true
		}
	}
	return trace.SpanContext{}, false
}
