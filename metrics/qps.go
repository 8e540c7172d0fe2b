package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// arrivals counts inbound requests by the second, in a ring that outlasts the longest window. Counting takes no lock and
// allocates nothing; the rate follows the clock, with or without requests.
type arrivals struct {
	window int64 // seconds
	begun  atomic.Pointer[time.Time]
	total  atomic.Uint64
	ring   [64]atomic.Uint64 // the second since begun in the upper half, its count in the lower one
}

// begin starts the clock, once: before, and in the first full second, the rate is not known.
func (a *arrivals) begin() {
	now := time.Now()
	a.begun.CompareAndSwap(nil, &now)
}

// add counts an arrival at now.
func (a *arrivals) add(now time.Time) {
	a.total.Add(1)
	second := uint64(now.Sub(*a.begun.Load()) / time.Second)
	slot := &a.ring[second%uint64(len(a.ring))]
	for {
		old := slot.Load()
		grown := old + 1
		switch at := old >> 32; {
		case at > second:
			return // a goroutine that slept through a whole turn of the ring
		case at < second:
			grown = second<<32 | 1
		}
		if slot.CompareAndSwap(old, grown) {
			return
		}
	}
}

// observe returns the callback of their counter, which is there, at zero, before the first arrival: a rate needs a point to
// start from.
func (a *arrivals) observe(counter metric.Int64Observable) metric.Callback {
	return func(_ context.Context, to metric.Observer) error {
		if a.begun.Load() != nil {
			to.ObserveInt64(counter, int64(a.total.Load()))
		}
		return nil
	}
}

// rate returns the arrivals a second of the full seconds in the window, or of those that there have been.
func (a *arrivals) rate() (perSecond float64, known bool) {
	begun := a.begun.Load()
	if begun == nil {
		return 0, false
	}
	current := int64(time.Since(*begun) / time.Second)
	seconds := min(a.window, current)
	if seconds == 0 {
		return 0, false
	}
	var n uint64
	for s := uint64(current - seconds); s < uint64(current); s++ {
		if v := a.ring[s%uint64(len(a.ring))].Load(); v>>32 == s {
			n += v & (1<<32 - 1)
		}
	}
	return float64(n) / float64(seconds), true
}
