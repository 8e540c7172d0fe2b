package limit_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
)

func TestFreeSlotDoesNotAllocate(t *testing.T) {
	adaptive := usual
	adaptive.MaxHealthy = time.Second
	l, ctx, now := limit.New(limit.Config{Max: 10, Adaptive: &adaptive}), t.Context(), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(100 * ms)
		l.Acquire(ctx, time.Second)
		l.Observe(limit.Sample{Time: ms}, now)
		l.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	l, ctx := limit.New(limit.Config{Max: 256, Queue: 64}), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l.Acquire(ctx, time.Second)
		l.Release()
	}
}

func BenchmarkObserve(b *testing.B) {
	adaptive := usual
	adaptive.MaxHealthy = time.Second
	l, now := limit.New(limit.Config{Max: 256, Adaptive: &adaptive}), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		l.Observe(limit.Sample{Time: ms}, now)
	}
}

// Leaving costs the same from a queue of ten thousand as from an empty one.
func BenchmarkLeave(b *testing.B) {
	for name, others := range map[string]int{"alone": 0, "of 10000": 10_000} {
		b.Run(name, func(b *testing.B) {
			l := limit.New(limit.Config{Max: 1, Queue: others + 1})
			l.Acquire(b.Context(), 0)
			for range others {
				go l.Acquire(b.Context(), time.Hour)
			}
			for l.Stats().Waiting < others {
				runtime.Gosched()
			}
			gone, cancel := context.WithCancel(b.Context())
			cancel()
			b.ReportAllocs()
			for b.Loop() {
				l.Acquire(gone, time.Hour)
			}
		})
	}
}
