package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// running is a service that serves, and how it ends.
type running struct {
	t              *testing.T
	pages, metrics string
	stop           context.CancelFunc
	lines          *bufio.Reader // what it says
	end            chan error
}

// start runs the service on free ports of loopback.
func start(t *testing.T, delay time.Duration) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	r := &running{t: t, stop: stop, lines: bufio.NewReader(out), end: make(chan error, 1)}
	go func() {
		r.end <- run(ctx, config{addr: "127.0.0.1:0", metricsAddr: "127.0.0.1:0", delay: delay, drain: 10 * time.Second, out: in})
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		io.Copy(io.Discard, out)
	})
	r.pages = strings.TrimSuffix(strings.Fields(r.line())[1], "/page/7")
	r.metrics = strings.Fields(r.line())[1]
	return r
}

// line returns the next thing that the service says.
func (r *running) line() string {
	r.t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		r.t.Fatalf("the service has ended: %v", <-r.end)
	}
	return line
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestAPageIsFiveCalls(t *testing.T) {
	r := start(t, 0)
	status, body := fetch(t, r.pages+"/page/7")
	var p page
	if err := json.Unmarshal([]byte(body), &p); status != 200 || err != nil {
		t.Fatal(status, err, body)
	}
	if p.Item.Name != "lamp" || p.Price.Cents != 1999 || p.Stock.Pieces != 3 || len(p.Reviews) != 2 || len(p.Advice) != 2 {
		t.Errorf("page %+v", p)
	}
	if _, text := fetch(t, r.metrics); !strings.Contains(text, `sortie_inbound_calls_sum{http_route="/page/{id}"} 5`) {
		t.Errorf("no inbound request with five calls in:\n%s", text)
	}
}

// The names and labels that the autoscaler, its adapter and the dashboard ask for.
func TestTheMetricsOfAPage(t *testing.T) {
	r := start(t, 0)
	fetch(t, r.pages+"/ready") // no arrival
	for range 5 {
		fetch(t, r.pages+"/page/7")
	}
	text := r.scrapeWith("\n" + scaledBy(t) + " ")
	if !strings.Contains(text, "\nsortie_inbound_requests_total 5\n") {
		t.Error("the counter of arrivals is not 5")
	}
	got := masked(text)
	const golden = "testdata/metrics.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the exposition has changed; look at it, then run with -update:\n%s", diff(string(want), got))
	}
}

// scrapeWith returns the first scrape that has the text in it.
func (r *running) scrapeWith(series string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if _, text := fetch(r.t, r.metrics); strings.Contains(text, series) {
			return text
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			r.t.Fatalf("within a minute no scrape had %q", series)
		}
	}
}

// scaledBy returns the metric of pods by which the manifests scale a service like this one, and checks that the adapter's rule
// makes it from the series of the same name.
func scaledBy(t *testing.T) string {
	t.Helper()
	name := find(t, "hpa.yaml", `(?m)^ *metric:\n *name: (\S+)$`)
	if from := find(t, "adapter-rule-gauge.yaml", `(?m)seriesQuery: (\w+)\{`); from != name {
		t.Errorf("hpa.yaml scales by %s, and the adapter reads %s", name, from)
	}
	return name
}

// find returns what a pattern with one group finds in a manifest.
func find(t *testing.T, manifest, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + manifest)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s: %q is found %d times", manifest, pattern, len(found))
	}
	return string(found[0][1])
}

var (
	values  = regexp.MustCompile(` [-+.e\d]+$`)
	ports   = regexp.MustCompile(`server_port="\d+"`)
	buckets = regexp.MustCompile(`_bucket\{`)
)

// masked keeps what is the same each time: values are left out, ports are 0, buckets are a matter of package metrics, and a
// remainder of time is there or not.
func masked(text string) string {
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, `phase="other"`) || buckets.MatchString(line) {
			continue
		}
		if !strings.HasPrefix(line, "#") {
			line = ports.ReplaceAllString(values.ReplaceAllString(line, ""), `server_port="0"`)
		}
		if !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// diff names the lines that only one text has.
func diff(want, got string) string {
	var b strings.Builder
	only := func(sign, these, those string) {
		for line := range strings.Lines(these) {
			if !strings.Contains(those, line) {
				b.WriteString(sign + line)
			}
		}
	}
	only("- ", want, got)
	only("+ ", got, want)
	return b.String()
}

// Every request that is accepted is answered, also those that come between the signal and the end.
func TestNoRequestIsLostAtTheEnd(t *testing.T) {
	r := start(t, 200*time.Millisecond)
	answered := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			resp, err := http.Get(r.pages + "/page/7")
			if err != nil {
				break // the port is closed
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || err != nil {
				t.Errorf("page %d: %d %s, %v", n, resp.StatusCode, body, err)
			}
		}
		answered <- n
	}()
	fetch(t, r.pages+"/page/7")
	r.stop()
	r.line() // "not ready any more"
	if status, _ := fetch(t, r.pages+"/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("ready says %d while the service stops", status)
	}
	io.Copy(io.Discard, r.lines)
	if err := <-r.end; err != nil {
		t.Error(err)
	}
	if n := <-answered; n == 0 {
		t.Error("no page was answered")
	}
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	r := start(t, 0)
	taken := strings.TrimPrefix(r.pages, "http://")
	err := run(t.Context(), config{addr: taken, metricsAddr: "127.0.0.1:0", out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "listening on -addr "+taken) {
		t.Error(err)
	}
}
