package budget_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/budget"
)

func TestAccountDoesNotAllocate(t *testing.T) {
	b, now := budget.New(fifth, start), start
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(300 * time.Millisecond)
		b.Deposit(now)
		b.TryRetry(now)
		b.TryHedge(now)
		b.Left(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDeposit(b *testing.B) {
	account, now := budget.New(fifth, start), start
	b.ReportAllocs()
	for b.Loop() {
		account.Deposit(now)
	}
}

func BenchmarkTryRetry(b *testing.B) {
	account, now := budget.New(budget.Config{Percent: 20, PerSecond: 1e12, Window: 10 * time.Second}, start), start
	b.ReportAllocs()
	for b.Loop() {
		account.TryRetry(now)
	}
}

func BenchmarkDepositParallel(b *testing.B) {
	account := budget.New(fifth, start)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		now := time.Now()
		for pb.Next() {
			account.Deposit(now)
		}
	})
}
