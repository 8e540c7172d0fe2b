package metrics

import (
	"fmt"
	"strings"
)

// Document is the table of instruments as INSTRUMENTS.md has it.
func Document() string {
	var b strings.Builder
	for id := range numInstruments {
		row := table[id]
		fmt.Fprintf(&b, "\n### %s\n\n%s ", row.name, row.text)
		fmt.Fprintf(&b, "%s, unit `%s`", strings.ToUpper(kindNames[row.kind][:1])+kindNames[row.kind][1:], row.unit)
		if row.development {
			b.WriteString("; only with `Config.Development`")
		}
		b.WriteString(".\n")
		if len(row.by) > 0 {
			b.WriteString("\n")
		}
		for _, d := range row.by {
			fmt.Fprintf(&b, "- %s\n", d.document())
		}
		if len(row.buckets) > 0 {
			fmt.Fprintf(&b, "\nBuckets:%s\n", numbers(row.buckets))
		}
	}
	return b.String()
}

func (d dimension) document() string {
	dim := dimensions[d]
	text := "`" + string(dim.key) + "`"
	if d == byEndpoint {
		text += ", `server.port`"
	}
	switch {
	case len(dim.values) > 0:
		text += ": " + strings.Join(dim.values, ", ")
	default:
		text += ": " + dim.bound
	}
	if dim.optional {
		text += "; absent if there is none"
	}
	return text
}

func numbers(list []float64) string {
	var b strings.Builder
	for _, n := range list {
		fmt.Fprintf(&b, " %v", n)
	}
	return b.String()
}

// Derive gives tests the arithmetic of scopes.
func (r *ScopeReport) Derive() {
	var spans []interval
	for _, c := range r.Records {
		spans = append(spans, interval{c.Start, c.End})
	}
	r.Waiting = union(spans)
	r.derive()
}

// IsPlaceholder gives tests the question that keeps tracing off until a global provider is set.
func IsPlaceholder(v any) bool { return isPlaceholder(v) }
