package deploy_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of README.md from the model")

// A way is how arrivals reach the autoscaler.
type way struct {
	name   string
	window int // of the gauge, in seconds
	query  query
	summed bool
}

var (
	byCounter = way{name: "`adapter-rule-counter.yaml`: rate of the counter over 1 min", window: 30, query: rateOver(60)}
	byGauge   = way{name: "`adapter-rule-gauge.yaml`: gauge over 30 s, the default", window: 30, query: latestGauge}
	byKEDA    = way{name: "`scaledobject.yaml`: rate of the counter over 1 min, all pods", window: 30, query: rateOver(60), summed: true}

	byLongGauge = way{name: "gauge over 60 s", window: 60, query: latestGauge}
	byLongRate  = way{name: "rate of the counter over 2 min, as in the adapter's sample", window: 30, query: rateOver(120)}
)

// stepAt is when the load steps, and endOf when a run ends: everything has settled by then, each time.
const (
	stepAt = 900
	endOf  = 1800
)

// A step of the load, in arrivals a second of all pods.
type loadStep struct {
	name          string
	before, after float64
}

var (
	upInside = loadStep{"200 to 700 a second", 200, 700}
	upBeyond = loadStep{"200 to 1040 a second: 5 to 26 for each of 40 pods", 200, 1040}
	down     = loadStep{"700 to 200 a second", 700, 200}
)

// A spread is a time over all offsets that scrapes and looks can have.
type spread struct{ least, most, sum, n int }

func (s *spread) add(seconds int) {
	if s.n == 0 {
		s.least, s.most = seconds, seconds
	}
	s.least, s.most, s.sum, s.n = min(s.least, seconds), max(s.most, seconds), s.sum+seconds, s.n+1
}

func (s *spread) String() string {
	return fmt.Sprintf("%.0f (%d to %d)", math.Round(float64(s.sum)/float64(s.n)), s.least, s.most)
}

// metricTimes steps the load of one pod from 5 to 26 a second and returns how long the metric takes to a level.
func metricTimes(w way, interval int, level float64) *spread {
	times := &spread{}
	for offset := range interval {
		p := newPod(0, offset, w.window)
		for now := 0; ; now++ {
			p.scrape(now, interval)
			if v := w.query(p.samples, now); now >= stepAt && v.known && v.value >= level {
				times.add(now - stepAt)
				break
			}
			if now < stepAt {
				p.arrive(now, 5)
			} else {
				p.arrive(now, 26)
			}
		}
	}
	return times
}

// metricTable is how fast each way shows a step, before any autoscaler looks.
func metricTable(t *testing.T) string {
	interval := int(scrapeInterval(t).Seconds())
	acts := newScaler(t, byCounter).target * (1 + tolerance)
	var b strings.Builder
	fmt.Fprintf(&b, "| metric | shows more than %.1f after | shows 95 %% of 26 after |\n|---|---|---|\n", acts)
	for _, w := range []way{byGauge, byCounter, byLongGauge, byLongRate} {
		fmt.Fprintf(&b, "| %s | %v s | %v s |\n", w.name, metricTimes(w, interval, acts), metricTimes(w, interval, 0.95*26))
	}
	return b.String()
}

// A reaction is what a step of the load did.
type reaction struct {
	first, done spread // seconds until replicas change, and until enough pods serve or the spare ones are gone
	low, high   int    // replicas at the end
}

// react steps the load of a cluster, once for each offset of the autoscaler's looks.
func react(t *testing.T, w way, s loadStep) *reaction {
	t.Helper()
	r := &reaction{low: math.MaxInt}
	scaler, interval := newScaler(t, w), int(scrapeInterval(t).Seconds())
	for offset := range syncPeriod {
		c := &cluster{way: w, interval: interval, offset: offset, scaler: scaler, load: s.at}
		c.resize(0, scaler.low, 0)
		first, done := c.run(t, s)
		r.first.add(first)
		r.done.add(done)
		r.low, r.high = min(r.low, len(c.pods)), max(r.high, len(c.pods))
	}
	return r
}

func (s loadStep) at(now int) float64 {
	if now < stepAt {
		return s.before
	}
	return s.after
}

// run returns the seconds from the step to the first change of replicas, and to when there are as many as needed.
func (c *cluster) run(t *testing.T, s loadStep) (first, done int) {
	t.Helper()
	enough := c.scaler.enough(s.after)
	first, done = -1, -1
	quiet := 0 // since when nothing has changed
	for now := range endOf {
		replicas := len(c.pods)
		c.second(now)
		if len(c.pods) != replicas {
			quiet = now
		}
		if now == stepAt-1 && now-quiet < 100 {
			t.Fatalf("%s, %s: replicas changed %d s before the step", c.way.name, s.name, now-quiet)
		}
		if now < stepAt {
			continue
		}
		if first < 0 && quiet == now {
			first = now - stepAt
		}
		if up := s.after > s.before; done < 0 && (up && c.serving(now) >= enough || !up && len(c.pods) <= enough) {
			done = now - stepAt
		}
	}
	if first < 0 || done < 0 || endOf-quiet < 100 {
		t.Fatalf("%s, %s: first %d s, done %d s, last change %d s before the end", c.way.name, s.name, first, done, endOf-quiet)
	}
	return first, done
}

// enough is the fewest replicas with which the autoscaler leaves a load alone.
func (a *autoscaler) enough(load float64) int {
	return min(max(ceil(load/(a.target*(1+tolerance))), a.low), a.high)
}

// replicaTable is how replicas follow, from manifest to manifest.
func replicaTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| arrivals of all pods | by | replicas change after | enough pods serve, or the spare ones are gone, after | replicas then |\n")
	b.WriteString("|---|---|---|---|---|\n")
	for _, s := range []loadStep{upInside, upBeyond, down} {
		for _, w := range []way{byCounter, byGauge, byKEDA} {
			r := react(t, w, s)
			fmt.Fprintf(&b, "| %s | %s | %v s | %v s | %s |\n", s.name, w.name, &r.first, &r.done, span(r.low, r.high))
			r.judge(t, w, s)
		}
	}
	return b.String()
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// judge holds a reaction against what must be true whatever the tables of the README say.
func (r *reaction) judge(t *testing.T, w way, s loadStep) {
	t.Helper()
	scaler := newScaler(t, w)
	if r.low < scaler.enough(s.after) || r.high > scaler.high {
		t.Errorf("%s, %s: ends with %d to %d replicas", w.name, s.name, r.low, r.high)
	}
	if s.after > s.before && (r.first.most > 60 || r.done.most > 90) {
		t.Errorf("%s, %s: first replicas after %v s, enough of them after %v s", w.name, s.name, &r.first, &r.done)
	}
	// The last wish for the old number may be a look older than the step.
	if wait := window(scaler.behavior.ScaleDown) - syncPeriod; s.after < s.before && r.first.least < wait {
		t.Errorf("%s, %s: shrinks after %v s already", w.name, s.name, &r.first)
	}
}

// TestReplicasFollowTheLoad prints the tables with -v. README.md states these times; -update writes them there.
func TestReplicasFollowTheLoad(t *testing.T) {
	text := read(t, "README.md")
	for name, table := range map[string]string{"metric": metricTable(t), "replicas": replicaTable(t)} {
		t.Logf("\n%s", table)
		begin, end := "<!-- "+name+": go test -run ReplicasFollow -update -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(text, begin)
		stated, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("README.md has no place for the table %q", name)
		}
		if *update {
			text = before + begin + table + end + after
		} else if stated != table {
			t.Errorf("README.md states\n%s\nthe model gives\n%s", stated, table)
		}
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
