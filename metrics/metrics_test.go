package metrics_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/metrics"
)

var update = flag.Bool("update", false, "rewrite INSTRUMENTS.md")

func newMetrics(t testing.TB, cfg metrics.Config) *metrics.Metrics {
	t.Helper()
	cfg.MeterProvider = noop.NewMeterProvider()
	m, err := metrics.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestNewTellsEveryMistakeAtOnce(t *testing.T) {
	_, err := metrics.New(metrics.Config{
		Window: 1500 * time.Millisecond, MaxUpstreams: 1001, Methods: []string{"PROPFIND", "", "a b", strings.Repeat("X", 33)},
		TracerProvider: tracenoop.NewTracerProvider(), ConnectionSpans: true,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Config.Window: 1.5s is not from 10s to 60s", "Config.Window: 1.5s has a fraction", "Config.MaxUpstreams: 1001",
		"Config.Methods[1]", "Config.Methods[2]", "Config.Methods[3]", "Config.ConnectionSpans: without effect",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "Methods[0]") {
		t.Error(err)
	}
}

// refusing is a provider whose instruments and callbacks fail, as those of an SDK do whose views contradict each other.
type refusing struct {
	noop.MeterProvider
	histograms error
	callbacks  []error // one after another
}

type refusingMeter struct {
	noop.Meter
	*refusing
}

func (r *refusing) Meter(string, ...metric.MeterOption) metric.Meter {
	return refusingMeter{refusing: r}
}

func (r refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, r.histograms
}

func (r refusingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	err := r.callbacks[0]
	r.callbacks = r.callbacks[1:]
	return noop.Registration{}, err
}

// Half a Metrics is of no use, and a caller that only logs the error must not go on with it.
func TestNewReturnsNilBesideAnError(t *testing.T) {
	wrong := errors.New("wrong")
	for name, provider := range map[string]*refusing{
		"instruments":     {histograms: wrong},
		"callback":        {callbacks: []error{wrong}},
		"second callback": {callbacks: []error{nil, wrong}},
	} {
		if m, err := metrics.New(metrics.Config{MeterProvider: provider}); m != nil || !errors.Is(err, wrong) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if m, err := metrics.New(metrics.Config{Window: 1}); m != nil || err == nil {
		t.Errorf("%v, %v", m, err)
	}
}

// Nothing but the package of their type tells OpenTelemetry's placeholders from providers that work. When that package is
// renamed, calls cost spans that nobody sees.
func TestPlaceholdersOfOpenTelemetryAreKnown(t *testing.T) {
	for _, v := range []any{otel.GetTracerProvider(), otel.GetTextMapPropagator()} { // no test here sets the globals
		if !metrics.IsPlaceholder(v) {
			t.Errorf("%T is not known: see isPlaceholder in tracing.go", v)
		}
	}
	for _, v := range []any{tracenoop.NewTracerProvider(), &tracenoop.TracerProvider{}, propagation.TraceContext{}, &propagation.Baggage{}} {
		if metrics.IsPlaceholder(v) {
			t.Errorf("%T is none", v)
		}
	}
}

// A nil *Metrics is off, and so is everything that comes from it.
func TestNilIsOff(t *testing.T) {
	var m *metrics.Metrics
	u := m.Upstream("catalog")
	e := u.Endpoint("catalog.example", 443)
	ctx, call := u.StartCall(t.Context(), "internal", time.Now())
	if ctx != t.Context() || call.Recorded() {
		t.Error("a call of nothing")
	}
	ctx, attempt := e.StartAttempt(ctx, metrics.AttemptStart{})
	if ctx != t.Context() {
		t.Error("another context")
	}
	given := http.Header{"A": {"b"}}
	if h, owned := attempt.Inject(true, given, false); len(h) != 1 || owned {
		t.Error(h, owned)
	}
	attempt.End(&metrics.Attempt{})
	call.End(&metrics.Call{})
	u.Retried(ctx, "", "")
	u.RetrySuppressed(ctx, "")
	u.Hedged(ctx, "")
	u.HedgeSuppressed(ctx, "")
	u.BreakerChanged("")
	u.BreakerRejected(ctx)
	u.LimitRejected(ctx, "")
	u.Observe(func(*metrics.Observation) { t.Error("observed") })()
	e.Dialed(metrics.Dial{})
	e.Closed(metrics.Closed{})
	m.Resolver().Looked(ctx, "")
	m.Resolver().Answered("")
	m.Resolver().Asked("", 0, 0)
	c := m.Credential("role")
	c.Fetched("", 0, 0)
	c.Received(0)
	c.Happened("")
	c.Observe(func() (time.Duration, bool) { t.Error("observed"); return 0, false })()
	f := m.Facade("page")
	f.Ended(ctx, 0, "")
	f.Part(ctx, "", "")
	ctx, scope := m.StartScope(ctx, "job")
	scope.End()
	if ctx != t.Context() || metrics.ScopeOf(ctx) != nil {
		t.Error("a scope of nothing")
	}
	next := http.NotFoundHandler()
	w := httptest.NewRecorder()
	m.Inbound(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
	if s := m.Stats(); s.Folded != nil || s.Known {
		t.Error(s)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// With OpenTelemetry's globals not set, or package noop's providers, nothing is allocated.
func TestNothingIsAllocatedWhileNobodyListens(t *testing.T) {
	global, err := metrics.New(metrics.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*metrics.Metrics{
		"off":    nil,
		"global": global,
		"noop":   newMetrics(t, metrics.Config{TracerProvider: tracenoop.NewTracerProvider()}),
	} {
		u := m.Upstream("catalog")
		e, ctx := u.Endpoint("catalog.example", 443), t.Context()
		header := http.Header{}
		n := testing.AllocsPerRun(100, func() {
			callCtx, call := u.StartCall(ctx, "internal", time.Time{})
			_, attempt := e.StartAttempt(callCtx, metrics.AttemptStart{Method: "GET"})
			attempt.Inject(true, header, false)
			attempt.End(&metrics.Attempt{Status: 200, Conn: 1})
			call.End(&metrics.Call{Attempts: 1})
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestErrorTypesAreAClosedSet(t *testing.T) {
	seen := make(map[string]bool)
	for e := range metrics.ErrorType(1000) {
		seen[e.String()] = true
	}
	if len(seen) != 1+18+200 || !seen[""] || !seen["timeout"] || !seen["_OTHER"] || !seen["400"] || !seen["599"] {
		t.Errorf("%d values", len(seen))
	}
	for status, want := range map[int]string{0: "", 200: "", 399: "", 404: "404", 599: "599", 600: "_OTHER", 70000: "_OTHER"} {
		if got := metrics.StatusError(status).String(); got != want {
			t.Errorf("%d: %q, want %q", status, got, want)
		}
	}
}

// INSTRUMENTS.md is the table that New creates the instruments from.
func TestDocumentShowsTheTable(t *testing.T) {
	const path, mark = "INSTRUMENTS.md", "<!-- made from table.go by go test ./metrics -update -->\n"
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(old), mark)
	if !found {
		t.Fatalf("%s has no line %q", path, mark)
	}
	text := head + mark + metrics.Document()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(old) {
		t.Errorf("%s is not what the table says: run with -update and read the diff", path)
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a user of the middleware may rely on of the ResponseWriter.
func TestInboundKeepsTheAbilitiesOfTheWriter(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	var got []string
	h := m.Inbound(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		got = nil
		if _, ok := w.(http.Flusher); ok {
			got = append(got, "flusher")
		}
		if _, ok := w.(http.Hijacker); ok {
			got = append(got, "hijacker")
		}
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if want := []string{"flusher", "hijacker"}; !slices.Equal(got, want) {
		t.Errorf("of a server: %v", got)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if !slices.Equal(got, []string{"flusher"}) {
		t.Errorf("of a recorder: %v", got)
	}
	h.ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
	if len(got) != 0 {
		t.Errorf("of a bare writer: %v", got)
	}
}

// gone is a writer whose client has gone.
type gone struct{ http.ResponseWriter }

var errGone = errors.New("the client has gone")

func (gone) Flush()                               {}
func (gone) FlushError() error                    { return errGone }
func (gone) WriteString(string) (int, error)      { return 0, errGone }
func (gone) ReadFrom(io.Reader) (int64, error)    { return 0, errGone }
func (gone) SetWriteDeadline(time.Time) error     { return errGone }
func (gone) Push(string, *http.PushOptions) error { return errGone }

// A handler that streams ends when it hears that nobody listens any more.
func TestInboundTellsTheHandlerThatItsClientHasGone(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	h := m.Inbound(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, written := io.WriteString(w, "x")
		_, copied := w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		for what, err := range map[string]error{
			"Flush":            http.NewResponseController(w).Flush(),
			"SetWriteDeadline": http.NewResponseController(w).SetWriteDeadline(time.Time{}),
			"WriteString":      written,
			"ReadFrom":         copied,
		} {
			if !errors.Is(err, errGone) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, ok := w.(http.Pusher); ok {
			t.Error("server push is offered")
		}
	}))
	h.ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
}

func TestStatusOfAnswers(t *testing.T) {
	var status int
	m := newMetrics(t, metrics.Config{OnScope: func(r metrics.ScopeReport) { status = r.Status }})
	for name, c := range map[string]struct {
		handler func(http.ResponseWriter)
		want    int
	}{
		"nothing written": {func(http.ResponseWriter) {}, 200},
		"only a body":     {func(w http.ResponseWriter) { w.Write([]byte("x")) }, 200},
		"hints before":    {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(404) }, 404},
		"twice":           {func(w http.ResponseWriter) { w.WriteHeader(404); w.WriteHeader(200) }, 404},
		"flushed":         {func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200},
		"controller":      {func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }, 200},
		"copied":          {func(w http.ResponseWriter) { io.Copy(w, struct{ io.Reader }{strings.NewReader("x")}) }, 200},
		"a string":        {func(w http.ResponseWriter) { io.WriteString(w, "x"); w.WriteHeader(500) }, 200},
	} {
		h := m.Inbound(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.handler(w) }))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
}

// A real connection that is taken over.
func TestHijackedConnection(t *testing.T) {
	done := make(chan metrics.ScopeReport, 1)
	m := newMetrics(t, metrics.Config{OnScope: func(r metrics.ScopeReport) { done <- r }})
	server := httptest.NewServer(m.Inbound(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		conn.Close()
	})))
	defer server.Close()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r := <-done; r.Status != http.StatusSwitchingProtocols {
		t.Error(r.Status)
	}
}

func TestAnInboundRequestAllocatesLittle(t *testing.T) {
	m := newMetrics(t, metrics.Config{TracerProvider: tracenoop.NewTracerProvider()})
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	bare, wrapped := http.Handler(mux), m.Inbound(mux)
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/items/7", nil)
	cost := func(h http.Handler) float64 { return testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }) }
	if n := cost(wrapped) - cost(bare); n > 4 {
		t.Errorf("%v allocations above those of the mux", n)
	}
}
