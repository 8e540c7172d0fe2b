package bench_test

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

// BenchmarkMetrics is what measurements cost, above the same stack without them: all of them, on their way into the
// OpenTelemetry SDK, over a wire that does nothing; then with spans of which one in a hundred is sampled. otelhttp has two
// instruments for a call, Sortie a dozen.
func BenchmarkMetrics(b *testing.B) {
	none, sampled := tracenoop.NewTracerProvider(), sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(0.01)))
	for _, bc := range []struct {
		name string
		c    doer
	}{
		{"sortie/off", standardOver(b, nil)},
		{"sortie/metrics", standardOver(b, metricsInto(b, none))},
		{"sortie/metrics+spans", standardOver(b, metricsInto(b, sampled))},
		{"bare/off", &http.Client{Transport: noop{}}},
		{"otelhttp/metrics", otelInto(none)},
		{"otelhttp/metrics+spans", otelInto(sampled)},
	} {
		b.Run("client="+bc.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				call(b, ctx, bc.c, "http://up.example/items/7")
			}
		})
	}
}

func standardOver(b *testing.B, m *metrics.Metrics) doer {
	return sortie(b, client.Config{Metrics: m, Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1:8080/base"}, Transport: noop{},
		Policy: client.Standard(),
	}}})
}

func meters() metric.MeterProvider {
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

func metricsInto(b *testing.B, spans trace.TracerProvider) *metrics.Metrics {
	b.Helper()
	m, err := metrics.New(metrics.Config{MeterProvider: meters(), TracerProvider: spans})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	return m
}

func otelInto(spans trace.TracerProvider) doer {
	return &http.Client{Transport: otelhttp.NewTransport(noop{}, otelhttp.WithMeterProvider(meters()), otelhttp.WithTracerProvider(spans))}
}
