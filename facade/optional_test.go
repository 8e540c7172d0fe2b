package facade_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// get is a page of one part.
func get(fn func(context.Context) (int, error), opt ...facade.Part[int]) pageFunc {
	return func(ctx context.Context, s *facade.Scope) (int, error) {
		return facade.Go(s, "part", fn, opt...).Get(ctx)
	}
}

func TestOptionalPartFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(context.Context) (int, error)
		kind facade.Kind
		took time.Duration
	}{
		"error":     {failing(10*ms, errBoom), facade.Failed, 10 * ms},
		"timeout":   {after(time.Second, 1), facade.TimedOut, 100 * ms},
		"its own":   {failing(10*ms, context.DeadlineExceeded), facade.TimedOut, 10 * ms},
		"hangs":     {deaf(110*ms, 1), facade.TimedOut, 100 * ms},
		"panic":     {func(context.Context) (int, error) { panic("oops") }, facade.Panicked, 0},
		"panic nil": {func(context.Context) (int, error) { panic(nil) }, facade.Panicked, 0}, //nolint:govet // what it becomes is the test
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opt := facade.Part[int]{Optional: true, Fallback: 7, Timeout: 100 * ms}
				got := do(t.Context(), facade.Options{}, get(c.fn, opt))
				if name == "hangs" {
					got.took -= 10 * ms // waited for it, within the grace
				}
				got.wantValue(t, 7, c.took)
				p := got.part(t, "part")
				if e, ok := p.Err.(*facade.Error); !ok || e.Kind != c.kind || e.Part != "part" || p.State != facade.StateFallback {
					t.Errorf("%v: %v", p.State, p.Err)
				}
				if got.rep.Complete {
					t.Error("complete")
				}
			})
		})
	}
}

func TestFallbackIsTheZeroValueIfNotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do(t.Context(), facade.Options{}, get(failing(0, errBoom), optional)).wantValue(t, 0, 0)
	})
}

func TestFallbackFunc(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(context.Context, error) (int, error)
		want int
		took time.Duration
		text string
	}{
		"succeeds": {func(context.Context, error) (int, error) { return 8, nil }, 8, 0, `facade: page: part "part": boom`},
		"in time":  {func(ctx context.Context, _ error) (int, error) { return 8, sleep(ctx, 40*ms) }, 8, 40 * ms, ""},
		"fails": {
			func(context.Context, error) (int, error) { return 8, errors.New("no stale answer") }, 7, 0,
			`facade: page: part "part": boom (fallback: no stale answer)`,
		},
		"too slow": {func(ctx context.Context, _ error) (int, error) { return 8, sleep(ctx, time.Second) }, 7, 50 * ms, ""},
		"hangs":    {func(context.Context, error) (int, error) { time.Sleep(55 * ms); return 8, nil }, 7, 55 * ms, ""},
		"panics":   {func(context.Context, error) (int, error) { panic("oops") }, 7, 0, `facade: page: part "part": boom (fallback: panic: oops)`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var saw error
				got := do(t.Context(), facade.Options{}, get(failing(0, errBoom), facade.Part[int]{
					Optional: true, Fallback: 7,
					FallbackFunc: func(ctx context.Context, err error) (int, error) {
						saw = err
						return c.fn(ctx, err)
					},
				}))
				got.wantValue(t, c.want, c.took)
				if !errors.Is(saw, errBoom) {
					t.Error("it was told", saw)
				}
				p := got.part(t, "part")
				if p.State != facade.StateFallback || !errors.Is(p.Err, errBoom) || c.text != "" && p.Err.Error() != c.text {
					t.Errorf("%v: %v", p.State, p.Err)
				}
				if p.Fallback != min(c.took, 50*ms) {
					t.Error("took", p.Fallback)
				}
			})
		})
	}
}

// A part that is late because the run is gets its fallback all the same: the grace is for that.
func TestFallbackFuncAtTheEndOfTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		fallback time.Duration
		want     int
		took     time.Duration
	}{
		"in time":  {5 * ms, 8, 470 * ms},
		"too slow": {time.Second, 7, 475 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{Timeout: 500 * ms}, get(after(time.Minute, 1), facade.Part[int]{
					Optional: true, Fallback: 7,
					FallbackFunc: func(ctx context.Context, err error) (int, error) { return 8, sleep(ctx, c.fallback) },
				}))
				got.wantValue(t, c.want, c.took)
				want := `facade: page: part "part": not done within the run's limit of 465ms`
				if err := got.part(t, "part").Err; c.want == 8 && err.Error() != want {
					t.Error(err)
				}
			})
		})
	}
}

func TestFallbackFuncThatRunsAtTheEndOfTheRunIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		got := do(t.Context(), facade.Options{Timeout: 500 * ms}, get(failing(460*ms, errBoom), facade.Part[int]{
			Optional:     true,
			FallbackFunc: func(ctx context.Context, _ error) (int, error) { calls++; return 8, sleep(ctx, 10*ms) },
		}))
		got.wantValue(t, 8, 470*ms)
		if p := got.part(t, "part"); calls != 1 || !errors.Is(p.Err, errBoom) {
			t.Error(calls, p.Err)
		}
	})
}

// A FallbackFunc may ask other parts: the page of the user falls back on the page of their group.
func TestFallbackFuncMayCallGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			group := facade.Go(s, "group", after(20*ms, 9))
			user := facade.Go(s, "user", failing(0, errBoom), facade.Part[int]{
				Optional:     true,
				FallbackFunc: func(ctx context.Context, _ error) (int, error) { return group.Get(ctx) },
			})
			return user.Get(ctx)
		})
		got.wantValue(t, 9, 20*ms)
	})
}

func TestWhenSkips(t *testing.T) {
	when := func(ok bool, err error) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return ok, err }
	}
	for name, c := range map[string]struct {
		opt   facade.Part[int]
		want  int
		state facade.State
	}{
		"yes":          {facade.Part[int]{When: when(true, nil)}, 1, facade.StateOK},
		"no":           {facade.Part[int]{When: when(false, nil)}, 0, facade.StateSkipped},
		"no, fallback": {facade.Part[int]{When: when(false, nil), Fallback: 7}, 7, facade.StateSkipped},
		"error": {
			facade.Part[int]{When: when(true, errBoom), Optional: true, Fallback: 7}, 7, facade.StateFallback,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{}, get(after(0, 1), c.opt))
				got.wantValue(t, c.want, 0)
				if p := got.part(t, "part"); p.State != c.state {
					t.Error(p.State, p.Err)
				}
				if got.rep.Complete != (c.state != facade.StateFallback) {
					t.Error("complete:", got.rep.Complete)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, get(after(0, 1), facade.Part[int]{When: when(true, errBoom)}))
		got.wantError(t, facade.Failed, "part", "", 0)
	})
}

// P1 is fast and P3's condition, which says no; P2 is slow and needed by P3 only.
func TestSkippedPartNeedsNothing_cff105(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			p1 := facade.Go(s, "p1", after(10*ms, false))
			p2 := facade.Go(s, "p2", after(5*time.Second, 2))
			p3 := facade.Go(s, "p3", func(ctx context.Context) (int, error) { return p2.Get(ctx) }, facade.Part[int]{
				When: func(ctx context.Context) (bool, error) { return p1.Get(ctx) },
			})
			return p3.Get(ctx)
		})
		got.wantValue(t, 0, 10*ms)
		got.wantStates(t, "p1=ok p2=unused p3=skipped")
	})
}

func TestPartThatAskedAFailedPartIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			user := facade.Go(s, "user", failing(10*ms, errBoom))
			ask := func(f *facade.Future[int]) func(context.Context) (int, error) {
				return func(ctx context.Context) (int, error) { return f.Get(ctx) }
			}
			recs := facade.Go(s, "recs", ask(user))
			more := facade.Go(s, "more", ask(recs), optional)
			return sum(ctx, more, facade.Go(s, "else", after(time.Second, 1)))
		})
		got.wantError(t, facade.Failed, "user", "", 10*ms)
		got.wantStates(t, "user=failed recs=skipped more=skipped else=cancelled")
	})
}
