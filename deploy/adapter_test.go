package deploy_test

import (
	"regexp"
	"strings"
	"testing"
	"text/template"
)

// An adapterConfig is the part of prometheus-adapter's configuration that the rules use; its own module would bring a whole
// API server.
type adapterConfig struct {
	Rules []adapterRule `json:"rules"`
}

type adapterRule struct {
	SeriesQuery string `json:"seriesQuery"`
	Resources   struct {
		Overrides map[string]struct {
			Resource string `json:"resource"`
		} `json:"overrides"`
	} `json:"resources"`
	Name struct {
		Matches string `json:"matches"`
		As      string `json:"as"`
	} `json:"name"`
	MetricsQuery string `json:"metricsQuery"`
}

var adapterFiles = map[string]string{
	"adapter-rule-counter.yaml": "sortie_inbound_requests_total",
	"adapter-rule-gauge.yaml":   "queries_per_second",
}

func loadAdapterRule(t *testing.T, name string) adapterRule {
	t.Helper()
	c := load[adapterConfig](t, name)
	if len(c.Rules) != 1 {
		t.Fatalf("%s has %d rules, want 1", name, len(c.Rules))
	}
	return c.Rules[0]
}

// query executes the rule's template as the adapter does for the pods of an autoscaler.
func (r adapterRule) query(t *testing.T, series string) string {
	t.Helper()
	parsed, err := template.New("").Delims("<<", ">>").Option("missingkey=error").Parse(r.MetricsQuery)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, struct{ Series, LabelMatchers, GroupBy string }{
		series, `namespace="shop",pod=~"page-1|page-2"`, "pod",
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAdapterRulesNameTheMetricOfTheAutoscaler also holds the names that the Prometheus exporter gives: a gauge with unit
// "1" would be queries_per_second_ratio, and with "{query}/s" queries_per_second_per_second.
func TestAdapterRulesNameTheMetricOfTheAutoscaler(t *testing.T) {
	wanted := loadAutoscaler(t).Spec.Metrics[0].Pods.Metric.Name
	for file, series := range adapterFiles {
		r := loadAdapterRule(t, file)
		if r.SeriesQuery != series+`{namespace!="",pod!=""}` {
			t.Errorf("%s: series %s", file, r.SeriesQuery)
		}
		if ok, err := regexp.MatchString(r.Name.Matches, series); !ok || err != nil || r.Name.As != wanted {
			t.Errorf("%s: name %+v (%v), the autoscaler asks for %s", file, r.Name, err, wanted)
		}
		for _, label := range []string{"namespace", "pod"} {
			if r.Resources.Overrides[label].Resource != label {
				t.Errorf("%s: label %s is mapped to %+v", file, label, r.Resources.Overrides[label])
			}
		}
	}
}

func TestAdapterRateOfTheCounterOnly(t *testing.T) {
	if q := loadAdapterRule(t, "adapter-rule-counter.yaml").MetricsQuery; !strings.Contains(q, "rate(") {
		t.Errorf("counter: %s", q)
	}
	if q := loadAdapterRule(t, "adapter-rule-gauge.yaml").MetricsQuery; strings.Contains(q, "rate(") || strings.Contains(q, "avg_over_time") {
		t.Errorf("gauge, smoothed twice: %s", q)
	}
}
