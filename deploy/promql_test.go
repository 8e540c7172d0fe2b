package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// A judge holds queries against the series that exist and the interval of the scrapes.
type judge struct {
	known    map[string]series
	interval time.Duration
}

func newJudge(t *testing.T) judge {
	t.Helper()
	return judge{loadSeries(t), scrapeInterval(t)}
}

// grafana stands for what the dashboard's own words become.
var grafana = strings.NewReplacer(
	"$__rate_interval", "1m", // four scrapes, by Grafana's rule
	"$namespace", "shop", "$job", "page", "$upstream", "catalog|search",
)

// check returns the names that a query uses, and what is wrong with it.
func (j judge) check(query string) (names, wrong []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, []string{err.Error()}
	}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			names = append(names, n.Name)
			wrong = append(wrong, j.checkSelector(n, path)...)
		case *parser.AggregateExpr:
			wrong = append(wrong, j.checkLabels("sum by", n.Grouping, n)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				wrong = append(wrong, j.checkLabels("on", n.VectorMatching.MatchingLabels, n)...)
			}
		case *parser.Call:
			wrong = append(wrong, j.checkCall(n)...)
		}
		return nil
	})
	return names, wrong
}

// checkSelector: the series exists, has the labels that are asked for, and is read as its type wants.
func (j judge) checkSelector(v *parser.VectorSelector, path []parser.Node) (wrong []string) {
	s, ok := j.known[v.Name]
	if !ok {
		return []string{"no series " + v.Name}
	}
	for _, m := range v.LabelMatchers {
		if m.Name != "__name__" && !s.has(m.Name) {
			wrong = append(wrong, fmt.Sprintf("%s has no label %s", v.Name, m.Name))
		}
	}
	var matrix *parser.MatrixSelector
	if len(path) > 0 {
		matrix, _ = path[len(path)-1].(*parser.MatrixSelector)
	}
	ranged := matrix != nil
	switch {
	case ranged && s.kind == "gauge":
		wrong = append(wrong, "a range of the gauge "+v.Name+": it is smoothed already")
	case ranged && matrix.Range < 4*j.interval:
		wrong = append(wrong, fmt.Sprintf("%s over %v: less than four scrapes", v.Name, matrix.Range))
	case !ranged && s.kind != "gauge":
		wrong = append(wrong, v.Name+" only ever grows: take its rate")
	}
	return wrong
}

// checkLabels: every series below a grouping can have the labels of it.
func (j judge) checkLabels(what string, grouping []string, below parser.Node) (wrong []string) {
	parser.Inspect(below, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			for _, label := range grouping {
				if !j.known[v.Name].has(label) {
					wrong = append(wrong, fmt.Sprintf("%s %s: %s has no such label", what, label, v.Name))
				}
			}
		}
		return nil
	})
	return wrong
}

// checkCall: a quantile needs buckets, and keeps their bounds.
func (j judge) checkCall(c *parser.Call) []string {
	if c.Func.Name != "histogram_quantile" {
		return nil
	}
	sum, ok := c.Args[1].(*parser.AggregateExpr)
	if !ok || sum.Op != parser.SUM || sum.Without || !slices.Contains(sum.Grouping, "le") {
		return []string{"histogram_quantile over something else than sum by (le, …)"}
	}
	return nil
}

func TestBadQueriesAreFound(t *testing.T) {
	j := newJudge(t)
	for query, want := range map[string]string{
		"sum(rate(sortie_inbound_requests_total[1m])":                        "unclosed",
		"rate(sortie_inbound_requests[1m])":                                  "no series",
		"rate(sortie_inbound_requests_total[30s])":                           "four scrapes",
		"sortie_inbound_requests_total":                                      "take its rate",
		"rate(queries_per_second[1m])":                                       "smoothed",
		`queries_per_second{sortie_upstream="catalog"}`:                      "no label",
		"sum by (http_route) (queries_per_second)":                           "no such label",
		"histogram_quantile(0.9, rate(sortie_inbound_calls_bucket[1m]))":     "sum by (le",
		"queries_per_second / on (sortie_upstream) sortie_limit_slots":       "no such label",
		"histogram_quantile(0.9, sum(rate(sortie_inbound_calls_sum[1m])))":   "sum by (le",
		"sum by (le) (rate(sortie_inbound_calls_count[1m]))":                 "no such label",
		"sum(rate(sortie_call_duration_seconds_count{error_typ!=\"\"}[1m]))": "no label",
	} {
		_, wrong := j.check(query)
		if !strings.Contains(strings.Join(wrong, "; "), want) {
			t.Errorf("%s: found %q, want %q", query, wrong, want)
		}
	}
}

func TestQueriesOfTheAutoscalers(t *testing.T) {
	j := newJudge(t)
	queries := map[string]string{}
	for file, name := range adapterFiles {
		r := loadAdapterRule(t, file)
		queries[file] = r.query(t, name)
		_, err := parser.NewParser(parser.Options{}).ParseMetricSelector(r.SeriesQuery)
		if err != nil {
			t.Errorf("%s: %s: %v", file, r.SeriesQuery, err)
		}
	}
	queries["scaledobject.yaml"] = loadScaledObject(t).Spec.Triggers[0].Metadata["query"]
	for _, file := range slices.Sorted(maps.Keys(queries)) {
		if _, wrong := j.check(queries[file]); len(wrong) > 0 {
			t.Errorf("%s: %s: %v", file, queries[file], wrong)
		}
	}
}
