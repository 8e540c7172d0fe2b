package hedge

import (
	"math"
	"math/bits"
	"time"
)

const (
	longest = 2 * time.Second
	subBits = 4                           // sixteen buckets to each doubling: 6 % wide
	unit    = time.Millisecond >> subBits // so that they begin at 1 ms
	octaves = 11                          // up to 2,048 ms
	size    = octaves << subBits
)

// A histogram counts times from 1 ms to 2 s. Shorter ones count as 1 ms; of longer ones it knows only how many there are.
type histogram struct {
	counts [size]uint32
	total  uint32 // the longer ones included
}

func (h *histogram) add(d time.Duration) {
	h.total++
	if d <= longest {
		h.counts[bucket(d)]++
	}
}

func (h *histogram) merge(other *histogram) {
	h.total += other.total
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// quantile returns the upper end of the bucket that the share q of the samples reaches into, so that no more than the rest
// lies above it; false if that is not in any.
func (h *histogram) quantile(q float64) (time.Duration, bool) {
	rank := max(uint32(math.Ceil(q*float64(h.total)-1e-6)), 1)
	seen := uint32(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(lower(i+1), longest), true
		}
	}
	return 0, false
}

// bucket returns the index of the bucket of d, which is at most longest.
func bucket(d time.Duration) int {
	units := uint64(max(d, time.Millisecond) / unit)
	exp := bits.Len64(units) - subBits - 1
	return exp<<subBits + int(units>>exp) - 1<<subBits
}

// lower returns the shortest time in the bucket with this index.
func lower(i int) time.Duration {
	return unit * time.Duration(1<<subBits+i%(1<<subBits)) << (i >> subBits)
}
