package metrics

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Config says where measurements and spans go. The zero value uses OpenTelemetry's globals, also those that are set after
// [New]: as long as there are none, nothing is recorded and hardly anything is spent.
type Config struct {
	// MeterProvider and TracerProvider make the instruments and the spans. Nil: the global ones. To have measurements
	// without spans, give a TracerProvider of package trace/noop.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Propagator writes the trace context to requests. Nil: the global one. What it writes for baggage goes to internal
	// endpoints only.
	Propagator propagation.TextMapPropagator

	// Window is over how many full seconds the gauge queries_per_second looks back: 10 s to 60 s, whole seconds. Zero: 30 s.
	Window time.Duration

	// MaxUpstreams bounds the values of sortie.upstream, up to 1,000; those that come later are "_OTHER". Zero: 50.
	MaxUpstreams int

	// Methods are HTTP methods that may stand in an attribute, beside those that everybody knows, such as "PROPFIND".
	Methods []string

	// OnScope, if not nil, gets each inbound request or job that has ended, with the calls made for it. It runs on the
	// goroutine that ended the scope, under no lock. Its price is the records, of some 260 bytes for each call; 16 are kept
	// without it.
	OnScope func(ScopeReport)

	// Development adds the instruments of the semantic conventions that may still change: active requests, open
	// connections and their duration, sizes of bodies, DNS lookups.
	Development bool

	// ConnectionSpans adds a span for each dial; attempts that waited for it carry a link to it.
	ConnectionSpans bool
}

const (
	defaultWindow    = 30 * time.Second
	minWindow        = 10 * time.Second
	maxWindow        = 60 * time.Second
	defaultUpstreams = 50
	maxUpstreams     = 1000
	maxMethods       = 50
	maxMethod        = 32
)

func (c *Config) validate() error {
	var all []error
	mistake := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf("metrics: Config."+format, args...))
		}
	}
	mistake(c.Window != 0 && (c.Window < minWindow || c.Window > maxWindow), "Window: %v is not from 10s to 60s", c.Window)
	mistake(c.Window%time.Second != 0, "Window: %v has a fraction of a second", c.Window)
	mistake(c.MaxUpstreams < 0 || c.MaxUpstreams > maxUpstreams, "MaxUpstreams: %d is not from 1 to %d", c.MaxUpstreams, maxUpstreams)
	mistake(len(c.Methods) > maxMethods, "Methods: %d are more than %d", len(c.Methods), maxMethods)
	for i, m := range c.Methods {
		mistake(m == "" || len(m) > maxMethod || !isToken(m), "Methods[%d]: %q is no method of at most %d letters", i, m, maxMethod)
	}
	mistake(c.ConnectionSpans && isOff(c.TracerProvider), "ConnectionSpans: without effect, TracerProvider makes no spans")
	return errors.Join(all...)
}

// isToken reports whether s consists of the characters that RFC 9110 allows in a method.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case c == '!' || '#' <= c && c <= '\'' || c == '*' || c == '+' || c == '-' || c == '.' || '^' <= c && c <= '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return true
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
