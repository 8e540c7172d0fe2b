package metrics

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The bounds of what may stand in attributes. With maxSets an instrument stays below the 2,000 at which the SDK gives up.
const (
	maxSets      = 1500
	maxEndpoints = 500
	maxHosts     = 500
	maxRoutes    = 200
	maxSources   = 50
	maxFacades   = 50
	maxParts     = 50 // of each facade
)

// scopeName is the name of our instrumentation scope.
const scopeName = "github.com/sortie-go/sortie/metrics"

// Metrics records what this module does, as OpenTelemetry measurements and spans. Make it with [New], give it to the
// Metrics fields of the other packages, and wrap the service's handler in [Metrics.Inbound].
//
// A nil *Metrics is off: every method accepts it and does nothing. All methods are safe for concurrent use.
type Metrics struct {
	cfg     Config
	methods methods
	tracing tracing
	arrived *arrivals

	inst [numInstruments]recorder
	sets [numInstruments]cow[key, *options]
	fold [numInstruments]cow[key, *options] // where the rest goes
	lost [numInstruments]atomic.Uint64      // measurements that went there

	upstreams, sources, facades, routes, hosts names[string]
	parts                                      [firstName + maxFacades]names[string] // of each facade
	endpoints                                  names[address]

	registration metric.Registration
	observers    observers
}

// A recorder is the OpenTelemetry instrument of a row of the table: one of its fields is set, none if the row is off.
type recorder struct {
	seconds  metric.Float64Histogram
	sizes    metric.Int64Histogram
	count    metric.Int64Counter
	upDown   metric.Int64UpDownCounter
	gauge    metric.Float64Gauge
	observed metric.Int64Observable
	floats   metric.Float64Observable
}

// options are an attribute set, ready to be passed to an instrument.
type options struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
	folded  bool
}

// New returns Metrics that record what cfg says. It reports every mistake in cfg at once, or else what the MeterProvider
// objects to, and then returns nil. [Metrics.Close] ends the observation of gauges.
func New(cfg Config) (*Metrics, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Metrics{cfg: cfg, methods: newMethods(cfg.Methods)}
	m.upstreams.limit = or(cfg.MaxUpstreams, defaultUpstreams)
	m.sources.limit, m.facades.limit = maxSources, maxFacades
	for i := range m.parts {
		m.parts[i].limit, m.parts[i].skip = maxParts, i*maxParts
	}
	m.routes.limit, m.hosts.limit, m.endpoints.limit = maxRoutes, maxHosts, maxEndpoints
	m.arrived = &arrivals{window: int64(or(cfg.Window, defaultWindow) / time.Second)}

	meters := cfg.MeterProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	version := moduleVersion()
	m.tracing.init(&cfg, version)
	meter := meters.Meter(scopeName, metric.WithInstrumentationVersion(version), metric.WithSchemaURL(semconv.SchemaURL))
	if err := m.makeInstruments(meter); err != nil {
		return nil, err
	}
	return m, nil
}

// Close ends the observation of gauges, so that their last values are not reported for ever. Counters keep what they have,
// and what is recorded afterwards still counts. It is idempotent, and nil after the first call.
func (m *Metrics) Close() error {
	if m == nil {
		return nil
	}
	m.observers.mu.Lock()
	r := m.registration
	m.registration = nil
	m.observers.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.Unregister()
}

func (m *Metrics) makeInstruments(meter metric.Meter) error {
	var all []error
	var observed []metric.Observable
	for id := range numInstruments {
		if table[id].development && !m.cfg.Development {
			continue
		}
		o, err := m.inst[id].make(meter, id)
		if err != nil {
			all = append(all, fmt.Errorf("metrics: %s: %w", table[id].name, err))
		}
		if o != nil && table[id].kind != observedCounter {
			observed = append(observed, o)
		}
	}
	if len(all) > 0 {
		return errors.Join(all...)
	}
	r, err := meter.RegisterCallback(m.observe, observed...)
	if err != nil {
		return fmt.Errorf("metrics: registering the observed gauges: %w", err)
	}
	// The counter outlasts Close, like all counters, so it has a registration of its own, which keeps no more than the
	// arrivals alive.
	requests := m.inst[inboundRequests].observed
	if _, err := meter.RegisterCallback(m.arrived.observe(requests), requests); err != nil {
		return errors.Join(fmt.Errorf("metrics: registering the counter of arrivals: %w", err), r.Unregister())
	}
	m.registration = r
	return nil
}

// make creates the instrument of a row, and returns it if it is one that is observed.
func (r *recorder) make(meter metric.Meter, id instrument) (o metric.Observable, err error) {
	row := table[id]
	unit, text := metric.WithUnit(row.unit), metric.WithDescription(row.text)
	switch row.kind {
	case histogramSeconds:
		r.seconds, err = meter.Float64Histogram(row.name, unit, text, metric.WithExplicitBucketBoundaries(row.buckets...))
	case histogramCount:
		r.sizes, err = meter.Int64Histogram(row.name, unit, text, metric.WithExplicitBucketBoundaries(row.buckets...))
	case counter:
		r.count, err = meter.Int64Counter(row.name, unit, text)
	case upDown:
		r.upDown, err = meter.Int64UpDownCounter(row.name, unit, text)
	case observedCounter:
		r.observed, err = meter.Int64ObservableCounter(row.name, unit, text)
		return r.observed, err
	case gaugeSeconds:
		r.gauge, err = meter.Float64Gauge(row.name, unit, text)
	case observedUpDown:
		r.observed, err = meter.Int64ObservableUpDownCounter(row.name, unit, text)
		return r.observed, err
	case observedGauge, observedSeconds:
		r.floats, err = meter.Float64ObservableGauge(row.name, unit, text)
		return r.floats, err
	}
	return nil, err
}

// moduleVersion is the version of this module in the program, "" if that is not known.
func moduleVersion() string {
	const module = "github.com/sortie-go/sortie"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// options returns the attribute set of a measurement, from memory except for the first time, and counts it if it is
// folded.
func (m *Metrics) options(ctx context.Context, id instrument, k key) *options {
	o, ok := m.sets[id].get(k)
	if !ok {
		o = m.newOptions(id, k)
	}
	if o.folded && id != foldedMeasurements {
		m.lost[id].Add(1)
		m.count(ctx, foldedMeasurements, key{value(id)})
	}
	return o
}

func (m *Metrics) newOptions(id instrument, k key) *options {
	room := maxSets - id.folds()
	if !m.sets[id].full(room) {
		if o, ok := m.sets[id].add(k, room, func(int) *options { return m.build(id, k) }); ok {
			return o
		}
	}
	k = id.fold(k)
	if o, ok := m.fold[id].get(k); ok {
		return o
	}
	o, _ := m.fold[id].add(k, id.folds(), func(int) *options {
		o := m.build(id, k)
		o.folded = true
		return o
	})
	return o
}

func (m *Metrics) build(id instrument, k key) *options {
	set := metric.WithAttributes(m.attributes(id, k)...)
	return &options{
		add: []metric.AddOption{set}, record: []metric.RecordOption{set}, observe: []metric.ObserveOption{set},
		folded: id.folded(k),
	}
}

// Stats are facts of the moment, for package doctor and for tests.
type Stats struct {
	// Folded counts, by instrument, the measurements whose attributes were folded into "_OTHER" for want of room.
	Folded map[string]uint64

	// Arrivals is how many inbound requests have come; QueriesPerSecond is the gauge of that name, and Known says whether
	// it has a value yet.
	Arrivals         uint64
	QueriesPerSecond float64
	Known            bool
}

// Stats returns what has been counted so far. It is zero if m is nil.
func (m *Metrics) Stats() Stats {
	if m == nil {
		return Stats{}
	}
	s := Stats{Folded: make(map[string]uint64), Arrivals: m.arrived.total.Load()}
	s.QueriesPerSecond, s.Known = m.arrived.rate()
	for id := range numInstruments {
		if n := m.lost[id].Load(); n > 0 {
			s.Folded[table[id].name] = n
		}
	}
	return s
}

// observers are the functions that know the values of gauges.
type observers struct {
	mu   sync.Mutex
	list map[int]func(*collection)
	next int
}

// add has read called at each collection, until stop is called.
func (o *observers) add(read func(*collection)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = make(map[int]func(*collection))
	}
	id := o.next
	o.next++
	o.list[id] = read
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.list, id)
	}
}

func (o *observers) all() []func(*collection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]func(*collection), 0, len(o.list))
	for _, read := range o.list {
		out = append(out, read)
	}
	return out
}
