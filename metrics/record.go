package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// took records the duration d in a histogram of seconds.
func (m *Metrics) took(ctx context.Context, id instrument, d time.Duration, k key) {
	if h := m.inst[id].seconds; h != nil && h.Enabled(ctx) {
		h.Record(ctx, d.Seconds(), m.options(ctx, id, k).record...)
	}
}

// size records n in a histogram of counts or bytes.
func (m *Metrics) size(ctx context.Context, id instrument, n int64, k key) {
	if h := m.inst[id].sizes; h != nil && h.Enabled(ctx) {
		h.Record(ctx, n, m.options(ctx, id, k).record...)
	}
}

// count adds one to a counter.
func (m *Metrics) count(ctx context.Context, id instrument, k key) {
	if c := m.inst[id].count; c != nil && c.Enabled(ctx) {
		c.Add(ctx, 1, m.options(ctx, id, k).add...)
	}
}

func (m *Metrics) move(ctx context.Context, id instrument, n int64, k key) {
	if c := m.inst[id].upDown; c != nil && c.Enabled(ctx) {
		c.Add(ctx, n, m.options(ctx, id, k).add...)
	}
}

func (m *Metrics) set(ctx context.Context, id instrument, d time.Duration, k key) {
	if g := m.inst[id].gauge; g != nil && g.Enabled(ctx) {
		g.Record(ctx, d.Seconds(), m.options(ctx, id, k).record...)
	}
}

// detached is the context of measurements that belong to no call: of connections, and of sources of credentials.
func detached() context.Context { return context.Background() }

// A collection is what the observers say at one moment, added up: two clients may share an upstream's name.
type collection struct {
	counts map[observation]int64
	values map[observation]float64
}

type observation struct {
	id instrument
	k  key
}

func (c *collection) add(id instrument, n int, k key) { c.counts[observation{id, k}] += int64(n) }

func (c *collection) sum(id instrument, v float64, k key) { c.values[observation{id, k}] += v }

func (c *collection) most(id instrument, v float64, k key) {
	o := observation{id, k}
	if old, ok := c.values[o]; !ok || v > old {
		c.values[o] = v
	}
}

func (c *collection) least(id instrument, v float64, k key) {
	o := observation{id, k}
	if old, ok := c.values[o]; !ok || v < old {
		c.values[o] = v
	}
}

// observe is the callback of all observed instruments. What nobody says anything about is not reported at all: unknown is
// not zero.
func (m *Metrics) observe(ctx context.Context, to metric.Observer) error {
	c := &collection{counts: make(map[observation]int64), values: make(map[observation]float64)}
	for _, read := range m.observers.all() {
		read(c)
	}
	if rate, known := m.arrived.rate(); known {
		c.sum(queriesPerSecond, rate, key{})
	}
	for o, n := range c.counts {
		if inst := m.inst[o.id].observed; inst != nil {
			to.ObserveInt64(inst, n, m.options(ctx, o.id, o.k).observe...)
		}
	}
	for o, v := range c.values {
		if inst := m.inst[o.id].floats; inst != nil {
			to.ObserveFloat64(inst, v, m.options(ctx, o.id, o.k).observe...)
		}
	}
	return nil
}
