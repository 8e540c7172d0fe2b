package metrics

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Endpoint records what happens at one endpoint of an upstream. It is for package client. A nil *Endpoint is off.
type Endpoint struct {
	u     *Upstream
	value value
	at    address
}

// Endpoint returns the recorder of the endpoint with this host and port, as they stand in the configuration: never an
// address that a name resolved to, and never a host that came with a request. For those, which no upstream lists, the host
// is "" and the port 0. Endpoints beyond 500 are "_OTHER".
func (u *Upstream) Endpoint(host string, port int) *Endpoint {
	if u == nil {
		return nil
	}
	e := &Endpoint{u: u, at: address{host, port}}
	if host != "" {
		e.value = u.m.endpoints.value(e.at)
		u.m.hosts.value(host)
	}
	return e
}

// AttemptStart is what is known of an attempt before its first byte: all that a sampler of traces sees.
type AttemptStart struct {
	Method   string
	Template string   // of the path, from client.WithTemplate; ""
	URL      *url.URL // as it is sent; secrets in it are not recorded
	Resend   int      // how many attempts of this call came before
	Hedge    bool     // beside another one
	Start    time.Time
}

// AttemptSpan is an attempt between [Endpoint.StartAttempt] and its end. The zero value is off. It must not be copied once
// End may run, and its methods may not be called at the same time.
type AttemptSpan struct {
	e      *Endpoint
	ctx    context.Context
	span   trace.Span
	method value
}

// Attempt is what is known of an attempt at its end.
type Attempt struct {
	// Duration is the time from Start, as given to StartAttempt, to the response's headers or to the failure. The span and
	// the histogram have the same.
	Start    time.Time
	Duration time.Duration

	Status int       // 0: no headers came
	Error  ErrorType // none, too, if the caller cancelled, and of a hedge that lost
	Proto  string    // "HTTP/1.1" or "HTTP/2.0"; "" without a connection

	Conn   uint64 // id of the connection; 0: none was had, or it is not known
	Reused bool   // it had carried a request before
	Waited bool   // for the dial of this connection
	Peer   netip.Addr
	Phases Phases

	Sent, Received int64 // bytes of the bodies; -1: not known
}

// StartAttempt begins an attempt with the context of its call. What is sent must carry the context returned.
func (e *Endpoint) StartAttempt(ctx context.Context, a AttemptStart) (context.Context, AttemptSpan) {
	if e == nil {
		return ctx, AttemptSpan{}
	}
	m := e.u.m
	s := AttemptSpan{e: e, method: m.methods.value(a.Method)}
	if m.tracing.on() {
		ctx, s.span = m.tracing.tracer.Start(ctx, m.spanName(s.method, a.Template), clientKind,
			trace.WithTimestamp(a.Start), trace.WithAttributes(e.startAttributes(s.method, &a)...))
	}
	s.ctx = ctx
	m.move(ctx, attemptsActive, 1, key{e.value, s.method})
	return ctx, s
}

// clientKind is made once: the option is a function, and a new one would be allocated.
var clientKind = trace.WithSpanKind(trace.SpanKindClient)

// spanName never holds a path, and no method that is not known.
func (m *Metrics) spanName(method value, template string) string {
	name := m.methods.name(method)
	if name == other {
		name = "HTTP"
	}
	if template != "" {
		name += " " + template
	}
	return name
}

func (e *Endpoint) startAttributes(method value, a *AttemptStart) []attribute.KeyValue {
	at := e.at
	if at.host == "" && a.URL != nil {
		at = addressOf(a.URL)
	}
	attrs := append(make([]attribute.KeyValue, 0, 8),
		semconv.HTTPRequestMethodKey.String(e.u.m.methods.name(method)),
		semconv.ServerAddress(at.host), semconv.ServerPort(at.port),
		semconv.URLFull(RedactURL(a.URL)))
	if a.Template != "" {
		attrs = append(attrs, semconv.URLTemplate(a.Template))
	}
	if a.Resend > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(a.Resend))
	}
	if a.Hedge {
		attrs = append(attrs, keyHedge.Bool(true))
	}
	return attrs
}

// addressOf is where a URL leads.
func addressOf(u *url.URL) address {
	port, err := strconv.Atoi(u.Port())
	switch {
	case err == nil:
	case u.Scheme == "http":
		port = 80
	default:
		port = 443
	}
	return address{u.Hostname(), port}
}

// Inject writes the attempt's trace context to the header that will be sent to an internal or an external endpoint, and
// returns that header. If the header is not owned, it is copied before the first write to it, and then is. Baggage goes to
// internal endpoints only. Call it before the request is signed.
func (s *AttemptSpan) Inject(internal bool, h http.Header, owned bool) (http.Header, bool) {
	if s.e == nil {
		return h, owned
	}
	return s.e.u.m.tracing.inject(s.ctx, internal, h, owned)
}

// End records the attempt. Call it when the outcome is known, which for an answer is the end of its body: a body that
// breaks is a failed attempt. The span still ends at the headers. Only the first call has an effect.
func (s *AttemptSpan) End(a *Attempt) {
	e := s.e
	if e == nil {
		return
	}
	s.e = nil
	m := e.u.m
	k := key{s.method, e.value, statusValue(a.Status), value(a.Error.known()), protocolValue(a.Proto)}
	m.took(s.ctx, attemptDuration, a.Duration, k)
	m.move(s.ctx, attemptsActive, -1, key{e.value, s.method})
	if a.Sent >= 0 {
		m.size(s.ctx, requestSize, a.Sent, k)
	}
	if a.Received >= 0 && a.Status != 0 {
		m.size(s.ctx, responseSize, a.Received, k)
	}
	if a.Conn != 0 {
		m.count(s.ctx, connectionAcquired, key{e.u.value, boolValue(a.Reused)})
	}
	if s.span != nil {
		s.endSpan(e, a)
	}
}

func (s *AttemptSpan) endSpan(e *Endpoint, a *Attempt) {
	if !s.span.IsRecording() {
		s.span.End()
		return
	}
	attrs := make([]attribute.KeyValue, 0, 16)
	if a.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(a.Status))
	}
	attrs = appendError(attrs, a.Error)
	if version, ok := byProtocol.word(protocolValue(a.Proto)); ok {
		attrs = append(attrs, semconv.NetworkProtocolVersion(version))
	}
	if a.Peer.IsValid() {
		attrs = append(attrs, semconv.NetworkPeerAddress(a.Peer.Unmap().String()))
	}
	if a.Conn != 0 {
		attrs = append(attrs, keyReused.Bool(a.Reused))
	}
	s.span.SetAttributes(a.Phases.attributes(attrs)...)
	if a.Error != NoError {
		s.span.SetStatus(codes.Error, a.Error.String())
	}
	if a.Waited {
		if c, ok := e.u.recent.of(a.Conn); ok {
			s.span.AddLink(trace.Link{SpanContext: c})
		}
	}
	s.span.End(trace.WithTimestamp(a.Start.Add(a.Duration)))
}
