package limit

import (
	"math/bits"
	"time"
)

const (
	subBits = 4  // sixteen buckets to each doubling: 6 % wide
	octaves = 27 // above 16 µs: up to 35 minutes
	size    = (octaves + 1) << subBits
)

// A histogram counts times, in buckets that are as wide as a sixteenth of their value.
type histogram struct {
	counts  [size]uint32
	total   uint32
	longest time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d)]++
	h.total++
	h.longest = max(h.longest, d)
}

func (h *histogram) clear() { *h = histogram{} }

// quantile returns the time below which the share q of the samples lies: the middle of its bucket, or the longest time if
// that is less. Without samples it is 0.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint32(q * float64(h.total))
	seen := uint32(0)
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min((lower(i)+lower(i+1))/2, h.longest)
		}
	}
	return h.longest
}

// bucket returns the index of the bucket of d.
func bucket(d time.Duration) int {
	us := uint64(d / time.Microsecond)
	exp := max(bits.Len64(us)-subBits-1, 0)
	return min(exp<<subBits+int(us>>exp), size-1)
}

// lower returns the smallest time in the bucket with this index.
func lower(i int) time.Duration {
	exp := max(i>>subBits-1, 0)
	return time.Duration(i-exp<<subBits) << exp * time.Microsecond
}
