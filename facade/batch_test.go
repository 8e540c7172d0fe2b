package facade_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// backend answers batches and keeps what it was asked.
type backend struct {
	mu    sync.Mutex
	calls [][]int
	took  time.Duration
}

func (b *backend) load(ctx context.Context, keys []int) (map[int]int, error) {
	b.mu.Lock()
	b.calls = append(b.calls, keys)
	b.mu.Unlock()
	values := make(map[int]int)
	for _, k := range keys {
		values[k] = 10 * k
	}
	return values, sleep(ctx, b.took)
}

func (b *backend) wantCalls(t *testing.T, want ...[]int) {
	t.Helper()
	for _, c := range b.calls {
		slices.Sort(c) // parts that run at once ask in any order
	}
	if !slices.EqualFunc(b.calls, want, slices.Equal) {
		t.Errorf("calls %v, want %v", b.calls, want)
	}
}

type answer struct {
	value int
	err   error
}

// askEach asks for each key in a part of its own, and brings home what each of them was told.
func askEach(ctx context.Context, s *facade.Scope, b *facade.Batch[int, int], keys []int) []answer {
	all, err := facade.Each(s, "ask", keys, func(ctx context.Context, key int) (answer, error) {
		v, err := b.Get(ctx, key)
		return answer{v, err}, nil
	}).Get(ctx)
	if err != nil {
		panic(err)
	}
	return all
}

func upTo(n int) []int {
	keys := make([]int, n)
	for i := range keys {
		keys[i] = i
	}
	return keys
}

// Fifty parts load by a first batch and with its result by a second one.
func TestQuiescenceClosesTheWindow_javadataloader54(t *testing.T) {
	for _, permits := range []int{0, 1, -1} {
		synctest.Test(t, func(t *testing.T) {
			one, two := &backend{took: 30 * ms}, &backend{took: 30 * ms}
			first := &facade.Batch[int, int]{Name: "first", Load: one.load}
			second := &facade.Batch[int, int]{Name: "second", Load: two.load}
			got := do(t.Context(), facade.Options{Permits: permits}, func(ctx context.Context, s *facade.Scope) (int, error) {
				list, err := facade.Each(s, "p", upTo(50), func(ctx context.Context, i int) (int, error) {
					v, err := first.Get(ctx, i)
					if err != nil {
						return 0, err
					}
					return second.Get(ctx, v)
				}).Get(ctx)
				return len(list), err
			})
			got.wantValue(t, 50, 60*ms) // not even the two windows of 2 ms
			one.wantCalls(t, upTo(50))
			if len(two.calls) != 1 || len(two.calls[0]) != 50 {
				t.Error("second batch:", two.calls)
			}
			if p := got.part(t, "first/1"); p.Batch != 50 || p.Took != 30*ms {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestWindowClosesByTimeWhileOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			busy := facade.Go(s, "busy", after(10*ms, 0))
			ask := func(at time.Duration, key int) *facade.Future[int] {
				return facade.Go(s, fmt.Sprint("p", key), func(ctx context.Context) (int, error) {
					if err := sleep(ctx, at); err != nil {
						return 0, err
					}
					return batch.Get(ctx, key)
				})
			}
			return sum(ctx, ask(0, 1), ask(1*ms, 2), ask(3*ms, 3), ask(20*ms, 4), busy)
		})
		got.wantValue(t, 100, 20*ms) // the last one is alone: nothing to wait for
		b.wantCalls(t, []int{1, 2}, []int{3}, []int{4})
	})
}

// Parts that are queued may ask for keys too, as soon as they get in.
func TestWindowStaysOpenForPartsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		limit := facade.Part[int]{Limit: &facade.Limit{Max: 1}}
		var other sync.WaitGroup
		other.Go(func() { do(t.Context(), facade.Options{}, get(after(1*ms, 1), limit)).wantValue(t, 1, 1*ms) })
		synctest.Wait()
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			one := facade.Go(s, "one", func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) })
			return sum(ctx, one, facade.Go(s, "two", func(ctx context.Context) (int, error) { return batch.Get(ctx, 2) }, limit))
		})
		got.wantValue(t, 30, 1*ms)
		b.wantCalls(t, []int{1, 2})
		other.Wait()
	})
}

func TestWindowClosesWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{took: 5 * ms}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load, Max: 4}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			values, err := batch.All(ctx, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 2})
			if want := []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 30, 20}; !slices.Equal(values, want) {
				t.Error(values)
			}
			return len(values), err
		})
		got.wantValue(t, 11, 7*ms) // the last key waits for others: the calls under way may bring some
		slices.SortFunc(b.calls, func(x, y []int) int { return x[0] - y[0] })
		b.wantCalls(t, []int{0, 1, 2, 3}, []int{4, 5, 6, 7}, []int{8})
		got.wantStates(t, "items/1=ok items/2=ok items/3=ok")
	})
}

func TestValuesStayForTheRunFailuresDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		calls := 0
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			if calls++; calls == 2 {
				return nil, errBoom
			}
			return b.load(ctx, keys)
		}}
		page := func(ctx context.Context, s *facade.Scope) (int, error) {
			if _, err := batch.Get(ctx, 1); err != nil {
				return 0, err
			}
			if _, err := batch.Get(ctx, 2); !errors.Is(err, errBoom) {
				t.Error(err)
			}
			values, err := batch.All(ctx, []int{1, 2})
			return len(values), err
		}
		do(t.Context(), facade.Options{}, page).wantValue(t, 2, 0)
		b.wantCalls(t, []int{1}, []int{2})
		b.calls, calls = nil, 9
		do(t.Context(), facade.Options{}, get(func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) }))
		b.wantCalls(t, []int{1}) // another run knows nothing of it
	})
}

// Call 1 of tenant a and call 2 of tenant b wait at the same time, in runs of their own; call 1 goes away.
func TestBatchesOfTwoRunsDoNotMix_dataloader121(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type tenant struct{}
		var mu sync.Mutex
		asked := make(map[string][]int)
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[ctx.Value(tenant{}).(string)] = keys
			return map[int]int{keys[0]: 1}, ctx.Err()
		}}
		page := func(key int) pageFunc {
			return func(ctx context.Context, s *facade.Scope) (int, error) {
				facade.Go(s, "busy", after(time.Second, 0)) // keeps the window open
				return facade.Go(s, "ask", func(ctx context.Context) (int, error) { return batch.Get(ctx, key) }).Get(ctx)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), tenant{}, "a"))
			time.AfterFunc(1*ms, cancel)
			do(ctx, facade.Options{}, page(1)).wantError(t, facade.Cancelled, "", "", 1*ms)
		})
		wg.Go(func() {
			do(context.WithValue(t.Context(), tenant{}, "b"), facade.Options{}, page(2)).wantValue(t, 1, 2*ms)
		})
		wg.Wait()
		if len(asked) != 1 || !slices.Equal(asked["b"], []int{2}) {
			t.Error("asked:", asked)
		}
	})
}

// The same in one run: the key of the member that left is not sent, and the call's context is alive.
func TestKeyWithoutMembersIsNotSent_dataloader80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{took: 10 * ms}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		ask := func(key int) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { return batch.Get(ctx, key) }
		}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "busy", after(time.Second, 0))
			one := facade.Go(s, "one", ask(1), facade.Part[int]{Optional: true, Timeout: 1 * ms})
			return sum(ctx, one, facade.Go(s, "two", ask(2)))
		})
		got.wantValue(t, 20, 12*ms)
		b.wantCalls(t, []int{2})
	})
}

func TestBatchWithoutMembersIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			busy := facade.Go(s, "busy", after(10*ms, 3))
			left := facade.Go(s, "left", func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) },
				facade.Part[int]{Optional: true, Timeout: 1 * ms})
			return sum(ctx, left, busy)
		})
		got.wantValue(t, 3, 10*ms)
		b.wantCalls(t)
		got.wantStates(t, "busy=ok left=fallback items/1=cancelled")
	})
}

func TestBatchIsCancelledWithItsLastMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Duration
		start := time.Now()
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			<-ctx.Done()
			ended = time.Since(start)
			return nil, ctx.Err()
		}}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			var parts []*facade.Future[int]
			for i := range 3 {
				parts = append(parts, facade.Go(s, fmt.Sprint("p", i), func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) },
					facade.Part[int]{Optional: true, Timeout: time.Duration(10*i+10) * ms}))
			}
			return sum(ctx, append(parts, facade.Go(s, "else", after(50*ms, 1)))...)
		})
		got.wantValue(t, 1, 50*ms)
		if ended != 30*ms {
			t.Error("cancelled after", ended)
		}
	})
}

// Five keys; the function panics after it had two of the results. The callers have no deadline of their own.
func TestPanicOfABatchReachesAll_dataloader18(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := &facade.Batch[int, int]{Name: "items", Load: func(_ context.Context, keys []int) (map[int]int, error) {
			values := map[int]int{keys[0]: 1, keys[1]: 2}
			panic(fmt.Sprint("with ", len(values)))
		}}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			for i, a := range askEach(ctx, s, batch, upTo(5)) {
				p, ok := errors.AsType[*facade.PanicError](a.err)
				if !ok || p.Value != "with 2" || p.Part != "items/1" || len(p.Stack) == 0 {
					t.Errorf("%d: %v", i, a.err)
				}
			}
			return 1, nil
		})
		got.wantValue(t, 1, 0)
		if p := got.part(t, "items/1"); p.State != facade.StateFailed || p.Batch != 5 {
			t.Errorf("%+v", p)
		}
	})
}

// A batch outlives many requests, but not their contexts.
func TestBatchUsesTheContextOfItsRun_Hystrix842(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type trace struct{}
		var traces []any
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			traces = append(traces, ctx.Value(trace{}))
			return map[int]int{1: 1}, ctx.Err()
		}}
		for _, id := range []string{"T1/u1", "T2/u2"} {
			ctx := context.WithValue(t.Context(), trace{}, id)
			do(ctx, facade.Options{}, get(func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) })).wantValue(t, 1, 0)
			time.Sleep(time.Hour)
		}
		if !slices.Equal(traces, []any{"T1/u1", "T2/u2"}) {
			t.Error(traces)
		}
	})
}

func TestBatchAtTheEndOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{took: time.Minute}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		ask := func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) }
		o := facade.Options{Timeout: 500 * ms}
		got := do(t.Context(), o, get(ask))
		got.wantError(t, facade.TimedOut, "part", "", 465*ms)
		got.wantStates(t, "part=failed items/1=cancelled")

		do(t.Context(), o, get(ask, facade.Part[int]{Optional: true, Fallback: 7})).wantValue(t, 7, 465*ms)

		got = do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) { return batch.Get(ctx, 1) })
		got.wantError(t, facade.TimedOut, "", "", 465*ms)
	})
}

func TestLoadMayUseAnotherBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{took: 10 * ms}
		inner := &facade.Batch[int, int]{Name: "inner", Load: b.load}
		outer := &facade.Batch[int, int]{Name: "outer", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			values, err := inner.All(ctx, keys)
			m := make(map[int]int)
			for i, v := range values {
				m[keys[i]] = v + 1
			}
			return m, err
		}}
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			list, err := facade.Each(s, "p", upTo(5), outer.Get).Get(ctx)
			if !slices.Equal(list, []int{1, 11, 21, 31, 41}) {
				t.Error(list)
			}
			return len(list), err
		})
		got.wantValue(t, 5, 10*ms)
		b.wantCalls(t, upTo(5))
	})
}
