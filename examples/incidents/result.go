package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A result is one client's part of a scenario: what -json prints.
type result struct {
	Scenario    string             `json:"scenario"`
	Client      string             `json:"client"` // "plain", "sortie", or a variant
	Calls       int                `json:"calls"`
	Failed      int                `json:"failed"`
	P50         float64            `json:"p50_ms"`
	P99         float64            `json:"p99_ms"`
	PerSecond   float64            `json:"per_s"`
	Connections int                `json:"connections"` // opened
	Extra       map[string]float64 `json:"extra"`
}

// writeTable prints a scenario's results for people.
func writeTable(w io.Writer, s scenario, results []result) {
	fmt.Fprintf(w, "%s: %s\n\n", s.name, s.title)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "client\tcalls\tfailed\tp50 ms\tp99 ms\tcalls/s\tconnections\t\n")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\t%.0f\t%d\t\n", r.Client, r.Calls, r.Failed, r.P50, r.P99, r.PerSecond, r.Connections)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, r := range results {
		if len(r.Extra) > 0 {
			fmt.Fprintf(w, "%s: %s\n", r.Client, extras(r.Extra))
		}
	}
	fmt.Fprintf(w, "%s\n\n", s.moral)
}

func extras(extra map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, extra[name]))
	}
	return strings.Join(parts, ", ")
}
