package balance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

func TestPickingDoesNotAllocate(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		f := newWarm(t, balance.Config{Picker: picker, SlowStart: slowStart, SpillFactor: 1.4, Eject: &ejecting}, 8, 2)
		f.fail(f.primary[0], 5)
		f.fail(f.primary[1], 2)
		f.join()
		tried := f.primary[2:4]
		if n := testing.AllocsPerRun(500, func() {
			f.now = f.now.Add(10 * ms) // the view of the tiers is renewed on the way
			p := f.Pick(&balance.Query{Now: f.now, Key: "k", Tried: tried})
			p.Endpoint.Observe(balance.Observation{Outcome: balance.OK, Time: 10 * ms, Answered: true}, f.now)
			p.Endpoint.Release()
			f.HasUntried(&balance.Query{Now: f.now, Tried: tried})
		}); n != 0 {
			t.Errorf("%v: %v allocations", picker, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, picker := range append(pickers, balance.InOrder) {
		for _, size := range []int{1, 4, 16, 128} {
			b.Run(fmt.Sprintf("%v/%d", picker, size), func(b *testing.B) {
				f := newWarm(b, balance.Config{Picker: picker, SlowStart: slowStart, Eject: &ejecting}, size, 0)
				q := balance.Query{Now: f.now, Key: "item 7"}
				b.ReportAllocs()
				for b.Loop() {
					f.Pick(&q).Endpoint.Release()
				}
			})
		}
	}
}

func BenchmarkPickParallel(b *testing.B) {
	f := newWarm(b, balance.Config{SlowStart: slowStart, Eject: &ejecting}, 4, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q := balance.Query{Now: f.now}
		for pb.Next() {
			f.Pick(&q).Endpoint.Release()
		}
	})
}

// A newcomer, a suspect and an ejected one among four, and another tier to spill to.
func BenchmarkPickInTrouble(b *testing.B) {
	f := newWarm(b, balance.Config{SlowStart: slowStart, SpillFactor: 1.4, Eject: &ejecting}, 4, 4)
	f.fail(f.primary[0], 5)
	f.fail(f.primary[1], 2)
	f.warm(f.join())
	q := balance.Query{Now: f.now}
	b.ReportAllocs()
	for b.Loop() {
		f.Pick(&q).Endpoint.Release()
	}
}

func BenchmarkObserve(b *testing.B) {
	f := newWarm(b, balance.Config{SlowStart: slowStart, Eject: &ejecting}, 4, 0)
	now, o := f.now, balance.Observation{Outcome: balance.OK, Time: 10 * time.Millisecond, Answered: true}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		f.primary[0].Observe(o, now)
	}
}
