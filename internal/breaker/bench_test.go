package breaker_test

import (
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sortie-go/sortie/internal/breaker"
)

func raw() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second,
	})
}

// The closure that carries the permit is gobreaker's own; we add nothing to it.
func TestPermitAllocatesNoMoreThanGobreaker(t *testing.T) {
	b, g := breaker.New(standard), raw()
	ours := testing.AllocsPerRun(100, func() { attempt(b, breaker.OK) })
	theirs := testing.AllocsPerRun(100, func() {
		if done, err := g.Allow(); err == nil {
			done(nil)
		}
	})
	if ours > theirs {
		t.Errorf("%v allocations, gobreaker has %v", ours, theirs)
	}
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { b.Ready(now) }); n != 0 {
		t.Errorf("Ready: %v allocations", n)
	}
}

func BenchmarkAdmitAndReport(b *testing.B) {
	br := breaker.New(standard)
	b.ReportAllocs()
	for b.Loop() {
		var p breaker.Permit
		if br.Admit(&p) {
			p.Report(breaker.OK)
		}
	}
}

// The budget of BenchmarkAdmitAndReport is this plus 20 %.
func BenchmarkGobreakerAlone(b *testing.B) {
	g := raw()
	b.ReportAllocs()
	for b.Loop() {
		if done, err := g.Allow(); err == nil {
			done(nil)
		}
	}
}

func BenchmarkReady(b *testing.B) {
	br, now := breaker.New(standard), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		br.Ready(now)
	}
}
