package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/metrics"
)

// telemetry is where the numbers go: Sortie measures through the API of OpenTelemetry, its SDK adds up, and the exporter shows
// that to Prometheus. For traces, give metrics.Config a TracerProvider of the SDK instead of one that makes no spans.
type telemetry struct {
	metrics  *metrics.Metrics
	handler  http.Handler // of /metrics
	provider *sdkmetric.MeterProvider
}

func newTelemetry() (*telemetry, error) {
	registry := prometheus.NewRegistry()
	// The labels of the scope would be the same on all series.
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
	}
	t.metrics, err = metrics.New(metrics.Config{MeterProvider: t.provider, TracerProvider: tracenoop.NewTracerProvider()})
	return t, err
}

// shutdown brings out what has been measured, and ends measuring.
func (t *telemetry) shutdown(ctx context.Context) error {
	return errors.Join(t.metrics.Close(), t.provider.Shutdown(ctx))
}
