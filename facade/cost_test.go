package facade_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/sortie-go/sortie/facade"
)

// eight names a page of eight parts, whose calls cost nothing themselves.
var eight = [8]string{"user", "news", "recs", "stock", "price", "cart", "menu", "ads"}

func one(context.Context) (int, error) { return 1, nil }

func page(ctx context.Context) (int, error) {
	sum, _, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (int, error) {
		var parts [8]*facade.Future[int]
		for i, name := range eight {
			parts[i] = facade.Go(s, name, one)
		}
		return sum(ctx, parts[:]...)
	})
	return sum, err
}

// deepPage is a page of which each part needs the one before, one is optional, and one has a limit in time.
func deepPage(ctx context.Context) (int, error) {
	sum, _, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (int, error) {
		var last *facade.Future[int]
		for i, name := range eight {
			before := last
			fn := func(ctx context.Context) (int, error) {
				if before == nil {
					return 1, nil
				}
				n, err := before.Get(ctx)
				return n + 1, err
			}
			switch i {
			case 3:
				last = facade.Go(s, name, fn, facade.Part[int]{Optional: true})
			case 5:
				last = facade.Go(s, name, fn, facade.Part[int]{Timeout: 1000 * ms})
			default:
				last = facade.Go(s, name, fn)
			}
		}
		return last.Get(ctx)
	})
	return sum, err
}

// The budget of a page of eight parts is 40 allocations. What is reached is held here, with a little room: what a page
// costs goes by the bytes that it allocates.
func TestPageOfEightAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		name          string
		page          func(context.Context) (int, error)
		allocs, bytes float64
	}{
		{"flat", page, 27, 4800},
		{"deep", deepPage, 70, 8600},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context()) // as a request's context is
			defer cancel()
			const runs = 500
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			allocs := testing.AllocsPerRun(runs, func() {
				if n, err := c.page(ctx); n != 8 || err != nil {
					t.Fatal(n, err)
				}
			})
			runtime.ReadMemStats(&after)
			bytes := float64(after.TotalAlloc-before.TotalAlloc) / (runs + 1) // AllocsPerRun warms up once
			t.Logf("%.0f allocations, %.0f bytes", allocs, bytes)
			if allocs > c.allocs || bytes > c.bytes {
				t.Errorf("%.0f allocations and %.0f bytes, the budget is %.0f and %.0f", allocs, bytes, c.allocs, c.bytes)
			}
		})
	}
}

func BenchmarkPageOfEight(b *testing.B) { benchmark(b, page) }
func BenchmarkDeepPage(b *testing.B)    { benchmark(b, deepPage) }

func benchmark(b *testing.B, page func(context.Context) (int, error)) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := page(ctx); n != 8 || err != nil {
			b.Fatal(n, err)
		}
	}
}
