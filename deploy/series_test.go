package deploy_test

import (
	"slices"
	"strings"
	"testing"
)

// A series is a line of testdata/series.golden: a name as the Prometheus exporter shows it, its type, and the keys that its
// labels can have, less those of the scope (otel_scope_*), which every series has. The list is of the instruments that are
// on by default.
type series struct {
	kind   string
	labels []string
}

// targetLabels are what Prometheus and its operator add to every series of a target.
var targetLabels = []string{"namespace", "pod", "job", "instance"}

func loadSeries(t *testing.T) map[string]series {
	t.Helper()
	out := map[string]series{}
	for line := range strings.Lines(read(t, "testdata/series.golden")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || len(fields) > 3 {
			t.Fatalf("testdata/series.golden: %q", line)
		}
		s := series{kind: fields[1]}
		if len(fields) == 3 {
			s.labels = strings.Split(fields[2], ",")
		}
		out[fields[0]] = s
	}
	return out
}

// has reports whether a label can stand on the series.
func (s series) has(label string) bool {
	return slices.Contains(s.labels, label) || slices.Contains(targetLabels, label)
}

// family returns the name of the instrument to which a series belongs: that of a histogram has three suffixes.
func family(name string, s series) string {
	if s.kind != "histogram" {
		return name
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base
		}
	}
	return name
}

func TestSeriesHaveTheNamesThatPrometheusExpects(t *testing.T) {
	all := loadSeries(t)
	if len(all) < 50 || all["queries_per_second"].kind != "gauge" {
		t.Fatalf("%d series, queries_per_second is %+v", len(all), all["queries_per_second"])
	}
	for name, s := range all {
		base := family(name, s)
		switch s.kind {
		case "counter":
			if !strings.HasSuffix(name, "_total") {
				t.Errorf("counter %s", name)
			}
		case "histogram":
			_, sum := all[base+"_sum"]
			_, count := all[base+"_count"]
			if bucket, ok := all[base+"_bucket"]; !ok || !sum || !count || !bucket.has("le") || base == name {
				t.Errorf("histogram %s is not whole", base)
			}
		case "gauge":
			if strings.HasSuffix(name, "_total") {
				t.Errorf("gauge %s", name)
			}
		default:
			t.Errorf("%s is a %s", name, s.kind)
		}
		if !slices.IsSorted(s.labels) {
			t.Errorf("labels of %s are not in order", name)
		}
	}
}
