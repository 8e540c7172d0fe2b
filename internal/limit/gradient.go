package limit

import (
	"math"
	"time"
)

// Adaptive moves a limit between Min and Max by the time that the upstream takes to the response's headers. It is worth
// having only where this client is most of the upstream's load: one of many learns what the others do.
//
// What it cannot see: a slowdown that comes slowly and stays below MaxHealthy is learnt as normal.
type Adaptive struct {
	Min, Init, Max int           // bounds, and where it begins
	MaxHealthy     time.Duration // a time to headers above this is never normal
}

// A Sample is what one attempt says about the upstream.
type Sample struct {
	Time       time.Duration // to headers; without any, how long it ran
	Failed     bool          // the endpoint failed. Failing quickly is no sign of health: the time counts only if above normal
	Overloaded bool          // it timed out, or was told that there were too many requests
}

const (
	windowTime    = time.Second     // shortest window,
	windowSamples = 20              // which must hold so many samples,
	windowMax     = 10 * windowTime // or be so long

	sickShare  = 0.1           // share of overloaded samples above which a window is sick
	sickFactor = 0.9           // what a sick window leaves of the limit
	tolerance  = 1.5           // how much slower than normal is still normal
	smoothing  = 2. / (60 + 1) // weight of a new window: an average over 60 of them
	recovering = 2             // normal is forgotten faster once the upstream is so much quicker,
	forgetting = 0.95          // by this factor a window
	smallStep  = 4
)

// A gradient is the state of an adaptive limit. Its owner guards it.
type gradient struct {
	cfg   Adaptive
	limit float64
	long  float64 // the baseline: average of short over the windows that were not sick, in seconds; 0: not known

	start      time.Time // of the window, which is its first sample
	samples    int
	overloaded int
	times      histogram // of the samples that have a time that says something
}

func newGradient(cfg Adaptive) *gradient {
	g := &gradient{limit: float64(cfg.Init)}
	g.configure(cfg)
	return g
}

// configure changes the bounds and keeps what was learnt.
func (g *gradient) configure(cfg Adaptive) {
	g.cfg = cfg
	g.clamp()
}

func (g *gradient) slots() int              { return int(math.Round(g.limit)) }
func (g *gradient) baseline() time.Duration { return time.Duration(g.long * float64(time.Second)) }

// observe adds a sample to the window and, if that is complete, moves the limit and returns true. peak is the largest
// number of calls in flight during the window.
func (g *gradient) observe(s Sample, peak int, now time.Time) bool {
	if g.samples == 0 {
		g.start = now
	}
	g.samples++
	if s.Overloaded {
		g.overloaded++
	}
	switch quick := s.Failed || s.Overloaded; {
	case !quick:
		g.times.add(s.Time)
	case g.long > 0: // else nothing is known yet that a rejection in a millisecond could be compared with
		g.times.add(max(s.Time, g.baseline()))
	}
	length := now.Sub(g.start)
	if length < windowTime || g.samples < windowSamples && length < windowMax {
		return false
	}
	g.step(peak)
	g.samples, g.overloaded = 0, 0
	g.times.clear()
	return true
}

// step is the end of a window.
func (g *gradient) step(peak int) {
	defer g.clamp()
	short := g.times.quantile(0.9).Seconds()
	if short > g.cfg.MaxHealthy.Seconds() || float64(g.overloaded) >= sickShare*float64(g.samples) {
		g.limit *= sickFactor // and the baseline stays: an outage is not to be learnt
		return
	}
	if short == 0 {
		return // nothing but quick failures, and nothing known
	}
	g.learn(short)
	grade := min(max(tolerance*g.long/short, 0.5), 1)
	if grade < 1 {
		g.limit -= g.limit * (1 - grade) / 2
		return
	}
	if float64(peak) >= g.limit/2 { // a limit that nobody reaches says nothing about a higher one
		g.limit += max(smallStep, math.Sqrt(g.limit))
	}
}

func (g *gradient) learn(short float64) {
	if g.long == 0 {
		g.long = short
		return
	}
	g.long += (short - g.long) * smoothing
	if g.long > recovering*short {
		g.long *= forgetting
	}
}

func (g *gradient) clamp() {
	g.limit = max(min(g.limit, float64(g.cfg.Max)), float64(g.cfg.Min), 1)
}
