package facade_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

func TestBatchAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		values map[int]int
		err    error
		ok     []int // of the keys 1, 2, 3
		is     error // what the others get
		text   string
		state  facade.State
	}{
		"all":     {map[int]int{1: 1, 2: 2, 3: 3}, nil, []int{1, 2, 3}, nil, "", facade.StateOK},
		"too few": {map[int]int{1: 1}, nil, []int{1}, facade.ErrNoResult, `facade: page: part "items/1": no result for this key`, facade.StateOK},
		"none":    {nil, nil, nil, facade.ErrNoResult, "", facade.StateOK},
		"too many": {
			map[int]int{1: 1, 2: 2, 3: 3, 4: 4}, nil, nil, nil,
			`facade: page: part "items/1": it returned a key that it was not asked for`, facade.StateFailed,
		},
		"wrong":       {map[int]int{7: 1}, nil, nil, nil, "", facade.StateFailed},
		"error":       {map[int]int{1: 1}, errBoom, nil, errBoom, "", facade.StateFailed},
		"some fail":   {map[int]int{1: 1, 3: 3}, facade.KeyErrors[int]{2: errBoom}, []int{1, 3}, errBoom, `facade: page: part "items/1": boom`, facade.StateOK},
		"all fail":    {nil, fmt.Errorf("items: %w", facade.KeyErrors[int]{1: errBoom, 2: errBoom, 3: errBoom}), nil, errBoom, "", facade.StateFailed},
		"wrong fails": {nil, facade.KeyErrors[int]{9: errBoom}, nil, nil, "", facade.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				batch := &facade.Batch[int, int]{Name: "items", Load: func(context.Context, []int) (map[int]int, error) {
					return c.values, c.err
				}}
				got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
					for i, a := range askEach(ctx, s, batch, []int{1, 2, 3}) {
						switch {
						case slices.Contains(c.ok, i+1):
							if a.value != i+1 || a.err != nil {
								t.Errorf("%d: %+v", i+1, a)
							}
						case a.err == nil, c.is != nil && !errors.Is(a.err, c.is), c.text != "" && a.err.Error() != c.text:
							t.Errorf("%d: %+v", i+1, a)
						}
					}
					return 1, nil
				})
				got.wantValue(t, 1, 0)
				if p := got.part(t, "items/1"); p.State != c.state || p.Batch != 3 {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}

func TestAllFailsWithItsFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := &facade.Batch[int, int]{Name: "items", Max: 1, Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			if keys[0] == 2 {
				return nil, errBoom
			}
			return map[int]int{keys[0]: 1}, sleep(ctx, time.Duration(10*keys[0])*ms)
		}}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			values, err := batch.All(ctx, []int{1, 2, 3})
			if values != nil || !errors.Is(err, errBoom) {
				t.Error(values, err)
			}
			if _, err := batch.All(t.Context(), []int{1}); err == nil {
				t.Error("no error outside of the run")
			}
			return 1, nil
		})
		got.wantValue(t, 1, 10*ms)
		got.wantStates(t, "items/1=ok items/2=failed items/3=cancelled")
	})
}

// A call that all have left is not waited for by those who come later.
func TestBatchThatWasCancelledIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			n := int(calls.Add(1))
			if n == 1 {
				time.Sleep(100 * ms)
			}
			return map[int]int{1: n}, nil
		}}
		ask := func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) }
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			if _, err := facade.Go(s, "left", ask, facade.Part[int]{Optional: true, Timeout: 10 * ms}).Get(ctx); err != nil {
				return 0, err
			}
			if err := sleep(ctx, 1*ms); err != nil { // until it has left
				return 0, err
			}
			return facade.Go(s, "later", ask).Get(ctx)
		})
		if got.err != nil || got.value != 2 {
			t.Error(got.value, got.err)
		}
		time.Sleep(time.Second)
	})
}

func TestLoadMayChangeItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		batch := &facade.Batch[int, int]{Name: "items", Load: func(ctx context.Context, keys []int) (map[int]int, error) {
			if calls++; calls == 1 {
				clear(keys)
				return nil, errBoom
			}
			return map[int]int{1: 7}, nil
		}}
		do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			if _, err := batch.Get(ctx, 1); !errors.Is(err, errBoom) {
				t.Error(err)
			}
			return batch.Get(ctx, 1)
		}).wantValue(t, 7, 0)
	})
}

func TestBatchOfARunThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		batch := &facade.Batch[int, int]{Name: "items", Load: b.load}
		var kept context.Context
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			kept = ctx //nolint:fatcontext // used when it is over
			if _, err := facade.Go(s, "a", failing(0, errBoom)).Get(ctx); err == nil {
				t.Error("no error")
			}
			_, err := batch.All(ctx, []int{1, 2})
			return 0, err
		})
		got.wantError(t, facade.Failed, "a", "", 0)
		if _, err := batch.Get(kept, 1); !errors.Is(err, errBoom) {
			t.Error(err)
		}
		b.wantCalls(t)
	})
}

func TestCallsOfABatchCountAsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := &facade.Batch[int, int]{Name: "items", Load: (&backend{}).load, Window: 5 * ms}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Each(s, "many", make([]int, 9_999), func(context.Context, int) (int, error) { return 0, nil })
			return batch.Get(ctx, 1)
		})
		got.wantError(t, facade.Usage, "items", `facade: page: part "items": more than 10000 parts`, 0)
	})
}

func TestBatchMistakes(t *testing.T) {
	load := (&backend{}).load
	for text, b := range map[string]*facade.Batch[int, int]{
		`facade: page: a batch has no name`:              {Load: load},
		`facade: page: part "items": Load is nil`:        {Name: "items"},
		`facade: page: part "items": Max is negative`:    {Name: "items", Load: load, Max: -1},
		`facade: page: part "items": Window is negative`: {Name: "items", Load: load, Window: -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) { return b.Get(ctx, 1) })
			got.wantError(t, facade.Usage, b.Name, text, 0)
		})
	}
	b := facade.Batch[int, int]{Name: "items", Load: load}
	if _, err := b.Get(t.Context(), 1); err == nil || err.Error() != `facade: part "items": the context is not one of a run` {
		t.Error(err)
	}
}

func TestKeyThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := facade.Batch[any, int]{Name: "items", Load: func(context.Context, []any) (map[any]int, error) { return nil, nil }}
		got := do(t.Context(), facade.Options{}, get(func(ctx context.Context) (int, error) { return b.Get(ctx, []int{1}) }))
		got.wantError(t, facade.Panicked, "part", "", 0)
	})
}
