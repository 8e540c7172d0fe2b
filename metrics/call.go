package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// CallSpan is a call between [Upstream.StartCall] and its end. The zero value is off. It must not be copied once End may
// run, and its methods may not be called at the same time.
type CallSpan struct {
	u     *Upstream
	ctx   context.Context
	span  trace.Span
	scope *Scope
	slot  int16 // in the scope
	side  value
}

// Call is what is known of a call at its end.
type Call struct {
	Method   string    // as in the request
	Template string    // of the path, from client.WithTemplate; ""
	Error    ErrorType // none, too, if the caller cancelled
	Status   int       // of the response; 0 if there was none
	Cache    string    // hit, miss, stale, revalidated, bypass, coalesced; "" without a cache
	Start    time.Time // as given to StartCall
	Duration time.Duration
	Attempts int
	Phases   Phases

	// What follows goes to the scope only, see [CallSpan.Recorded].
	KeyHash  uint64
	TimeLeft time.Duration // until its deadline; 0 if it had none
	Records  []AttemptRecord
}

// StartCall begins a call of a side, internal or external, which its caller made at start. The context carries the call's
// span; the attempts must be started from it.
func (u *Upstream) StartCall(ctx context.Context, side string, start time.Time) (context.Context, CallSpan) {
	if u == nil {
		return ctx, CallSpan{}
	}
	s := CallSpan{u: u, side: bySide.valueOf(side), scope: ScopeOf(ctx)}
	if s.scope != nil {
		s.slot = s.scope.begin(u.name, start)
	}
	if u.m.tracing.on() {
		opts := u.options[s.side]
		opts[1] = trace.WithTimestamp(start)
		ctx, s.span = u.m.tracing.tracer.Start(ctx, u.span, opts[:]...)
	}
	s.ctx = ctx
	return ctx, s
}

// Recorded reports whether somebody will look at Call.Records: it need not be filled in otherwise.
func (s *CallSpan) Recorded() bool { return s.scope != nil && s.scope.keeps() }

// End records the call. Only the first call has an effect.
func (s *CallSpan) End(c *Call) {
	u := s.u
	if u == nil {
		return
	}
	s.u = nil
	m, failed := u.m, value(c.Error.known())
	m.took(s.ctx, callDuration, c.Duration,
		key{u.value, s.side, m.methods.value(c.Method), failed, byCacheStatus.valueOf(c.Cache)})
	if c.Attempts > 0 {
		m.size(s.ctx, callAttempts, int64(c.Attempts), key{u.value, failed})
	}
	for p := range NumPhases {
		if d, happened := c.Phases.Get(p); happened {
			m.took(s.ctx, phaseDuration, d, key{u.value, value(p) + 1})
		}
	}
	if s.span != nil {
		s.endSpan(c)
	}
	if s.scope != nil {
		s.scope.end(s.slot, c)
	}
}

func (s *CallSpan) endSpan(c *Call) {
	if !s.span.IsRecording() {
		s.span.End()
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 8), keyAttempts.Int(c.Attempts))
	if c.Cache != "" {
		attrs = append(attrs, keyCache.String(c.Cache))
	}
	attrs = appendError(attrs, c.Error)
	s.span.SetAttributes(c.Phases.attributes(attrs)...)
	if c.Error != NoError {
		s.span.SetStatus(codes.Error, c.Error.String())
	}
	s.span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}

func appendError(attrs []attribute.KeyValue, e ErrorType) []attribute.KeyValue {
	if e == NoError {
		return attrs
	}
	return append(attrs, semconv.ErrorTypeKey.String(e.String()))
}
