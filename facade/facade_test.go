package facade_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

const ms = time.Millisecond

var errBoom = errors.New("boom")

// after is a part that returns v after d, or its context's error.
func after[T any](d time.Duration, v T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return v, sleep(ctx, d) }
}

// failing is a part that fails after d.
func failing(d time.Duration, err error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if e := sleep(ctx, d); e != nil {
			return 0, e
		}
		return 0, err
	}
}

// deaf is a part that does not heed its context.
func deaf[T any](d time.Duration, v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		<-time.NewTimer(d).C
		return v, nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// story runs fn in a bubble and gives it the outcome to look at, with the time it took.
type outcome struct {
	value int
	rep   *facade.Report
	err   error
	took  time.Duration
}

type pageFunc = func(context.Context, *facade.Scope) (int, error)

func do(ctx context.Context, o facade.Options, fn pageFunc) outcome {
	start := time.Now()
	if o.Name == "" {
		o.Name = "page"
	}
	v, rep, err := facade.Do(ctx, o, fn)
	return outcome{v, rep, err, time.Since(start)}
}

func (o outcome) part(t *testing.T, name string) facade.PartReport {
	t.Helper()
	for _, p := range o.rep.Parts {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no part %q in the report:\n%s", name, o.rep.Waterfall())
	return facade.PartReport{}
}

// wantStates compares the states of all parts, written as "user=ok recs=fallback".
func (o outcome) wantStates(t *testing.T, want string) {
	t.Helper()
	got := ""
	for i, p := range o.rep.Parts {
		if i > 0 {
			got += " "
		}
		got += p.Name + "=" + p.State.String()
	}
	if got != want {
		t.Errorf("states\n got %s\nwant %s", got, want)
	}
}

func (o outcome) wantValue(t *testing.T, v int, took time.Duration) {
	t.Helper()
	if o.err != nil || o.value != v || o.took != took {
		t.Errorf("got %d, %v after %v, want %d after %v", o.value, o.err, o.took, v, took)
	}
	if o.rep.Err != nil {
		t.Error("the report of a run that succeeded has the error", o.rep.Err)
	}
}

func (o outcome) wantError(t *testing.T, kind facade.Kind, part, text string, took time.Duration) *facade.Error {
	t.Helper()
	e, ok := o.err.(*facade.Error)
	if !ok {
		t.Fatalf("got the error %v of type %T", o.err, o.err)
	}
	if e.Kind != kind || e.Part != part || o.took != took || o.value != 0 {
		t.Errorf("got %d, %v %q after %v, want 0, %v %q after %v", o.value, e.Kind, e.Part, o.took, kind, part, took)
	}
	if text != "" && e.Error() != text {
		t.Errorf("text\n got %s\nwant %s", e, text)
	}
	if o.rep.Err != o.err || o.rep.Complete {
		t.Errorf("report: error %v, complete %v", o.rep.Err, o.rep.Complete)
	}
	return e
}

// sum gets all futures, one after the other.
func sum(ctx context.Context, parts ...*facade.Future[int]) (total int, err error) {
	for _, p := range parts {
		n, err := p.Get(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

var optional = facade.Part[int]{Optional: true}

func TestPartsRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(100*ms, 1))
			b := facade.Go(s, "b", after(200*ms, 2))
			return sum(ctx, a, b)
		})
		got.wantValue(t, 3, 200*ms)
		got.wantStates(t, "a=ok b=ok")
		if !got.rep.Complete {
			t.Error("not complete")
		}
	})
}

func TestPartsSeeTheCallersValuesAndTheRunsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), 500*ms)
		defer cancel()
		start := time.Now()
		got := do(ctx, facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			if d, _ := ctx.Deadline(); d.Sub(start) != 475*ms {
				t.Error("fn has until", d.Sub(start))
			}
			return sum(ctx, facade.Go(s, "a", func(ctx context.Context) (int, error) {
				if d, _ := ctx.Deadline(); d.Sub(start) != 465*ms {
					t.Error("parts have until", d.Sub(start))
				}
				return ctx.Value(key{}).(int), nil
			}))
		})
		got.wantValue(t, 7, 0)
	})
}

// A -> {B required, C required}; C answers 404 after 10 ms, B would take 2 s.
func TestRequiredFailureEndsTheRun_krakendce379(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notFound := statusError(404)
		var cause error
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(0, 1))
			b := facade.Go(s, "b", func(ctx context.Context) (int, error) {
				if _, err := a.Get(ctx); err != nil {
					return 0, err
				}
				err := sleep(ctx, 2*time.Second)
				cause = context.Cause(ctx)
				return 1, err
			})
			c := facade.Go(s, "c", func(ctx context.Context) (int, error) {
				if _, err := a.Get(ctx); err != nil {
					return 0, err
				}
				return failing(10*ms, notFound)(ctx)
			})
			return sum(ctx, b, c)
		})
		e := got.wantError(t, facade.Failed, "c", `facade: page: part "c": status 404`, 10*ms)
		if status, ok := errors.AsType[statusError](e); !ok || status != 404 {
			t.Error("the status is lost:", e)
		}
		if cause != got.err {
			t.Errorf("cause seen by b: %v", cause)
		}
		got.wantStates(t, "a=ok b=cancelled c=failed")
	})
}

type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

func TestRequiredFailureCountsAlsoIfNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "a", failing(10*ms, errBoom))
			return sum(ctx, facade.Go(s, "b", after(time.Second, 1)))
		})
		got.wantError(t, facade.Failed, "a", "", 10*ms)
	})
}

// Part 1 fails while the caller's goroutine is still starting parts 2 to 1,000 of which 10 run at once.
func TestFirstFailureWins_go27837(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := make([]bool, 1000)
		var mu sync.Mutex
		var causes []error
		got := do(t.Context(), facade.Options{Permits: 10}, func(ctx context.Context, s *facade.Scope) (int, error) {
			var parts []*facade.Future[int]
			for i := range ran {
				parts = append(parts, facade.Go(s, fmt.Sprint("p", i), func(ctx context.Context) (int, error) {
					ran[i] = true
					if i == 0 {
						return failing(1*ms, errBoom)(ctx)
					}
					err := sleep(ctx, time.Second)
					mu.Lock()
					causes = append(causes, context.Cause(ctx))
					mu.Unlock()
					return 0, err
				}))
				if i == 500 {
					time.Sleep(2 * ms) // the rest is declared after the failure
				}
			}
			return sum(ctx, parts...)
		})
		e := got.wantError(t, facade.Failed, "p0", "", 2*ms)
		if !errors.Is(e, errBoom) || errors.Is(e, context.Canceled) {
			t.Error(e)
		}
		if len(got.rep.Parts) != len(ran) {
			t.Fatal("listed:", len(got.rep.Parts))
		}
		for i, p := range got.rep.Parts[1:] {
			want := facade.StateSkipped
			if ran[i+1] {
				want = facade.StateCancelled
			}
			if p.State != want {
				t.Errorf("%s ran %v: %v", p.Name, ran[i+1], p.State)
			}
		}
		for _, c := range causes {
			if !errors.Is(c, errBoom) {
				t.Error("a sibling saw", c)
			}
		}
		if len(causes) != 9 {
			t.Error("siblings that ran:", len(causes))
		}
	})
}

func TestGoAfterAFailureStartsNothing_go61611(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			_, err := facade.Go(s, "a", failing(0, errBoom)).Get(ctx)
			late := facade.Go(s, "late", func(context.Context) (int, error) {
				t.Error("called")
				return 0, nil
			})
			if late.State() != facade.StateSkipped {
				t.Error("state", late.State())
			}
			if _, lateErr := late.Get(ctx); lateErr != err || !errors.Is(err, errBoom) {
				t.Errorf("Get: %v, after %v", lateErr, err)
			}
			list := facade.Each(s, "list", []int{1, 2}, func(context.Context, int) (int, error) {
				t.Error("called")
				return 0, nil
			})
			if _, lateErr := list.Get(ctx); lateErr != err {
				t.Errorf("Get: %v", lateErr)
			}
			return 1, nil // no value can save the run
		})
		got.wantError(t, facade.Failed, "a", "", 0)
		got.wantStates(t, "a=failed late=skipped list=skipped list[0]=skipped list[1]=skipped")
	})
}

func TestErrorOfTheFunctionIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "a", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return 0, ctx.Err()
			})
			synctest.Wait()
			return 5, errBoom
		})
		e := got.wantError(t, facade.Failed, "", "facade: page: boom", 0)
		if cause != e {
			t.Error("cause:", cause)
		}
		got.wantStates(t, "a=cancelled")
	})
}

func TestPartsThatNobodyNeedsAreUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "slow", after(time.Second, 1))
			facade.Go(s, "failing", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, errBoom // cannot fail the run any more
			})
			return sum(ctx, facade.Go(s, "fast", after(10*ms, 7)))
		})
		got.wantValue(t, 7, 10*ms)
		got.wantStates(t, "slow=unused failing=unused fast=ok")
		if !got.rep.Complete || got.part(t, "slow").Took != 10*ms {
			t.Error(got.rep.Waterfall())
		}
	})
}

func TestCallerGoneIsCancelledWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(30*ms, func() { cancel(errBoom) })
		got := do(ctx, facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			n, err := sum(ctx, facade.Go(s, "a", after(time.Second, 1)), facade.Go(s, "b", after(time.Second, 1), optional))
			if e, ok := err.(*facade.Error); !ok || e.Kind != facade.Cancelled {
				t.Errorf("Get: %v", err)
			}
			return n, err
		})
		e := got.wantError(t, facade.Cancelled, "", "facade: page: cancelled by the caller: context canceled: boom", 30*ms)
		if !errors.Is(e, context.Canceled) || !errors.Is(e, errBoom) || e.Timeout() {
			t.Error(e)
		}
		got.wantStates(t, "a=cancelled b=cancelled")
	})
}

func TestContextThatHasEndedStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fn := func(context.Context, *facade.Scope) (int, error) {
			t.Error("called")
			return 0, nil
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		do(gone, facade.Options{}, fn).wantError(t, facade.Cancelled, "", "", 0)
		late, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		do(late, facade.Options{}, fn).wantError(t, facade.TimedOut, "", "", 0)
	})
}

func TestScopeIsNoUseAfterItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var scope *facade.Scope
		do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			scope = s
			return 1, nil
		})
		f := facade.Go(scope, "late", func(context.Context) (int, error) {
			t.Error("called")
			return 0, nil
		})
		if _, err := f.Get(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}
