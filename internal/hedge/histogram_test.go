package hedge

import (
	"testing"
	"time"
)

func TestEachBucketBeginsWhereItIsFound(t *testing.T) {
	if lower(0) != time.Millisecond || lower(size) < longest || bucket(0) != 0 {
		t.Errorf("buckets from %v to %v", lower(0), lower(size))
	}
	for i := range size {
		if got := bucket(lower(i)); got != i {
			t.Fatalf("bucket %d begins at %v, which is in bucket %d", i, lower(i), got)
		}
		if i > 0 && bucket(lower(i)-1) != i-1 {
			t.Fatalf("bucket %d does not end where %d begins", i-1, i)
		}
	}
}
