package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sortie-go/sortie/metrics"
)

// kubernetes#105187: unknown is not zero. An autoscaler that reads 0 from a pod that has just started scales down.
func TestRateIsAbsentWhileUnknown_kubernetes105187(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{})
		if got := tel.values("queries_per_second"); len(got) != 0 {
			t.Errorf("without inbound requests: %v", got)
		}
		h := tel.Inbound(http.NotFoundHandler())
		for range 5 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		time.Sleep(999 * ms)
		if got := tel.values("queries_per_second"); len(got) != 0 {
			t.Errorf("in the first second: %v", got)
		}
		time.Sleep(ms)
		tel.want("queries_per_second", map[string]float64{"": 5})
		time.Sleep(time.Second)
		tel.want("queries_per_second", map[string]float64{"": 2.5})
		tel.want("sortie.inbound.requests", map[string]float64{"": 5})

		if h := (*metrics.Metrics)(nil).Inbound(http.NotFoundHandler()); h == nil {
			t.Error("with metrics off there is no handler")
		}
	})
}

// The counter is there, at zero, before the first request: a rate needs a point to start from.
func TestCounterOfArrivalsStartsAtZero(t *testing.T) {
	tel := observed(t, metrics.Config{})
	tel.Inbound(http.NotFoundHandler())
	if got, ok := tel.values("sortie.inbound.requests")[""]; got != 0 || !ok {
		t.Error(tel.values("sortie.inbound.requests"))
	}
}

// A program may set OpenTelemetry's globals after it has wrapped its handlers, and a counter outlasts Close.
func TestArrivalsBeforeAndAfterTheProvider(t *testing.T) {
	inItsOwnProcess(t, func() {
		m, err := metrics.New(metrics.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Inbound(http.NotFoundHandler())
		tel := &telemetry{t: t, reader: sdkmetric.NewManualReader()}
		otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(tel.reader)))
		tel.want("sortie.inbound.requests", map[string]float64{"": 0})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		tel.want("sortie.inbound.requests", map[string]float64{"": 1})

		if err := m.Close(); err != nil {
			t.Error(err)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		tel.want("sortie.inbound.requests", map[string]float64{"": 2})
		if got := tel.values("queries_per_second"); len(got) != 0 {
			t.Errorf("after Close: %v", got)
		}
	})
}

// inItsOwnProcess runs a part of a test that changes what all tests of a process share.
func inItsOwnProcess(t *testing.T, run func()) {
	t.Helper()
	if os.Getenv("INTEROP_OWN_PROCESS") == t.Name() {
		run()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "INTEROP_OWN_PROCESS="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Two Metrics over one provider add up, as other counters do.
func TestArrivalsOfTwoMetricsAddUp(t *testing.T) {
	tel := observed(t, metrics.Config{})
	second, err := metrics.New(metrics.Config{MeterProvider: tel.provider})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, m := range []*metrics.Metrics{tel.Metrics, second, second} {
		m.Inbound(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	tel.want("sortie.inbound.requests", map[string]float64{"": 3})
}

// Waiting time does not depend on whether somebody listens to scopes.
func TestWaitingTimeWithAndWithoutAListener(t *testing.T) {
	for name, listener := range map[string]func(metrics.ScopeReport){"alone": nil, "listener": func(metrics.ScopeReport) {}} {
		synctest.Test(t, func(t *testing.T) {
			tel := observed(t, metrics.Config{OnScope: listener})
			u := tel.Upstream("catalog")
			ctx, scope := tel.StartScope(t.Context(), "nightly")
			_, late := u.StartCall(ctx, "internal", time.Now())
			time.Sleep(10 * ms)
			_, long := u.StartCall(ctx, "internal", time.Now())
			time.Sleep(10 * ms)
			_, short := u.StartCall(ctx, "internal", time.Now())
			time.Sleep(10 * ms)
			short.End(&metrics.Call{Duration: 10 * ms})
			time.Sleep(20 * ms)
			long.End(&metrics.Call{Duration: 40 * ms})
			time.Sleep(50 * ms)
			scope.End()
			late.End(&metrics.Call{Duration: 100 * ms})
			p := tel.collect()["sortie.inbound.waiting.duration"]
			if len(p) != 1 || p[0].value != 0.04 || p[0].series() != "http.route=nightly" {
				t.Errorf("%s: %+v, want 40 ms", name, p)
			}
			if p := tel.collect()["sortie.inbound.calls"]; len(p) != 1 || p[0].value != 3 {
				t.Errorf("%s: %+v, want 3 calls", name, p)
			}
		})
	}
}

// An average that moves only with traffic sticks at its last value, and pins the autoscaler at the maximum.
func TestGaugeDecaysWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{Window: 30 * time.Second})
		hang := make(chan struct{}) // every request hangs: arrivals count, not completions
		h := tel.Inbound(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
		for range 60 {
			for range 26 {
				go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
			time.Sleep(time.Second)
		}
		for s := range 40 {
			tel.want("queries_per_second", map[string]float64{"": 26 * float64(max(30-s, 0)) / 30})
			time.Sleep(time.Second)
		}
		close(hang)
		synctest.Wait()
	})
}

func TestInboundRequestsAreMeasuredByRoute(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("catalog")
	mux := http.NewServeMux()
	mux.HandleFunc("GET shop.example/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, call := u.StartCall(r.Context(), "internal", time.Now())
			call.End(&metrics.Call{Method: "GET"})
		}
		w.WriteHeader(http.StatusTeapot)
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	h := tel.Inbound(mux)
	for _, target := range []string{"http://shop.example/items/7", "http://shop.example/items/8", "/bad", "/panic", "/none"} {
		func() {
			defer func() {
				if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // identity
					t.Errorf("another panic: %v", v)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", target, nil))
		}()
	}
	const get = "http.request.method=GET "
	tel.want("http.server.request.duration", map[string]float64{
		get + "http.response.status_code=418 http.route=/items/{id} network.protocol.version=1.1 url.scheme=http":                  2,
		"error.type=502 " + get + "http.response.status_code=502 http.route=/bad network.protocol.version=1.1 url.scheme=http":     1,
		"error.type=panic " + get + "http.response.status_code=500 http.route=/panic network.protocol.version=1.1 url.scheme=http": 1,
		get + "http.response.status_code=404 network.protocol.version=1.1 url.scheme=http":                                         1,
	})
	tel.want("sortie.inbound.requests", map[string]float64{"": 5})
	for _, p := range tel.collect()["sortie.inbound.calls"] {
		if p.series() == "http.route=/items/{id}" && (p.count != 2 || p.value != 6) {
			t.Errorf("%d requests with %v calls", p.count, p.value)
		}
	}
}

// What has no route has no attribute either; "_OTHER" are the routes for which there was no room.
func TestOnlyRoutesBeyondTheBoundAreOther(t *testing.T) {
	tel := observed(t, metrics.Config{})
	const routes = 200
	for i := range routes + 2 {
		_, scope := tel.StartScope(t.Context(), fmt.Sprint("job", i))
		scope.End()
	}
	_, scope := tel.StartScope(t.Context(), "")
	scope.End()
	got := tel.values("sortie.inbound.calls")
	if len(got) != routes+2 || got["http.route=job199"] != 1 || got["http.route=_OTHER"] != 2 || got[""] != 1 {
		t.Errorf("%d series, %v of _OTHER, %v without a route", len(got), got["http.route=_OTHER"], got[""])
	}
	tel.want("sortie.metrics.folded", map[string]float64{
		"sortie.instrument=sortie.inbound.calls": 2, "sortie.instrument=sortie.inbound.waiting.duration": 2,
	})
}

// Trace context goes to both sides, baggage to the internal one only, and the caller's header is not written to.
func TestBaggageStaysInside(t *testing.T) {
	tel := observed(t, metrics.Config{})
	member, err := baggage.NewMember("user", "7")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx := baggage.ContextWithBaggage(t.Context(), bag)
	e := tel.Upstream("catalog").Endpoint("catalog.example", 443)
	for _, internal := range []bool{true, false} {
		_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{Method: "GET", URL: parse(t, "https://catalog.example/"), Start: time.Now()})
		callers := http.Header{"Accept": {"*/*"}}
		h, owned := attempt.Inject(internal, callers, false)
		if len(callers) != 1 || !owned {
			t.Errorf("the caller's header: %v, owned %v", callers, owned)
		}
		attempt.End(answered(time.Now(), 200))
		id := tel.ended()[len(tel.ended())-1].SpanContext().SpanID().String()
		if got := h.Get("Traceparent"); len(got) != 55 || got[36:52] != id {
			t.Errorf("traceparent %q, span %s", got, id)
		}
		if got := h.Get("Baggage"); (got == "user=7") != internal {
			t.Errorf("internal %v: baggage %q", internal, got)
		}
	}
}

// Without a middleware for traces in front, calls still belong to the trace of the request.
func TestInboundTakesOverTheTrace(t *testing.T) {
	tel := observed(t, metrics.Config{})
	u := tel.Upstream("catalog")
	h := tel.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, call := u.StartCall(r.Context(), "internal", time.Now())
		call.End(&metrics.Call{Method: "GET"})
	}))
	req := httptest.NewRequest("GET", "/", nil)
	const id = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-01")
	h.ServeHTTP(httptest.NewRecorder(), req)
	if s := tel.ended()[0]; s.SpanContext().TraceID().String() != id || !s.Parent().IsRemote() {
		t.Error(s.SpanContext().TraceID(), s.Parent())
	}

	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	req = req.WithContext(trace.ContextWithSpanContext(req.Context(), own))
	h.ServeHTTP(httptest.NewRecorder(), req)
	if s := tel.spans.Ended()[1]; s.SpanContext().TraceID() != own.TraceID() {
		t.Error("the trace of the header was taken, not that of the context")
	}
}
