package hedge

import (
	"math"
	"time"
)

const (
	readEvery  = 3 * time.Second
	minSamples = 100
	forever    = math.MaxInt64
)

// readLocked puts the delay in force that is right at t.
func (h *Hedge) readLocked(t time.Duration) {
	if h.cfg.Delay > 0 {
		h.delay.Store(int64(h.cfg.Delay))
		h.due.Store(forever)
		return
	}
	d, ok := h.times.quantile(t, 1-h.cfg.ExtraLoad)
	if ok {
		d = max(d, h.cfg.Min)
	}
	h.delay.Store(int64(d)) // 0 unless ok
	h.due.Store(int64(t + readEvery))
}

const (
	spans    = 3
	spanTime = 10 * time.Second
)

// recent holds the times of the last 20 to 30 s, in three histograms of which the oldest is dropped.
type recent struct {
	span  int64 // number of the current one
	spans [spans]histogram
}

func (r *recent) advance(t time.Duration) {
	for now := int64(t / spanTime); r.span < now; {
		r.span = max(r.span+1, now-spans+1)
		r.spans[r.span%spans] = histogram{}
	}
}

func (r *recent) add(t, d time.Duration) {
	r.advance(t)
	r.spans[r.span%spans].add(d)
}

// quantile returns the time within which the share q of the samples lies. It returns false if there are too few of them,
// or if that time is beyond what the histograms hold.
func (r *recent) quantile(t time.Duration, q float64) (time.Duration, bool) {
	r.advance(t)
	var all histogram
	for i := range r.spans {
		all.merge(&r.spans[i])
	}
	if all.total < minSamples {
		return 0, false
	}
	return all.quantile(q)
}
