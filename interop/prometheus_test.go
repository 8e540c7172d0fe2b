package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/sortie-go/sortie/metrics"
)

// pages is how many the service of this test is asked for.
const pages = 60

// A real Prometheus scrapes the running examples/service, and a second target that has every series there is; then it is asked
// what the autoscalers and the dashboard ask.
func TestPrometheusAnswersTheAutoscalersAndTheDashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several scrapes of a real Prometheus")
	}
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (apt-get install prometheus)")
	}
	service := startService(t)
	p := startPrometheus(t, path, service.metrics, everythingTarget(t))

	for i := range pages {
		if i == pages/2 {
			p.scraped(`sortie_inbound_requests_total{pod="page-1"} > 0`) // a rate needs two samples that differ
		}
		resp, err := http.Get(fmt.Sprintf("%s/page/%d", service.pages, i))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	p.scraped(fmt.Sprintf(`sortie_inbound_requests_total{pod="page-1"} == %d`, pages))
	p.scraped(`queries_per_second{pod="page-1"} > 0`)

	t.Run("adapter and KEDA", func(t *testing.T) { p.asAutoscaler(t) })
	t.Run("dashboard", func(t *testing.T) { p.asDashboard(t) })
}

// asAutoscaler asks what prometheus-adapter and KEDA ask, and knows the right answers: the half of the pages that came between
// two scrapes, over a minute, where Prometheus reckons with up to a scrape more on either side; and all of them, over the life
// of the service.
func (p *prometheusServer) asAutoscaler(t *testing.T) {
	fill := strings.NewReplacer("<<.LabelMatchers>>", `namespace="shop",pod=~"page-1"`, "<<.GroupBy>>", "pod")
	counter := fill.Replace(adapterQuery(t, "adapter-rule-counter.yaml", "sortie_inbound_requests_total"))
	gauge := fill.Replace(adapterQuery(t, "adapter-rule-gauge.yaml", "queries_per_second"))
	keda := kedaQuery(t)
	const least, most = pages / 2 * 0.5 / 60, pages / 2 * 3 / 60.0
	for _, query := range []string{counter, keda} {
		if got := p.one(t, query); got < least || got > most {
			t.Errorf("%s is %v, and %d pages have come in less than a minute", query, got, pages)
		}
	}
	if got := p.one(t, gauge); got <= 0 || got > pages {
		t.Errorf("%s is %v", gauge, got)
	}
	// What the gauge says is what was counted, spread over the seconds that it knows of.
	if got, want := p.one(t, gauge), p.one(t, `queries_per_second{pod="page-1"}`); math.Abs(got-want) > 0.5*want {
		t.Errorf("the adapter sees %v, the pod says %v", got, want)
	}
}

// asDashboard asks what the panels ask: every one has something to show.
func (p *prometheusServer) asDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(deployFile(t, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$namespace", "shop", "$job", "page", "$upstream", ".+")
	asked := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked++
			if len(p.ask(t, fill.Replace(target.Expr))) == 0 {
				t.Errorf("%q shows nothing: %s", panel.Title, target.Expr)
			}
		}
	}
	if asked < 40 {
		t.Errorf("only %d queries were found", asked)
	}
	// Of what the service does, the values are known: five calls for each page, all of them over HTTP/1.1.
	for query, want := range map[string]float64{
		`sum(sortie_inbound_calls_sum{pod="page-1"})`:                              5 * pages,
		`sum(sortie_call_duration_seconds_count{pod="page-1"})`:                    5 * pages,
		`sum(sortie_endpoints{pod="page-1"})`:                                      6,
		`sum(http_server_request_duration_seconds_count{pod="page-1"})`:            pages,
		`sum(sortie_facade_duration_seconds_count{pod="page-1"})`:                  pages,
		`sum(sortie_call_active{pod="page-1"})`:                                    0,
		`count(sortie_limit_slots{pod="page-1",sortie_upstream="catalog"} == 256)`: 1,
		`sum(sortie_facade_parts_total{pod="page-1",sortie_part_name="item"})`:     pages,
	} {
		if got := p.one(t, query); got != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
}

// serviceProcess is examples/service, running.
type serviceProcess struct{ pages, metrics string }

// startService builds and runs the service, whose upstreams do not fail here.
func startService(t *testing.T) serviceProcess {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "service")
	build := exec.Command("go", "build", "-o", binary, "./service")
	build.Dir = filepath.Join("..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building examples/service: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-addr", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-delay", "0s", "-trouble=false")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string { // such as "pages    http://127.0.0.1:8080/page/7"
		lines.Scan()
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			t.Fatalf("the service said %q", lines.Text())
		}
		return words[1]
	}
	s := serviceProcess{strings.TrimSuffix(next(), "/page/7"), next()}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	return s
}

// everythingTarget serves every series that package metrics has, and moves them a little with each scrape.
func everythingTarget(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(metrics.Config{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		TracerProvider: tracenoop.NewTracerProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		everything(r.Context(), m)
		m.Facade("page").Part(r.Context(), "news", "fallback")
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		m.Close()
	})
	return server.URL + "/metrics"
}

// prometheusServer is a real one, as a child of the test.
type prometheusServer struct {
	t   *testing.T
	url string
}

// startPrometheus has two targets scraped each second, with the labels that Kubernetes would give them.
func startPrometheus(t *testing.T, path, service, everything string) *prometheusServer {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs:
  - job_name: page
    static_configs:
      - {targets: [%q], labels: {namespace: shop, pod: page-1}}
      - {targets: [%q], labels: {namespace: shop, pod: everything}}
`, hostOf(t, service), hostOf(t, everything))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := freeAddr(t)
	var log bytes.Buffer
	cmd := exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address="+listen)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("prometheus is installed and does not start: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	p := &prometheusServer{t, "http://" + listen}
	p.scraped("up == 1")
	return p
}

// scraped waits until a query has an answer. Prometheus scrapes by its own clock, so it is asked until it has.
func (p *prometheusServer) scraped(query string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for again := time.NewTicker(100 * time.Millisecond); ; {
		if values, err := p.query(ctx, query); err == nil && len(values) > 0 {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			p.t.Fatalf("within a minute there was no answer to %s", query)
		}
	}
}

func (p *prometheusServer) ask(t *testing.T, query string) []float64 {
	t.Helper()
	values, err := p.query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return values
}

func (p *prometheusServer) one(t *testing.T, query string) float64 {
	t.Helper()
	values := p.ask(t, query)
	if len(values) != 1 {
		t.Errorf("%s has %d answers", query, len(values))
		return math.NaN()
	}
	return values[0]
}

// query returns the values that the server answers now.
func (p *prometheusServer) query(ctx context.Context, query string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("prometheus says: %s", answer.Error)
	}
	var values []float64
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// adapterQuery is the query of an adapter rule, for its series.
func adapterQuery(t *testing.T, file, series string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^    metricsQuery: (.*)$`).FindSubmatch(deployFile(t, file))
	if m == nil {
		t.Fatalf("%s has no metricsQuery", file)
	}
	return strings.ReplaceAll(string(m[1]), "<<.Series>>", series)
}

func kedaQuery(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ +query: (.*)$`).FindSubmatch(deployFile(t, "scaledobject.yaml"))
	if m == nil {
		t.Fatal("scaledobject.yaml has no query")
	}
	return string(m[1])
}

func hostOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// freeAddr is an address of loopback that nobody listens on just now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The list of series that deploy holds its queries against is what a default Config exports: names, types and labels.
func TestTheManifestsKnowTheSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
		if err != nil {
			t.Fatal(err)
		}
		m, err := metrics.New(metrics.Config{
			MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)), TracerProvider: tracenoop.NewTracerProvider(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		everything(t.Context(), m)
		time.Sleep(2 * time.Second) // in the bubble: the gauge is known then
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, f := range families {
			lines = append(lines, seriesOf(f)...)
		}
		slices.Sort(lines)
		// Nothing brings a cache status before there is a cache, so no query may count on it.
		got := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "sortie_cache_status,", "")
		if want := string(deployFile(t, filepath.Join("testdata", "series.golden"))); got != want {
			t.Errorf("deploy/testdata/series.golden is not what is exported:\n%s", got)
		}
	})
}

// seriesOf spells the series of a family as "name type labels".
func seriesOf(f *dto.MetricFamily) (lines []string) {
	labels := make(map[string]bool)
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = true
		}
	}
	line := func(suffix string, more ...string) {
		names := slices.Sorted(slices.Values(slices.AppendSeq(more, maps.Keys(labels))))
		kind := strings.ToLower(f.GetType().String())
		lines = append(lines, strings.TrimSpace(f.GetName()+suffix+" "+kind+" "+strings.Join(names, ",")))
	}
	if f.GetType() != dto.MetricType_HISTOGRAM {
		line("")
		return lines
	}
	line("_bucket", "le")
	line("_count")
	line("_sum")
	return lines
}
