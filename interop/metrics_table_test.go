package interop_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sortie-go/sortie/metrics"
)

var update = flag.Bool("update", false, "rewrite the golden files of metrics in testdata")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; read the diff and run with -update:\n%s", name, text)
	}
}

// everything makes each instrument record something, with each attribute it can have.
func everything(ctx context.Context, m *metrics.Metrics) {
	u := m.Upstream("catalog")
	e := u.Endpoint("catalog.example", 443)
	ctx, call := u.StartCall(ctx, "internal", time.Now())
	_, attempt := e.StartAttempt(ctx, metrics.AttemptStart{Method: "GET", Start: time.Now()})
	a := answered(time.Now(), 503)
	a.Sent = 0
	attempt.End(a)
	c := metrics.Call{Method: "GET", Status: 503, Error: metrics.StatusError(503), Cache: "miss", Attempts: 1}
	c.Phases.Happened = 1<<metrics.NumPhases - 1
	call.End(&c)
	u.Retried(ctx, "status", "failed")
	u.RetrySuppressed(ctx, "budget")
	u.Hedged(ctx, "lost")
	u.HedgeSuppressed(ctx, "no_other_endpoint")
	u.BreakerChanged("open")
	u.BreakerRejected(ctx)
	u.LimitRejected(ctx, "full")
	e.Dialed(metrics.Dial{Setup: setup(ms, ms, ms), Error: metrics.ErrorTLS})
	e.Closed(metrics.Closed{Reason: "idle_limit", Age: time.Second, Requests: 3, Proto: "HTTP/2.0"})
	u.Observe(func(o *metrics.Observation) {
		o.Calls(1)
		o.RetryBudget(10)
		o.Endpoints("internal", "closed", 2)
		o.Limit(64, 0)
		o.Ports(0.25)
		o.Connections(e, 1, 2)
	})
	m.Resolver().Looked(ctx, "miss")
	m.Resolver().Answered("noerror")
	m.Resolver().Asked("catalog.example", ms, metrics.ErrorDNS)
	source := m.Credential("role")
	source.Fetched("cold", ms, metrics.ErrorCredential)
	source.Received(time.Hour)
	source.Happened("unchanged")
	source.Observe(func() (time.Duration, bool) { return time.Minute, true })
	page := m.Facade("page")
	page.Ended(ctx, ms, "complete")
	page.Part(ctx, "user", "ok")
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	m.Inbound(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/7", nil))
	for i := range 60 { // too many names
		m.Credential(fmt.Sprint("source", i)).Happened("unchanged")
	}
}

// The table of instruments as the SDK sees it: a change of a name, a unit, an attribute or a bucket breaks somebody's
// dashboard, and is to be read in review.
func TestInstrumentsAsExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := observed(t, metrics.Config{Development: true})
		everything(t.Context(), tel.Metrics)
		time.Sleep(2 * time.Second)
		var rm metricdata.ResourceMetrics
		if err := tel.reader.Collect(t.Context(), &rm); err != nil {
			t.Fatal(err)
		}
		scope := rm.ScopeMetrics[0].Scope
		if len(rm.ScopeMetrics) != 1 || scope.Name != "github.com/sortie-go/sortie/metrics" {
			t.Fatalf("scope %v", scope)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s\n", scope.Name, scope.SchemaURL)
		for _, m := range slices.SortedFunc(slices.Values(rm.ScopeMetrics[0].Metrics), func(a, b metricdata.Metrics) int {
			return strings.Compare(a.Name, b.Name)
		}) {
			kind, buckets := describe(m.Data)
			fmt.Fprintf(&b, "\n%s  %s  unit %q\n\t%s\n", m.Name, kind, m.Unit, m.Description)
			for _, series := range sorted(points(m.Data)) {
				fmt.Fprintf(&b, "\t{%s}\n", series)
			}
			if buckets != "" {
				fmt.Fprintf(&b, "\tbuckets %s\n", buckets)
			}
		}
		golden(t, "instruments.golden", b.String())
	})
}

// sorted lists the series, without those that are there to be too many.
func sorted(points []point) []string {
	var out []string
	for _, p := range points {
		if s := p.series(); !strings.Contains(s, "source=source") {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func describe(data metricdata.Aggregation) (kind, buckets string) {
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		if d.IsMonotonic {
			return "counter", ""
		}
		return "updown", ""
	case metricdata.Gauge[float64]:
		return "gauge", ""
	case metricdata.Histogram[float64]:
		return "histogram", fmt.Sprint(d.DataPoints[0].Bounds)
	case metricdata.Histogram[int64]:
		return "histogram", fmt.Sprint(d.DataPoints[0].Bounds)
	}
	return fmt.Sprintf("%T", data), ""
}

// scraped is what a Prometheus server gets from a process that has used every instrument.
func scraped(t *testing.T) (*prometheus.Registry, string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg))
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(metrics.Config{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)), Development: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	everything(t.Context(), m)
	time.Sleep(2 * time.Second)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return reg, w.Body.String()
}

// A gauge queries_per_second with unit "1" would be called queries_per_second_ratio by the exporter, and one with unit
// "{query}/s" queries_per_second_per_second: the autoscaler would find nothing.
func TestPrometheusNameOfTheGauge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, text := scraped(t)
		for _, name := range []string{"queries_per_second", "sortie_inbound_requests_total"} {
			found := false
			for line := range strings.Lines(text) {
				found = found || strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ")
			}
			if !found {
				t.Errorf("no series %s", name)
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "queries_per_second_") {
				t.Error(line)
			}
		}
	})
}

// What queries, rules and dashboards may use: series and labels as a Prometheus server knows them.
func TestSeriesAsScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, _ := scraped(t)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range families {
			labels := make(map[string]bool)
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = true
				}
			}
			fmt.Fprintf(&b, "%s %s {%s}\n", f.GetName(), strings.ToLower(f.GetType().String()),
				strings.Join(slices.Sorted(maps.Keys(labels)), ","))
		}
		golden(t, "series.golden", b.String())
	})
}
