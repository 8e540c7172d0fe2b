package facade_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

func TestLimitIsOneGateForManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		limit := &facade.Limit{Max: 3}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
					free := facade.Go(s, "free", after(10*ms, 0))
					var parts []*facade.Future[int]
					for i := range 6 {
						parts = append(parts, facade.Go(s, fmt.Sprint("p", i), func(ctx context.Context) (int, error) {
							if _, err := free.Get(ctx); err != nil { // parked: outside of the gate
								return 0, err
							}
							return g.part(10 * ms)(ctx)
						}, facade.Part[int]{Limit: limit}))
					}
					return sum(ctx, parts...)
				})
				if got.err != nil || got.value != 6 {
					t.Error(got.value, got.err)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if g.max != 3 {
			t.Error("at once:", g.max)
		}
		if d := time.Since(start); d != 90*ms { // 10 for free, then 24 parts by threes
			t.Error("took", d)
		}
	})
}

func TestLimitLetsThoseWhoResumeInFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string // the limit guards it
		one := facade.Part[int]{Limit: &facade.Limit{Max: 1}}
		note := func(name string) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				order = append(order, name)
				return 1, sleep(ctx, 10*ms)
			}
		}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			dep := facade.Go(s, "dep", after(5*ms, 1))
			a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
				if _, err := dep.Get(ctx); err != nil {
					return 0, err
				}
				return note("a")(ctx)
			}, one)
			synctest.Wait() // a is parked, and its place is free
			return sum(ctx, a, facade.Go(s, "b", note("b"), one), facade.Go(s, "c", note("c"), one))
		})
		got.wantValue(t, 3, 30*ms)
		if want := []string{"b", "a", "c"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestLimitIsLeftByThoseWhoGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &facade.Limit{Max: 1}
		one := facade.Part[int]{Limit: limit}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", failing(10*ms, errBoom), one)
			b := facade.Go(s, "b", after(10*ms, 1), one)
			c := facade.Go(s, "c", after(10*ms, 1), one)
			return sum(ctx, a, b, c)
		})
		got.wantError(t, facade.Failed, "a", "", 10*ms)
		got.wantStates(t, "a=failed b=skipped c=skipped")
		// The gate is empty again.
		do(t.Context(), facade.Options{}, get(after(10*ms, 1), one)).wantValue(t, 1, 10*ms)
	})
}

// What the limit protects is in use as long as the function runs, even if nobody waits for it.
func TestLimitCountsStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := facade.Part[int]{Limit: &facade.Limit{Max: 1}, Optional: true, Timeout: 10 * ms}
		start := time.Now()
		do(t.Context(), facade.Options{}, get(deaf(50*ms, 1), one)).wantValue(t, 0, 20*ms)
		do(t.Context(), facade.Options{}, get(after(0, 1), one)).wantValue(t, 1, 30*ms)
		if time.Since(start) != 50*ms {
			t.Error(time.Since(start))
		}
	})
}
