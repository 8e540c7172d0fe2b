package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/metrics"
)

const ms = time.Millisecond

// between makes records of calls from and to these milliseconds.
func between(times ...time.Duration) (out []metrics.CallRecord) {
	for i := 0; i < len(times); i += 2 {
		out = append(out, metrics.CallRecord{Start: times[i] * ms, End: times[i+1] * ms})
	}
	return out
}

func TestArithmeticOfScopes(t *testing.T) {
	for name, c := range map[string]struct {
		calls   []metrics.CallRecord
		waiting time.Duration
		chain   []int
	}{
		"no call":           {nil, 0, nil},
		"one":               {between(10, 40), 30, []int{0}},
		"one after another": {between(0, 10, 10, 30, 50, 60), 40, []int{0, 1, 2}},
		"side by side":      {between(0, 100, 0, 100, 0, 100), 100, []int{0}},
		"one inside":        {between(0, 100, 20, 30, 40, 50), 100, []int{1, 2}},
		// The chain that the rule for serial calls is explained with: the second, third and fourth.
		"as in the documentation of SRT008": {between(0, 200, 100, 150, 160, 300, 310, 400), 390, []int{1, 2, 3}},
		"of no length":                      {between(5, 5, 5, 5), 0, []int{0, 1}},
	} {
		r := metrics.ScopeReport{Duration: 500 * ms, Records: c.calls}
		r.Derive()
		if r.Waiting != c.waiting*ms || r.Own != 500*ms-r.Waiting || !slices.Equal(r.Chain, c.chain) {
			t.Errorf("%s: waiting %v, own %v, chain %v", name, r.Waiting, r.Own, r.Chain)
		}
	}
}

// A request with two calls side by side, one after them, and one that outlives it.
func TestWaterfallOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rep metrics.ScopeReport
		m := newMetrics(t, metrics.Config{OnScope: func(r metrics.ScopeReport) { rep = r }})
		catalog, prices := m.Upstream("catalog"), m.Upstream("prices")
		var late metrics.CallSpan
		h := m.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * ms)
			start := time.Now()
			_, a := catalog.StartCall(r.Context(), "internal", start)
			_, b := prices.StartCall(r.Context(), "internal", start)
			time.Sleep(20 * ms)
			if !a.Recorded() {
				t.Error("nobody wants the attempts")
			}
			a.End(&metrics.Call{Method: "GET", Template: "/items/{id}", Status: 200, Duration: 20 * ms, Attempts: 1,
				Records: []metrics.AttemptRecord{{Kind: "first", Start: ms, End: 20 * ms, Status: 200}}})
			time.Sleep(10 * ms)
			b.End(&metrics.Call{Method: "GET", Error: metrics.ErrorTimeout, Duration: 30 * ms})
			time.Sleep(5 * ms)
			_, c := catalog.StartCall(r.Context(), "internal", time.Now())
			time.Sleep(10 * ms)
			c.End(&metrics.Call{Method: "GET", Status: 200, Duration: 10 * ms})
			_, late = prices.StartCall(r.Context(), "internal", time.Now())
			time.Sleep(10 * ms)
		}))
		mux := http.NewServeMux()
		mux.Handle("GET /page/{id}", h)
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/page/7", nil))
		late.End(&metrics.Call{Duration: time.Hour})

		if rep.Name != "/page/{id}" || rep.Status != 200 || rep.Duration != 60*ms || rep.Calls != 4 || rep.Late != 1 {
			t.Errorf("%+v", rep)
		}
		if rep.Waiting != 40*ms || rep.Own != 20*ms || fmt.Sprint(rep.Chain) != "[0 2]" {
			t.Errorf("waiting %v, own %v, chain %v", rep.Waiting, rep.Own, rep.Chain)
		}
		first, last := rep.Records[0], rep.Records[3]
		if first.Upstream != "catalog" || first.Template != "/items/{id}" || first.Start != 5*ms || first.End != 25*ms {
			t.Errorf("%+v", first)
		}
		if a := first.Attempts[0]; a.Start != 6*ms || a.End != 25*ms {
			t.Errorf("attempt from %v to %v", a.Start, a.End)
		}
		if !last.Late || last.Start != 50*ms || last.End != 60*ms {
			t.Errorf("%+v", last)
		}
	})
}

func TestScopesKeep128Calls(t *testing.T) {
	var rep metrics.ScopeReport
	m := newMetrics(t, metrics.Config{OnScope: func(r metrics.ScopeReport) { rep = r }})
	ctx, scope := m.StartScope(t.Context(), "nightly")
	u := m.Upstream("catalog")
	for range 200 {
		_, call := u.StartCall(ctx, "internal", time.Now())
		call.End(&metrics.Call{})
		call.End(&metrics.Call{}) // of no effect
	}
	scope.End()
	scope.End()
	if rep.Name != "nightly" || rep.Calls != 200 || len(rep.Records) != 128 || rep.Late != 0 {
		t.Errorf("%s: %d calls, %d records, %d late", rep.Name, rep.Calls, len(rep.Records), rep.Late)
	}
}

// runJob runs a job that makes n calls.
func runJob(ctx context.Context, m *metrics.Metrics, u *metrics.Upstream, n int) {
	ctx, scope := m.StartScope(ctx, "nightly")
	for range n {
		_, call := u.StartCall(ctx, "internal", time.Time{})
		call.End(&metrics.Call{})
	}
	scope.End()
}

// Without Config.OnScope a scope keeps when its calls began and ended, and no more.
func TestAScopeWithoutAListenerIsSmall(t *testing.T) {
	m := newMetrics(t, metrics.Config{TracerProvider: tracenoop.NewTracerProvider()})
	u, ctx := m.Upstream("catalog"), t.Context()
	for calls, most := range map[int]uint64{0: 256, 5: 512, 50: 4 << 10, 500: 6 << 10} {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			runJob(ctx, m, u, calls)
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > most {
			t.Errorf("%d calls: %d bytes, at most %d are allowed", calls, n, most)
		}
	}
}

// What a scope costs beside its calls, without and with a listener.
func BenchmarkScope(b *testing.B) {
	for _, c := range []struct {
		name     string
		listener func(metrics.ScopeReport)
	}{{"alone", nil}, {"listener", func(metrics.ScopeReport) {}}} {
		m := newMetrics(b, metrics.Config{TracerProvider: tracenoop.NewTracerProvider(), OnScope: c.listener})
		u := m.Upstream("catalog")
		for _, calls := range []int{5, 50} {
			b.Run(fmt.Sprintf("%s/calls=%d", c.name, calls), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					runJob(b.Context(), m, u, calls)
				}
			})
		}
	}
}
