package facade_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// read reads a stream to its end, as "name=value" with the time of each item.
func read(ctx context.Context, o facade.Options, fn func(context.Context, *facade.Scope) error) (items []string, rep *facade.Report, err error) {
	start := time.Now()
	for d, e := range facade.Stream(ctx, o, fn) {
		if d.Report != nil {
			rep, err = d.Report, e
			items = append(items, fmt.Sprint("end@", time.Since(start)))
			continue
		}
		items = append(items, fmt.Sprintf("%s=%v@%v", d.Name, d.Value, time.Since(start)))
	}
	return items, rep, err
}

func wantItems(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("items\n got %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

func TestStreamYieldsInOrderOfCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items, rep, err := read(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
			slow := facade.Go(s, "slow", after(30*ms, 3))
			facade.Go(s, "fast", after(10*ms, "quick"))
			facade.Go(s, "poor", failing(20*ms, errBoom), facade.Part[int]{Optional: true, Fallback: 7})
			facade.Go(s, "needs", func(ctx context.Context) (int, error) {
				n, err := slow.Get(ctx)
				if err != nil {
					return 0, err
				}
				return n + 1, sleep(ctx, 10*ms)
			})
			return nil // and none was asked for
		})
		wantItems(t, items, "fast=quick@10ms", "poor=7@20ms", "slow=3@30ms", "needs=4@40ms", "end@40ms")
		if err != nil || rep == nil || rep.Complete || len(rep.Parts) != 4 {
			t.Error(err, rep)
		}
	})
}

func TestRequiredFailureEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items, rep, err := read(t.Context(), facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) error {
			facade.Go(s, "a", after(10*ms, 1))
			facade.Go(s, "b", failing(20*ms, errBoom))
			facade.Go(s, "c", after(30*ms, 1))
			return nil
		})
		wantItems(t, items, "a=1@10ms", "end@20ms")
		if !errors.Is(err, errBoom) || rep.Err != err {
			t.Error(err)
		}
	})
}

// The reader stops after the first part; it is slower than the parts; it reads a stream of streams.
func TestStreamReader_graphqlcore260(t *testing.T) {
	var cancelled atomic.Int32
	three := func(ctx context.Context, s *facade.Scope) error {
		for i := range 3 {
			facade.Go(s, fmt.Sprint("p", i), func(ctx context.Context) (int, error) {
				err := sleep(ctx, time.Duration(10*i+10)*ms)
				if errors.Is(err, context.Canceled) {
					cancelled.Add(1)
				}
				return i, err
			})
		}
		return nil
	}
	t.Run("stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cancelled.Store(0)
			start := time.Now()
			for d, err := range facade.Stream(t.Context(), facade.Options{}, three) {
				if d.Name != "p0" || err != nil {
					t.Error(d, err)
				}
				break
			}
			if time.Since(start) != 10*ms || cancelled.Load() != 2 {
				t.Error(time.Since(start), cancelled.Load())
			}
		})
	})
	t.Run("is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			var last facade.Done
			for d := range facade.Stream(t.Context(), facade.Options{Timeout: 500 * ms}, three) {
				n++
				last = d
				time.Sleep(time.Second) // longer than the run has
			}
			if n != 4 || last.Report == nil || last.Report.Took != 30*ms || last.Report.Err != nil {
				t.Error(n, last)
			}
		})
	})
	t.Run("nests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			items, _, err := read(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
				facade.Go(s, "outer", func(ctx context.Context) (string, error) {
					items, _, err := read(ctx, facade.Options{}, three)
					return fmt.Sprint(len(items)), err
				})
				return nil
			})
			wantItems(t, items, "outer=4@30ms", "end@30ms")
			if err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cancelled.Store(0)
			defer func() {
				if v := recover(); v != "reader" || cancelled.Load() != 2 {
					t.Error(v, cancelled.Load())
				}
			}()
			for range facade.Stream(t.Context(), facade.Options{}, three) {
				panic("reader")
			}
		})
	})
}

func TestStreamOfAnEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items, _, _ := read(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
			facade.Each(s, "card", []int{30, 10}, func(ctx context.Context, n int) (int, error) {
				return n, sleep(ctx, time.Duration(n)*ms)
			})
			return nil
		})
		wantItems(t, items, "card[1]=10@10ms", "card[0]=30@30ms", "card=[30 10]@30ms", "end@30ms")
	})
}

func TestStreamEndsWithTheFunctionsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items, _, err := read(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
			facade.Go(s, "a", after(10*ms, 1))
			return errBoom
		})
		wantItems(t, items, "end@0s")
		if !errors.Is(err, errBoom) {
			t.Error(err)
		}
		_, _, err = read(t.Context(), facade.Options{}, nil)
		if e, ok := err.(*facade.Error); !ok || e.Kind != facade.Usage {
			t.Error(err)
		}
	})
}

func TestPanicOfAStreamsFunctionIsTheReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if v := recover(); v != errBoom {
				t.Error(v)
			}
		}()
		for d := range facade.Stream(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
			facade.Go(s, "a", after(10*ms, 1))
			panic(errBoom)
		}) {
			t.Error(d)
		}
	})
}

func TestGoexitOfAStreamsFunctionIsTheReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range facade.Stream(t.Context(), facade.Options{}, func(context.Context, *facade.Scope) error { runtime.Goexit(); return nil }) {
				t.Error("an item")
			}
			t.Error("the reader goes on")
		}()
		<-ended
	})
}

func TestStreamAtTheEndOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := &facade.Batch[int, int]{Name: "items", Load: (&backend{took: 5 * ms}).load}
		items, rep, err := read(t.Context(), facade.Options{Timeout: 500 * ms}, func(ctx context.Context, s *facade.Scope) error {
			facade.Go(s, "a", func(ctx context.Context) (int, error) { return batch.Get(ctx, 1) })
			facade.Go(s, "b", after(time.Minute, 1))
			return nil
		})
		wantItems(t, items, "a=10@7ms", "end@465ms")
		if e, ok := err.(*facade.Error); !ok || e.Kind != facade.TimedOut || e.Part != "b" || len(rep.Parts) != 3 {
			t.Error(err)
		}
	})
}

func TestStreamCanBeReadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seq := facade.Stream(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) error {
			facade.Go(s, "a", after(10*ms, 1))
			return nil
		})
		n := 0
		for range seq {
			n++
		}
		for range seq {
			n++
		}
		if n != 4 {
			t.Error(n)
		}
	})
}
