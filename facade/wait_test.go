package facade_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

func TestDependenciesRunAsSoonAsTheyCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			user := facade.Go(s, "user", after(100*ms, 1))
			recs := facade.Go(s, "recs", func(ctx context.Context) (int, error) {
				u, err := user.Get(ctx)
				if err != nil {
					return 0, err
				}
				return u + 1, sleep(ctx, 100*ms)
			})
			return sum(ctx, facade.Go(s, "news", after(150*ms, 10)), recs)
		})
		got.wantValue(t, 12, 200*ms)
		p := got.part(t, "recs")
		if p.Parked != 100*ms || len(p.Waits) != 1 || p.Waits[0] != (facade.Wait{Part: "user", From: 0, To: 100 * ms}) {
			t.Errorf("%+v", p)
		}
	})
}

// A parked part needs no permit, so a few permits are enough for any depth.
func TestParkedPartsHoldNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 2}, func(ctx context.Context, s *facade.Scope) (int, error) {
			ready := make(chan *facade.Future[int], 1)
			ask := func(ctx context.Context) (int, error) {
				c := <-ready
				ready <- c
				n, err := c.Get(ctx)
				if err != nil {
					return 0, err
				}
				return n, sleep(ctx, 10*ms)
			}
			a, b := facade.Go(s, "a", ask), facade.Go(s, "b", ask)
			ready <- facade.Go(s, "c", after(10*ms, 1))
			return sum(ctx, a, b)
		})
		got.wantValue(t, 2, 20*ms)
	})
}

func TestPermitsBoundWhatRuns(t *testing.T) {
	for _, permits := range []int{1, 3, 0, -1} {
		synctest.Test(t, func(t *testing.T) {
			var g gauge
			n := 50
			got := do(t.Context(), facade.Options{Permits: permits}, func(ctx context.Context, s *facade.Scope) (int, error) {
				var parts []*facade.Future[int]
				for i := range n {
					parts = append(parts, facade.Go(s, fmt.Sprint("p", i), g.part(10*ms)))
				}
				return sum(ctx, parts...)
			})
			want := map[int]int{0: 16, -1: n}[permits]
			if want == 0 {
				want = permits
			}
			if g.max != want {
				t.Errorf("%d permits: %d at once", permits, g.max)
			}
			got.wantValue(t, n, time.Duration((n+want-1)/want)*10*ms)
		})
	}
}

// gauge counts how many of its parts run at once.
type gauge struct {
	mu       sync.Mutex
	now, max int
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.max = max(g.max, g.now)
}

func (g *gauge) part(d time.Duration) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		g.add(1)
		defer g.add(-1)
		return 1, sleep(ctx, d)
	}
}

func TestResumingPartsGoBeforeThoseNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string // the one permit guards it
		note := func(name string) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				order = append(order, name)
				return 1, sleep(ctx, 10*ms)
			}
		}
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			dep := make(chan *facade.Future[int], 2)
			needs := func(ctx context.Context) (int, error) {
				if _, err := (<-dep).Get(ctx); err != nil {
					return 0, err
				}
				return note("needs")(ctx)
			}
			a1, a2 := facade.Go(s, "a1", needs), facade.Go(s, "a2", needs)
			b := facade.Go(s, "b", note("b"))
			dep <- b
			dep <- b
			return sum(ctx, a1, a2, facade.Go(s, "c", note("c")), facade.Go(s, "d", note("d")))
		})
		got.wantValue(t, 4, 50*ms)
		if want := []string{"b", "needs", "needs", "c", "d"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestCycleIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		parts int
		text  string
	}{
		"itself": {1, "facade: page: parts wait for each other: p0 -> p0"},
		"two":    {2, "facade: page: parts wait for each other: p0 -> p1 -> p0"},
		"four":   {4, "facade: page: parts wait for each other: p0 -> p1 -> p2 -> p3 -> p0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
					parts := make([]*facade.Future[int], c.parts)
					var declared sync.WaitGroup
					declared.Add(1)
					for i := range parts {
						parts[i] = facade.Go(s, fmt.Sprint("p", i), func(ctx context.Context) (int, error) {
							declared.Wait()
							if i == 0 { // the others wait already
								if err := sleep(ctx, 10*ms); err != nil {
									return 0, err
								}
							}
							return parts[(i+1)%len(parts)].Get(ctx)
						}, optional) // a mistake is one also where failures are none
					}
					declared.Done()
					return sum(ctx, parts...)
				})
				e := got.wantError(t, facade.Cycle, "p0", c.text, got.took)
				if want := strings.Split(strings.TrimPrefix(c.text, "facade: page: parts wait for each other: "), " -> "); !slices.Equal(e.Path(), want) {
					t.Error(e.Path())
				}
			})
		})
	}
}

func TestCycleThroughEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			all := make(chan *facade.Future[[]int], 1)
			list := facade.Each(s, "list", []int{0, 1}, func(ctx context.Context, i int) (int, error) {
				if i == 0 {
					return 0, nil
				}
				_, err := (<-all).Get(ctx)
				return 0, err
			})
			all <- list
			_, err := list.Get(ctx)
			return 0, err
		})
		got.wantError(t, facade.Cycle, "list[1]", "facade: page: parts wait for each other: list[1] -> list -> list[1]", 0)
	})
}

// Get by other goroutines than the part's own counts for the part.
func TestGetFromAPartsOwnGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			deps := make(chan []*facade.Future[int], 1)
			a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
				var wg sync.WaitGroup
				var total atomic.Int64
				for _, d := range <-deps {
					wg.Go(func() {
						n, err := d.Get(ctx)
						if err != nil {
							t.Error(err)
						}
						total.Add(int64(n))
					})
				}
				wg.Wait()
				return int(total.Load()), nil
			})
			deps <- []*facade.Future[int]{facade.Go(s, "b", after(10*ms, 1)), facade.Go(s, "c", after(10*ms, 2))}
			return a.Get(ctx)
		})
		got.wantValue(t, 3, 20*ms)
		if p := got.part(t, "a"); p.Parked != 20*ms || len(p.Waits) != 2 {
			t.Errorf("%+v", p)
		}
	})
}

func TestGetWithItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			slow := make(chan *facade.Future[int], 1)
			a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
				short, cancel := context.WithTimeout(ctx, 20*ms)
				defer cancel()
				_, err := (<-slow).Get(short)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return 1, nil // goes on without it; with the permit, once slow gives it back
			})
			slow <- facade.Go(s, "slow", after(50*ms, 1))
			return a.Get(ctx)
		})
		got.wantValue(t, 1, 50*ms)
	})
}

func TestStateDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(10*ms, 1))
			if a.State() != facade.StatePending {
				t.Error(a.State())
			}
			n, err := a.Get(ctx)
			if a.State() != facade.StateOK {
				t.Error(a.State())
			}
			return n, err
		}).wantValue(t, 1, 10*ms)
	})
}

func TestGetFromOutsideOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, outside sync.WaitGroup
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(10*ms, 1))
			b := facade.Go(s, "b", after(time.Minute, 1))
			inside.Go(func() {
				if n, err := a.Get(t.Context()); n != 1 || err != nil {
					t.Error(n, err)
				}
			})
			inside.Go(func() {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*ms, errBoom)
				defer cancel()
				if _, err := a.Get(ctx); !errors.Is(err, errBoom) || !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
			outside.Go(func() {
				if _, err := b.Get(t.Context()); err == nil || b.State() != facade.StateUnused {
					t.Error(err, b.State())
				}
			})
			inside.Wait()
			return 1, nil
		})
		got.wantValue(t, 1, 10*ms)
		outside.Wait()
	})
}

// A run inside of a part: its parts may wait for the outer run's futures, and count as the part there.
func TestNestedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			dep := make(chan *facade.Future[int], 1)
			a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
				inner := do(ctx, facade.Options{Name: "inner"}, func(ctx context.Context, s *facade.Scope) (int, error) {
					return facade.Go(s, "x", func(ctx context.Context) (int, error) { return (<-dep).Get(ctx) }).Get(ctx)
				})
				return inner.value, inner.err
			})
			dep <- facade.Go(s, "b", after(10*ms, 5)) // needs a's permit
			return a.Get(ctx)
		})
		got.wantValue(t, 5, 10*ms)

		got = do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			self := make(chan *facade.Future[int], 1)
			a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
				inner := do(ctx, facade.Options{Name: "inner"}, get(func(ctx context.Context) (int, error) { return (<-self).Get(ctx) }))
				return inner.value, inner.err
			})
			self <- a
			return a.Get(ctx)
		})
		got.wantError(t, facade.Cycle, "a", "facade: page: parts wait for each other: a -> a", 0)
	})
}

// Random graphs: whatever the permits, the sums are those of serial code, the time is that of the longest path where
// permits abound, and a circle is reported exactly if there is one.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			n := 2 + rnd.IntN(12)
			deps := make([][]int, n)
			cost := make([]time.Duration, n)
			for i := range n {
				cost[i] = time.Duration(rnd.IntN(4)) * ms
				for j := range i {
					if rnd.IntN(3) == 0 {
						deps[i] = append(deps[i], j)
					}
				}
				rnd.Shuffle(len(deps[i]), func(a, b int) { deps[i][a], deps[i][b] = deps[i][b], deps[i][a] })
			}
			circle := rnd.IntN(4) == 0
			if circle {
				deps[0] = append(deps[0], n-1)
				deps[n-1] = append(deps[n-1], 0)
			}
			values, ends := make([]int, n), make([]time.Duration, n)
			want, longest := 0, time.Duration(0)
			for i := range n {
				values[i] = i + 1
				for _, j := range deps[i] {
					values[i] += values[j]
					ends[i] = max(ends[i], ends[j])
				}
				ends[i] += cost[i]
				want += values[i]
				longest = max(longest, ends[i])
			}
			permits := []int{1, 2, 3, -1}[rnd.IntN(4)]
			one := facade.Part[int]{}
			if rnd.IntN(2) == 0 {
				one.Limit = &facade.Limit{Max: 1 + rnd.IntN(3)}
			}
			var g gauge
			got := do(t.Context(), facade.Options{Permits: permits}, func(ctx context.Context, s *facade.Scope) (int, error) {
				parts := make([]*facade.Future[int], n)
				declared := make(chan struct{})
				for _, i := range rnd.Perm(n) {
					parts[i] = facade.Go(s, fmt.Sprint(i), func(ctx context.Context) (int, error) {
						<-declared
						total := i + 1
						for _, j := range deps[i] {
							v, err := parts[j].Get(ctx)
							if err != nil {
								return 0, err
							}
							total += v
						}
						g.add(1)
						defer g.add(-1)
						return total, sleep(ctx, cost[i])
					}, one)
				}
				close(declared)
				return sum(ctx, parts...)
			})
			switch {
			case circle:
				if e, ok := got.err.(*facade.Error); !ok || e.Kind != facade.Cycle {
					t.Fatalf("seed %d: %d, %v, want a cycle", seed, got.value, got.err)
				}
			case got.err != nil || got.value != want:
				t.Fatalf("seed %d: %d, %v, want %d", seed, got.value, got.err, want)
			case permits < 0 && one.Limit == nil && got.took != longest:
				t.Errorf("seed %d: took %v, the longest path %v", seed, got.took, longest)
			case permits > 0 && g.max > permits, one.Limit != nil && g.max > one.Limit.Max:
				t.Errorf("seed %d: %d at once", seed, g.max)
			}
		})
	}
}
