package metrics

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tracing makes spans and writes their context to requests. It is off, and then costs nothing, while the provider is one
// that makes none: package noop's, or the placeholder that OpenTelemetry hands out until a global one is set.
type tracing struct {
	tracer      trace.Tracer // nil: the provider is package noop's
	placeholder trace.TracerProvider

	given        propagation.TextMapPropagator // nil: the global one
	unpropagated propagation.TextMapPropagator // the placeholder of the global one
	carriers     sync.Pool                     // of *carrier
}

func (t *tracing) init(cfg *Config, version string) {
	provider := cfg.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
		if isPlaceholder(provider) {
			t.placeholder = provider
		}
	}
	if !isOff(provider) {
		t.tracer = provider.Tracer(scopeName, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(semconv.SchemaURL))
	}
	t.given = cfg.Propagator
	if global := otel.GetTextMapPropagator(); t.given == nil && isPlaceholder(global) {
		t.unpropagated = global
	}
	t.carriers.New = func() any { return new(carrier) }
}

// isOff reports whether the provider is package noop's, whose spans are of no use.
func isOff(p trace.TracerProvider) bool {
	switch p.(type) {
	case noop.TracerProvider, *noop.TracerProvider:
		return true
	}
	return false
}

// isPlaceholder reports whether v is what OpenTelemetry's globals hand out before they are set. It is a pointer, so that
// it may be compared with whatever is global later. That it would pass spans on to an instrumentation that attaches from
// outside of the process is given up for a path without costs.
func isPlaceholder(v any) bool {
	t := reflect.TypeOf(v)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "go.opentelemetry.io/otel/internal/global"
}

// on reports whether somebody makes spans. Once a global provider is set, the placeholder's tracer passes on to it.
func (t *tracing) on() bool {
	return t.tracer != nil && (t.placeholder == nil || otel.GetTracerProvider() != t.placeholder)
}

// propagator returns who writes the trace context to requests, nil if nobody does.
func (t *tracing) propagator() propagation.TextMapPropagator {
	if t.given != nil {
		return t.given
	}
	if p := otel.GetTextMapPropagator(); t.unpropagated == nil || p != t.unpropagated {
		return p
	}
	return nil
}

// inject writes the trace context of ctx to a header, and returns the header. One that is not owned is copied before the
// first write; the second result says whether it is owned now. Baggage stays inside: it may hold what outsiders must not
// see.
func (t *tracing) inject(ctx context.Context, internal bool, h http.Header, owned bool) (http.Header, bool) {
	p := t.propagator()
	if p == nil {
		return h, owned
	}
	if !internal && baggage.FromContext(ctx).Len() > 0 {
		ctx = baggage.ContextWithoutBaggage(ctx)
	}
	c := t.carriers.Get().(*carrier)
	c.header, c.owned = h, owned
	p.Inject(ctx, c)
	h, owned = c.header, c.owned
	*c = carrier{}
	t.carriers.Put(c)
	return h, owned
}

// extract returns ctx with the trace context of an inbound request, unless ctx has one already.
func (t *tracing) extract(ctx context.Context, h http.Header) context.Context {
	p := t.propagator()
	if p == nil || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return p.Extract(ctx, propagation.HeaderCarrier(h))
}

// A carrier is a header that is copied before the first write to it.
type carrier struct {
	header http.Header
	owned  bool
}

func (c *carrier) Get(k string) string { return c.header.Get(k) }

func (c *carrier) Set(k, v string) {
	if !c.owned {
		c.owned = true
		if c.header = c.header.Clone(); c.header == nil {
			c.header = make(http.Header)
		}
	}
	c.header.Set(k, v)
}

func (c *carrier) Keys() []string { return propagation.HeaderCarrier(c.header).Keys() }
