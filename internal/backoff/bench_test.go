package backoff_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/backoff"
)

func TestDecisionsDoNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		usual.Next(3, time.Second)
		backoff.RetryAfter("120", noon)
		backoff.RetryAfter("Mon, 04 May 2026 12:00:02 GMT", noon)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		usual.Next(3, 0)
	}
}

func BenchmarkRetryAfter(b *testing.B) {
	for name, value := range map[string]string{"seconds": "120", "date": "Mon, 04 May 2026 12:00:02 GMT", "garbage": "soon"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				backoff.RetryAfter(value, noon)
			}
		})
	}
}
