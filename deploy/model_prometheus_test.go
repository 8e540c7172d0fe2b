package deploy_test

import "slices"

// An answer is what a query gives for one pod: nothing, where Prometheus has too little.
type answer struct {
	value float64
	known bool
}

// A query is how a metric is read from the samples of a pod.
type query func(samples []sample, now int) answer

// lookback is how old the newest sample of an instant query may be, by Prometheus' default.
const lookback = 300

// latestGauge is the gauge's own name as a query.
func latestGauge(samples []sample, now int) answer {
	for _, s := range slices.Backward(samples) {
		if s.gaugeIsKnown {
			return answer{s.gauge, now-s.at < lookback}
		}
	}
	return answer{}
}

// rateOver is rate(counter[window]) as Prometheus computes it: from the first to the last sample inside the window,
// extended to its edges where samples are missing by little more than their distance, never below a counter of zero.
func rateOver(window int) query {
	return func(samples []sample, now int) answer {
		for len(samples) > 0 && samples[0].at <= now-window {
			samples = samples[1:]
		}
		if len(samples) < 2 {
			return answer{}
		}
		first, last := samples[0], samples[len(samples)-1]
		grown := last.counter - first.counter
		covered := float64(last.at - first.at)
		between := covered / float64(len(samples)-1)

		before := edge(float64(first.at-(now-window)), between)
		if grown > 0 {
			before = min(before, covered*first.counter/grown)
		}
		after := edge(float64(now-last.at), between)
		return answer{grown * (covered + before + after) / covered / float64(window), true}
	}
}

// edge returns by how much a range is extended beyond its first or last sample.
func edge(gap, between float64) float64 {
	if gap >= 1.1*between {
		return between / 2
	}
	return gap
}
