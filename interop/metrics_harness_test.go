package interop_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sortie-go/sortie/metrics"
)

// telemetry is Metrics over the OpenTelemetry SDK, with a reader and a recorder in memory.
type telemetry struct {
	*metrics.Metrics
	t        *testing.T
	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
	spans    *tracetest.SpanRecorder
}

// observed returns telemetry with everything on.
func observed(t *testing.T, cfg metrics.Config) *telemetry {
	t.Helper()
	tel := &telemetry{t: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tel.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(tel.reader))
	cfg.MeterProvider = tel.provider
	cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(tel.spans))
	cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	m, err := metrics.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tel.Metrics = m
	t.Cleanup(func() { m.Close() })
	return tel
}

// point is a series at one moment: a counter's or gauge's value, or a histogram's sum and count.
type point struct {
	value float64
	count uint64
	set   attribute.Set
	trace string // of an exemplar
}

// collect returns what the reader sees, by instrument.
func (tel *telemetry) collect() map[string][]point {
	tel.t.Helper()
	var rm metricdata.ResourceMetrics
	if err := tel.reader.Collect(context.Background(), &rm); err != nil {
		tel.t.Fatal(err)
	}
	out := make(map[string][]point)
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			out[m.Name] = points(m.Data)
		}
	}
	return out
}

func points(data metricdata.Aggregation) (out []point) {
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			out = append(out, point{value: float64(p.Value), set: p.Attributes})
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			out = append(out, point{value: p.Value, set: p.Attributes})
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			q := point{value: p.Sum, count: p.Count, set: p.Attributes}
			for _, e := range p.Exemplars {
				q.trace = fmt.Sprintf("%x", e.TraceID)
			}
			out = append(out, q)
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			out = append(out, point{value: float64(p.Sum), count: p.Count, set: p.Attributes})
		}
	default:
		panic(fmt.Sprintf("%T", data))
	}
	return out
}

// series spells a point's attributes as "a=1 b=x", sorted.
func (p point) series() string {
	var out []string
	for _, kv := range p.set.ToSlice() {
		out = append(out, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
	}
	return strings.Join(out, " ")
}

// values returns the values of an instrument by series: counts for histograms, values for the rest.
func (tel *telemetry) values(name string) map[string]float64 {
	tel.t.Helper()
	out := make(map[string]float64)
	for _, p := range tel.collect()[name] {
		out[p.series()] = p.value
		if p.count > 0 {
			out[p.series()] = float64(p.count)
		}
	}
	return out
}

// want compares the series of an instrument with those expected.
func (tel *telemetry) want(name string, want map[string]float64) {
	tel.t.Helper()
	if got := tel.values(name); !maps.Equal(got, want) {
		tel.t.Errorf("%s:\n got %v\nwant %v", name, got, want)
	}
}

// ended returns the spans that have ended, by their start.
func (tel *telemetry) ended() []sdktrace.ReadOnlySpan {
	spans := tel.spans.Ended()
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), cmp.Compare(a.SpanKind(), b.SpanKind()))
	})
	return spans
}

// attr returns an attribute of a span as text, "" if it is absent.
func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, kv := range s.Attributes() {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}
