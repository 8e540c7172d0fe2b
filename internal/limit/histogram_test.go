package limit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEachBucketBeginsWhereItIsFound(t *testing.T) {
	for i := range size {
		if got := bucket(lower(i)); got != i {
			t.Fatalf("bucket %d begins at %v, which is in bucket %d", i, lower(i), got)
		}
		if i > 0 && bucket(lower(i)-1) != i-1 {
			t.Fatalf("bucket %d does not end where %d begins", i-1, i)
		}
	}
	if got := bucket(1 << 62); got != size-1 {
		t.Errorf("a very long time is in bucket %d", got)
	}
}

func TestQuantileIsWithinABucketOfTheTruth(t *testing.T) {
	for range 200 {
		var h histogram
		times := make([]time.Duration, 1+rand.IntN(300))
		for i := range times {
			times[i] = time.Duration(rand.ExpFloat64() * float64(50*time.Millisecond))
			h.add(times[i])
		}
		slices.Sort(times)
		got, want := h.quantile(0.9), times[int(0.9*float64(len(times)))]
		if diff := (got - want).Abs(); diff > want/16+time.Microsecond {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
