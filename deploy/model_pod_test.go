package deploy_test

// The model counts seconds from the start of a run. In each second, what is due happens in this order: pods become ready,
// Prometheus scrapes, the autoscaler looks, requests arrive.

// A gauge is queries_per_second as metrics.Inbound has it: arrivals by the second in a ring, read as the mean of the full
// seconds of the window, or of the process's life if that is shorter. It follows the clock, also when nothing arrives.
type gauge struct {
	window int // seconds
	born   int
	ring   [64]bucket
}

type bucket struct {
	second   int
	arrivals float64
}

func (g *gauge) add(now int, arrivals float64) {
	b := &g.ring[now%len(g.ring)]
	if b.second != now {
		*b = bucket{second: now}
	}
	b.arrivals += arrivals
}

// read returns the rate at the beginning of a second. It is unknown, which is not zero, in the first one.
func (g *gauge) read(now int) (rate float64, known bool) {
	seconds := min(g.window, now-g.born)
	if seconds <= 0 {
		return 0, false
	}
	for s := now - seconds; s < now; s++ {
		if b := g.ring[s%len(g.ring)]; b.second == s {
			rate += b.arrivals
		}
	}
	return rate / float64(seconds), true
}

// A sample is what a scrape saw of a pod.
type sample struct {
	at           int
	counter      float64
	gauge        float64
	gaugeIsKnown bool
}

// A pod serves from its second ready on, and is scraped at its own offset within the interval, as Prometheus does.
type pod struct {
	ready, offset int
	gauge         gauge
	counter       float64
	samples       []sample // oldest first, a few minutes of them
}

func newPod(ready, offset, window int) *pod {
	return &pod{ready: ready, offset: offset, gauge: gauge{window: window, born: ready}}
}

func (p *pod) serves(now int) bool { return now >= p.ready }

func (p *pod) arrive(now int, arrivals float64) {
	p.gauge.add(now, arrivals)
	p.counter += arrivals
}

const keptSamples = 32

// scrape takes a sample if one is due.
func (p *pod) scrape(now, interval int) {
	if !p.serves(now) || now%interval != p.offset {
		return
	}
	s := sample{at: now, counter: p.counter}
	s.gauge, s.gaugeIsKnown = p.gauge.read(now)
	p.samples = append(p.samples, s)
	if len(p.samples) > keptSamples {
		p.samples = p.samples[1:]
	}
}
