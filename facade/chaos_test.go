package facade_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// A part whose time is over does not wait for its permit, or for its place in a limit, to be told so.
func TestPartThatIsOverDoesNotWaitForItsPermit(t *testing.T) {
	for name, c := range map[string]struct {
		permits int
		limit   *facade.Limit
	}{
		"permit": {1, nil},
		"limit":  {0, &facade.Limit{Max: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var resumed time.Duration
				got := do(t.Context(), facade.Options{Permits: c.permits}, func(ctx context.Context, s *facade.Scope) (int, error) {
					var slow *facade.Future[int]
					declared := make(chan struct{})
					a := facade.Go(s, "a", func(ctx context.Context) (int, error) {
						<-declared
						short, cancel := context.WithTimeout(ctx, 20*ms)
						defer cancel()
						_, err := slow.Get(short)
						resumed = time.Since(start)
						return 1, err
					}, facade.Part[int]{Optional: true, Timeout: 30 * ms, Limit: c.limit})
					slow = facade.Go(s, "slow", after(50*ms, 1), facade.Part[int]{Limit: c.limit})
					close(declared)
					return sum(ctx, a, slow)
				})
				got.wantValue(t, 1, 50*ms)
				if resumed != 30*ms {
					t.Error("a went on after", resumed)
				}
				if c.limit != nil {
					wantEmpty(t, c.limit)
				}
			})
		})
	}
}

// wantEmpty checks that nobody has a place in the limit: as many as it admits meet in it.
func wantEmpty(t *testing.T, limit *facade.Limit) {
	t.Helper()
	var inside sync.WaitGroup
	inside.Add(limit.Max)
	got := do(t.Context(), facade.Options{Permits: -1}, func(ctx context.Context, s *facade.Scope) (int, error) {
		all, err := facade.Each(s, "p", upTo(limit.Max), func(ctx context.Context, i int) (int, error) {
			inside.Done()
			inside.Wait()
			return i, nil
		}, facade.Part[int]{Limit: limit}).Get(ctx)
		return len(all), err
	})
	got.wantValue(t, limit.Max, 0)
}

// chaos is a service in which everything that can happen does, chosen by chance.
type chaos struct {
	*rand.Rand
	limit *facade.Limit
	share *facade.Share[int]
	batch *facade.Batch[int, int]
}

func newChaos(seed uint64) *chaos {
	c := &chaos{Rand: rand.New(rand.NewPCG(seed, 2))}
	c.limit = &facade.Limit{Max: 1 + c.IntN(3)}
	c.share = &facade.Share[int]{Partition: func(context.Context) string { return "" }}
	took, kind := c.ms(20), c.IntN(4)
	c.batch = &facade.Batch[int, int]{Name: "batch", Max: 1 + c.IntN(4), Load: func(ctx context.Context, keys []int) (map[int]int, error) {
		if kind == 0 {
			panic(errBoom)
		}
		return map[int]int{keys[0]: 1}, sleep(ctx, took)
	}}
	return c
}

func (c *chaos) ms(n int) time.Duration { return time.Duration(c.IntN(n)) * ms }
func (c *chaos) one(n int) bool         { return c.IntN(n) == 0 }

// part returns what a part does, and how it differs from the usual. Whatever is left to chance is chosen here, not on the
// part's goroutine: the generator is not safe there.
func (c *chaos) part(i int, before []*facade.Future[int]) (func(context.Context) (int, error), facade.Part[int]) {
	took, what := c.ms(30), c.IntN(8)
	var dep *facade.Future[int]
	if len(before) > 0 && c.one(2) {
		dep = before[c.IntN(len(before))]
	}
	opt := facade.Part[int]{Optional: c.one(2)}
	if c.one(3) {
		opt.Timeout = 1*ms + c.ms(20)
	}
	if c.one(3) {
		opt.Limit = c.limit
	}
	if opt.Optional && c.one(2) {
		late, err := c.ms(80), []error{nil, errBoom}[c.IntN(2)]
		opt.FallbackFunc = func(ctx context.Context, _ error) (int, error) {
			if e := sleep(ctx, late); e != nil {
				return 0, e
			}
			return 1, err
		}
	}
	if what == 0 {
		dep, opt.Key, opt.Share = nil, i, c.share
	}
	return func(ctx context.Context) (int, error) {
		if dep != nil {
			if _, err := dep.Get(ctx); err != nil {
				return 0, err
			}
		}
		switch what {
		case 1:
			time.Sleep(took + 20*ms) // deaf
			return 1, nil
		case 2:
			return c.batch.Get(ctx, i)
		case 3:
			return 0, errors.Join(sleep(ctx, took), errBoom)
		case 4:
			panic(errBoom)
		}
		return 1, sleep(ctx, took)
	}, opt
}

// page returns a run of up to ten parts, and when its caller leaves.
func (c *chaos) page() (o facade.Options, fn pageFunc, leaves time.Duration) {
	o = facade.Options{Timeout: 10*ms + c.ms(60), Permits: 1 + c.IntN(4)}
	leaves = time.Hour
	if c.one(4) {
		leaves = c.ms(50)
	}
	n := 1 + c.IntN(10)
	asks := c.Perm(n)[:c.IntN(n+1)]
	return o, func(ctx context.Context, s *facade.Scope) (int, error) {
		var parts []*facade.Future[int]
		for i := range n {
			fn, opt := c.part(i, parts)
			parts = append(parts, facade.Go(s, fmt.Sprint("p", i), fn, opt))
		}
		for _, i := range asks {
			if _, err := parts[i].Get(ctx); err != nil {
				return 0, err
			}
		}
		return 1, nil
	}, leaves
}

func TestChaos(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			shared := newChaos(seed)
			var wg sync.WaitGroup
			for run := range uint64(3) {
				wg.Go(func() {
					mine := *shared
					mine.Rand = rand.New(rand.NewPCG(seed, 3+run))
					o, fn, leaves := mine.page()
					var told atomic.Int32
					o.OnPart = func(p facade.PartReport) {
						told.Add(1)
						if p.State == facade.StatePending {
							t.Error("pending:", p.Name)
						}
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					time.AfterFunc(leaves, cancel)
					got := do(ctx, o, fn)
					if _, ok := got.err.(*facade.Error); got.err != nil && !ok || got.took > o.Timeout {
						t.Errorf("seed %d: %v after %v of %v", seed, got.err, got.took, o.Timeout)
					}
					time.Sleep(time.Second) // the deaf ones come home, and OnPart at the very end of the run has been called
					if n := int(told.Load()); n != len(got.rep.Parts) {
						t.Errorf("seed %d: %d parts of %d were told\n%s", seed, n, len(got.rep.Parts), got.rep.Waterfall())
					}
					for _, p := range got.rep.Parts {
						bad := p.State == facade.StateFailed && p.Batch == 0
						if p.State == facade.StatePending || p.Took < 0 || p.Queued < 0 || p.Parked > p.Took || bad && got.err == nil {
							t.Errorf("seed %d: %+v", seed, p)
						}
					}
				})
			}
			wg.Wait()
			wantEmpty(t, shared.limit)
		})
	}
}
