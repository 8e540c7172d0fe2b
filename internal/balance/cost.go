package balance

import (
	"math"
	"sync/atomic"
	"time"
)

// maxOutlier bounds what one slow answer counts, in means: its memory then lasts for half a minute and not for minutes
// (traefik/traefik#12306).
const maxOutlier = 5

type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) store(v float64) { f.bits.Store(math.Float64bits(v)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fade is the weight that what was known a while ago still has.
func fade(dt int64, decay time.Duration) float64 {
	if dt <= 0 {
		return 1
	}
	return math.Exp(-float64(dt) / float64(decay))
}

// costAt is the cost as if an answer in no time had just been seen: an endpoint that is not used is tried again. The two
// parts may be read from two samples, which makes one pick a little worse.
func (ep *Endpoint) costAt(t int64, decay time.Duration) float64 {
	seen := ep.seen.Load()
	return ep.cost.load() * fade(t-seen, decay)
}

// unknown is a cost above any that was measured.
const unknown = 1e12

// load is the cost of one attempt more.
func (ep *Endpoint) load(t int64, decay time.Duration) float64 {
	pending := float64(ep.pending.Load())
	switch {
	case ep.seen.Load() != 0:
		return ep.costAt(t, decay) * (pending + 1)
	case pending == 0:
		return 0 // it has to be tried some time
	}
	return unknown * (pending + 1) // and is being tried
}

// learnLocked takes a sample: peak EWMA, up at once and down slowly.
func (ep *Endpoint) learnLocked(o Observation, t int64, decay time.Duration, mean float64) {
	s := max(o.Time.Seconds(), 0)
	if mean > 0 {
		s = min(s, maxOutlier*mean)
	}
	now := ep.costAt(t, decay)
	switch known := ep.seen.Load() != 0; {
	case o.Outcome == Neutral && (s <= now || s == 0):
		return // it says no more than: at least so long
	case o.Outcome == Failed || o.Outcome == DialFailed:
		s = max(s, now) // failing quickly must not look like being quick (valyala/fasthttp#865)
		if !known {
			s = max(s, mean)
		}
	}
	if old := ep.cost.load(); s < old {
		s += (old - s) * fade(t-ep.seen.Load(), decay)
	}
	ep.cost.store(s)
	ep.seen.Store(max(t, ep.seen.Load()))
}

// A mean is a running average of seconds, without a lock: of two samples that meet, one may be lost.
type mean struct {
	value   atomicFloat
	samples atomic.Int64
	seen    atomic.Int64
}

func (m *mean) load() float64 { return m.value.load() }

// add moves the average by the share of time that has passed, or of samples that there have been, while those are few. One
// sample counts for no more than an outlier.
func (m *mean) add(s float64, t int64, decay time.Duration) {
	last := m.seen.Load()
	if !m.seen.CompareAndSwap(last, max(t, last)) {
		return
	}
	n := m.samples.Add(1)
	old := m.load()
	if n > 1 {
		s = min(s, maxOutlier*old)
	}
	m.value.store(old + (s-old)*max(1-fade(t-last, decay), 1/float64(n)))
}
