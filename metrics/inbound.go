package metrics

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Inbound wraps the handler of a service. For each request it
//
//   - counts the arrival, before next is called: the gauge queries_per_second and the counter sortie.inbound.requests say
//     what a pod is asked to do, not what it gets done, so that one that hangs does not look idle;
//   - opens a scope, to which the calls made with the request's context belong;
//   - takes over the trace context that came with the request, unless there is a span already;
//   - records duration and status when next has returned. A panic counts as status 500 and goes on.
//
// Wrap the application's mux, and mount probes, /metrics and the debug page outside of it: they are no work, and a list of
// probes' user agents could be lied to. The route is Request.Pattern as a [http.ServeMux] below sets it; a middleware in
// between that copies the request hides it.
//
// Of what the ResponseWriter can do beside writing, http.Flusher (with FlushError), http.Hijacker, io.ReaderFrom and
// io.StringWriter are kept, and http.ResponseController finds the rest. http.Pusher is not: clients have given up server
// push.
//
// If m is nil, it returns next.
func (m *Metrics) Inbound(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	m.arrived.begin()
	return &inbound{m, next}
}

type inbound struct {
	m    *Metrics
	next http.Handler
}

func (h *inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, now := h.m, time.Now()
	ctx := m.tracing.extract(r.Context(), r.Header)
	m.arrived.add(now)
	v := visit{m: m, method: m.methods.value(r.Method), scheme: schemeOf(r), out: answer{ResponseWriter: w}}
	v.scope.m, v.scope.start = m, now
	ctx = context.WithValue(ctx, scopeKey{}, &v.scope)
	m.move(ctx, serverActive, 1, key{v.method, v.scheme})
	r = r.WithContext(ctx)
	defer v.end(ctx, r)
	h.next.ServeHTTP(v.out.as(), r)
	v.returned = true
}

// A visit is one inbound request on its way.
type visit struct {
	m              *Metrics
	scope          Scope
	out            answer
	method, scheme value
	returned       bool // and did not panic
}

func (v *visit) end(ctx context.Context, r *http.Request) {
	m, now := v.m, time.Now()
	status, failed := v.out.status, NoError
	switch {
	case !v.returned:
		status, failed = http.StatusInternalServerError, ErrorPanic
	case status == 0:
		status = http.StatusOK
	case status >= 500:
		failed = StatusError(status)
	}
	v.scope.name = routeOf(r)
	m.took(ctx, serverDuration, now.Sub(v.scope.start), key{
		v.method, v.scheme, m.routes.value(v.scope.name), statusValue(status), value(failed), protocolValue(r.Proto),
	})
	m.move(ctx, serverActive, -1, key{v.method, v.scheme})
	v.scope.finish(ctx, now, status)
}

func schemeOf(r *http.Request) value {
	if r.TLS != nil {
		return byScheme.valueOf("https")
	}
	return byScheme.valueOf("http")
}

// routeOf is the path of the pattern that matched, without method and host.
func routeOf(r *http.Request) string {
	if i := strings.IndexByte(r.Pattern, '/'); i >= 0 {
		return r.Pattern[i:]
	}
	return ""
}

// answer is a ResponseWriter that remembers its status.
type answer struct {
	http.ResponseWriter
	status int
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.status = or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// WriteString spares the copy of a string, where the server does.
func (a *answer) WriteString(s string) (int, error) {
	a.status = or(a.status, http.StatusOK)
	return io.WriteString(a.ResponseWriter, s)
}

// ReadFrom keeps the way open by which the server sends files without copying them.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.status = or(a.status, http.StatusOK)
	return io.Copy(a.ResponseWriter, r)
}

// as returns the answer with the abilities of what it wraps. Handlers ask for them by type, and act on what they find.
func (a *answer) as() http.ResponseWriter {
	_, flushes := a.ResponseWriter.(http.Flusher)
	_, hijacks := a.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return flushHijacker{flusher{a}, hijacker{a}, a}
	case flushes:
		return flushAnswer{flusher{a}, a}
	case hijacks:
		return hijackAnswer{hijacker{a}, a}
	}
	return a
}

type (
	flushAnswer struct {
		flusher
		*answer
	}
	hijackAnswer struct {
		hijacker
		*answer
	}
	flushHijacker struct {
		flusher
		hijacker
		*answer
	}
)

type flusher struct{ a *answer }

func (f flusher) Flush() { _ = f.FlushError() }

// FlushError is what http.ResponseController asks for: by it a handler that streams learns that its client has gone.
func (f flusher) FlushError() error {
	f.a.status = or(f.a.status, http.StatusOK)
	return http.NewResponseController(f.a.ResponseWriter).Flush()
}

type hijacker struct{ a *answer }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.a.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.a.status = or(h.a.status, http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
