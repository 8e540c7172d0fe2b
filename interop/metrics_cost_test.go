package interop_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/metrics"
)

// measured returns Metrics over the SDK's measurements, and no spans.
func measured(tb testing.TB) *metrics.Metrics {
	tb.Helper()
	m, err := metrics.New(metrics.Config{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		TracerProvider: tracenoop.NewTracerProvider(),
		Propagator:     propagation.TraceContext{},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close() })
	return m
}

// oneCall is what package client does for a call of one attempt over a connection in use.
func oneCall(ctx context.Context, u *metrics.Upstream, e *metrics.Endpoint) {
	start := time.Now()
	callCtx, call := u.StartCall(ctx, "internal", start)
	_, attempt := e.StartAttempt(callCtx, metrics.AttemptStart{Method: "GET", Start: start})
	_, _ = attempt.Inject(true, nil, false)
	attempt.End(&metrics.Attempt{Duration: ms, Status: 200, Proto: "HTTP/1.1", Conn: 7, Reused: true})
	c := metrics.Call{Method: "GET", Status: 200, Duration: ms, Attempts: 1}
	for _, p := range [...]metrics.Phase{
		metrics.PhaseAcquire, metrics.PhaseWrite, metrics.PhaseServer, metrics.PhaseBody, metrics.PhaseCaller, metrics.PhaseOther,
	} {
		c.Phases.Happened |= 1 << p
		c.Phases.Time[p] = ms
	}
	call.End(&c)
}

// No measurement allocates once its attributes have been seen.
func TestMeasurementsDoNotAllocate(t *testing.T) {
	m := measured(t)
	u := m.Upstream("catalog")
	e, ctx := u.Endpoint("catalog.example", 443), t.Context()
	source, dns, page := m.Credential("role"), m.Resolver(), m.Facade("page")
	for name, measure := range map[string]func(){
		"a call":              func() { oneCall(ctx, u, e) },
		"Retried":             func() { u.Retried(ctx, "reset", "ok") },
		"RetrySuppressed":     func() { u.RetrySuppressed(ctx, "budget") },
		"Hedged":              func() { u.Hedged(ctx, "won") },
		"HedgeSuppressed":     func() { u.HedgeSuppressed(ctx, "limit") },
		"BreakerChanged":      func() { u.BreakerChanged("open") },
		"BreakerRejected":     func() { u.BreakerRejected(ctx) },
		"LimitRejected":       func() { u.LimitRejected(ctx, "full") },
		"Dialed":              func() { e.Dialed(metrics.Dial{Conn: 1, Setup: setup(ms, ms, ms)}) },
		"Closed":              func() { e.Closed(metrics.Closed{Reason: "age", Requests: 9}) },
		"Looked":              func() { dns.Looked(ctx, "miss") },
		"Answered":            func() { dns.Answered("nxdomain") },
		"Credential.Fetched":  func() { source.Fetched("ahead", ms, metrics.NoError) },
		"Credential.Happened": func() { source.Happened("unchanged") },
		"Facade.Part":         func() { page.Part(ctx, "user", "ok") },
		"an unknown word":     func() { u.Retried(ctx, "no such reason", "") },
	} {
		measure()
		if n := testing.AllocsPerRun(200, measure); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	b.Run("off", func(b *testing.B) { benchmarkCall(b, nil) })
	b.Run("metrics", func(b *testing.B) { benchmarkCall(b, measured(b)) })
	for name, sampler := range map[string]sdktrace.Sampler{"unsampled": sdktrace.NeverSample(), "sampled": sdktrace.AlwaysSample()} {
		b.Run("metrics+"+name, func(b *testing.B) {
			m, err := metrics.New(metrics.Config{
				MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
				TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)),
				Propagator:     propagation.TraceContext{},
			})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkCall(b, m)
		})
	}
}

func benchmarkCall(b *testing.B, m *metrics.Metrics) {
	u := m.Upstream("catalog")
	e, ctx := u.Endpoint("catalog.example", 443), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		oneCall(ctx, u, e)
	}
}

// BenchmarkSDKAlone is the floor of BenchmarkCall: the same number of measurements with attributes prepared, and nothing of
// ours.
func BenchmarkSDKAlone(b *testing.B) {
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("bench")
	call, err := meter.Float64Histogram("call")
	if err != nil {
		b.Fatal(err)
	}
	phase, err := meter.Float64Histogram("phase")
	if err != nil {
		b.Fatal(err)
	}
	five := []metric.RecordOption{metric.WithAttributes(attribute.String("a", "1"), attribute.String("b", "2"),
		attribute.String("c", "3"), attribute.String("d", "4"), attribute.Int("e", 5))}
	two := []metric.RecordOption{metric.WithAttributes(attribute.String("a", "1"), attribute.String("b", "2"))}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		for range 2 {
			call.Record(ctx, 0.001, five...)
		}
		for range 8 {
			phase.Record(ctx, 0.001, two...)
		}
	}
}
