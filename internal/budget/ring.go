package budget

import "time"

const buckets = 10

// counts are calls and the extra attempts made beside them.
type counts struct{ calls, extra int64 }

// A ring holds the counts of one window, in ten buckets that are dropped one at a time: what happened counts for nine
// to ten tenths of the window.
type ring struct {
	start  time.Time
	width  time.Duration
	age    int64 // number of the current bucket since start
	bucket [buckets]counts
	sum    counts
}

func newRing(window time.Duration, now time.Time) ring {
	return ring{start: now, width: max(window/buckets, 1)}
}

// advance drops the buckets that have left the window. A time before the current bucket changes nothing.
func (r *ring) advance(now time.Time) {
	age := int64(now.Sub(r.start) / r.width)
	if age >= r.age+buckets {
		r.bucket, r.sum, r.age = [buckets]counts{}, counts{}, age
		return
	}
	for r.age < age {
		r.age++
		old := &r.bucket[r.age%buckets]
		r.sum.calls -= old.calls
		r.sum.extra -= old.extra
		*old = counts{}
	}
}

// add counts in the current bucket.
func (r *ring) add(c counts) {
	b := &r.bucket[r.age%buckets]
	b.calls += c.calls
	b.extra += c.extra
	r.sum.calls += c.calls
	r.sum.extra += c.extra
}
