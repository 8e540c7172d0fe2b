package hedge_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/hedge"
)

func TestDecisionsDoNotAllocate(t *testing.T) {
	h, shared, now := hedge.New(twentieth, start), funds(1<<40), start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(100 * ms)
		h.Deposit(now)
		h.Observe(20*ms, now)
		h.Delay(now)
		h.Try(now, shared)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDelay(b *testing.B) {
	h := hedge.New(twentieth, start)
	observe(h, 1000, 20*ms, 0)
	b.ReportAllocs()
	for b.Loop() {
		h.Delay(start)
	}
}

func BenchmarkReadDelay(b *testing.B) {
	h, now := hedge.New(twentieth, start), start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(3 * time.Second)
		h.Delay(now)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := hedge.New(twentieth, start)
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(20*ms, start)
	}
}

func BenchmarkDepositAndTry(b *testing.B) {
	h, shared := hedge.New(hedge.Config{ExtraLoad: 1}, start), funds(1<<60)
	b.ReportAllocs()
	for b.Loop() {
		h.Deposit(start)
		h.Try(start, shared)
	}
}
