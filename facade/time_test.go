package facade_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

func TestTimeOfParts(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		caller time.Duration // 0: no deadline
		o      facade.Options
		parts  time.Duration
		do     time.Duration
	}{
		"the document's example": {500 * ms, facade.Options{}, 465 * ms, 475 * ms},
		"a timeout":              {0, facade.Options{Timeout: 500 * ms}, 465 * ms, 475 * ms},
		"the earlier: caller":    {500 * ms, facade.Options{Timeout: second}, 465 * ms, 475 * ms},
		"the earlier: timeout":   {second, facade.Options{Timeout: 500 * ms}, 465 * ms, 475 * ms},
		"neither":                {0, facade.Options{}, 29740 * ms, 29750 * ms},
		"long":                   {time.Hour, facade.Options{}, time.Hour - 260*ms, time.Hour - 250*ms},
		"short":                  {40 * ms, facade.Options{}, 32500 * time.Microsecond, 35 * ms},
		"very short":             {4 * ms, facade.Options{}, 1 * ms, 2 * ms},
		"reserve":                {second, facade.Options{Reserve: 100 * ms}, 890 * ms, 900 * ms},
		"small reserve":          {second, facade.Options{Reserve: 8 * ms}, 988 * ms, 992 * ms},
		"no reserve":             {second, facade.Options{Reserve: -1}, 990 * ms, second},
		"reserve over half":      {second, facade.Options{Reserve: 900 * ms}, 490 * ms, 500 * ms},
		"grace":                  {500 * ms, facade.Options{Grace: 50 * ms}, 425 * ms, 475 * ms},
		"no grace":               {500 * ms, facade.Options{Grace: -1}, 475 * ms, 475 * ms},
		"no slack at all":        {500 * ms, facade.Options{Reserve: -1, Grace: -1}, 500 * ms, 500 * ms},
		"grace over half":        {500 * ms, facade.Options{Grace: second}, 237500 * time.Microsecond, 475 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				start := time.Now()
				var parts time.Duration
				got := do(ctx, c.o, func(ctx context.Context, s *facade.Scope) (int, error) {
					facade.Go(s, "a", func(ctx context.Context) (int, error) {
						<-ctx.Done()
						parts = time.Since(start)
						return 0, ctx.Err()
					}, optional)
					<-ctx.Done()
					return 1, nil
				})
				synctest.Wait()
				if parts != c.parts || got.took != c.do {
					t.Errorf("parts had %v, Do took %v, want %v and %v", parts, got.took, c.parts, c.do)
				}
				if got.rep.Limit != c.parts {
					t.Error("limit in the report:", got.rep.Limit)
				}
			})
		})
	}
}

// Without grace the contexts of the function and of the parts end at the same instant, and both by time.
func TestContextsEndByTimeWithoutGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs [2]error
		got := do(t.Context(), facade.Options{Timeout: 500 * ms, Grace: -1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "a", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				errs[0] = ctx.Err()
				return 0, ctx.Err()
			}, optional)
			<-ctx.Done()
			errs[1] = ctx.Err()
			return 0, ctx.Err()
		})
		got.wantError(t, facade.TimedOut, "", "", 475*ms)
		synctest.Wait()
		for _, err := range errs {
			if err != context.DeadlineExceeded {
				t.Error(errs)
			}
		}
	})
}

func TestLateRequiredPartsAreAllNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Timeout: 500 * ms, Permits: 3}, func(ctx context.Context, s *facade.Scope) (int, error) {
			quick := facade.Go(s, "quick", after(10*ms, 1))
			heeds := facade.Go(s, "heeds", after(time.Minute, 1))
			facade.Go(s, "spare", after(time.Minute, 1), optional)
			facade.Go(s, "deaf", deaf(480*ms, 1)) // longer than the run
			facade.Go(s, "queued", after(time.Minute, 1))
			return sum(ctx, quick, heeds)
		})
		e := got.wantError(t, facade.TimedOut, "heeds",
			`facade: page: parts "heeds", "deaf", "queued": not done within the run's limit of 465ms`, 475*ms)
		if !errors.Is(e, context.DeadlineExceeded) || !e.Timeout() {
			t.Error("not a timeout")
		}
		got.wantStates(t, "quick=ok heeds=failed spare=cancelled deaf=failed queued=failed")
		time.Sleep(time.Second) // the bubble waits for stragglers
	})
}

// A required part times out at its own limit, while the caller has five seconds.
func TestTimeoutOfARequiredPart_krakendce949(t *testing.T) {
	for name, fn := range map[string]func(context.Context) (int, error){
		"heeds": after(time.Second, 1),
		"deaf":  deaf(105*ms, 1),
		"own": func(ctx context.Context) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, 100*ms)
			defer cancel()
			return after(time.Second, 1)(ctx)
		},
		"cause": func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				opt := facade.Part[int]{Timeout: 100 * ms}
				text := `facade: page: part "part": not done within the part's limit of 100ms`
				took := 100 * ms
				switch name {
				case "own":
					opt.Timeout = 0
					text = `facade: page: part "part": context deadline exceeded`
				case "deaf":
					took = 105 * ms
				}
				got := do(ctx, facade.Options{}, get(fn, opt))
				e := got.wantError(t, facade.TimedOut, "part", text, took)
				if !errors.Is(got.err, context.DeadlineExceeded) || !e.Timeout() {
					t.Error("not a timeout")
				}
				got.wantStates(t, "part=failed")
			})
		})
	}
}

// Connecting, reading and batching have limits of their own; the one that was over is named.
func TestTimeoutNamesItsLimit_ros2medkit638(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := errors.New("upstream catalog, attempt 2")
		got := do(t.Context(), facade.Options{Timeout: time.Second}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(time.Minute, 1), facade.Part[int]{Optional: true, Timeout: 80 * ms})
			b := facade.Go(s, "b", after(time.Minute, 1), optional)
			c := facade.Go(s, "c", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, errors.Join(slow, ctx.Err())
			}, facade.Part[int]{Optional: true, Timeout: 90 * ms})
			return sum(ctx, a, b, c)
		})
		got.wantValue(t, 0, 940*ms)
		for name, want := range map[string]string{
			"a": `facade: page: part "a": not done within the part's limit of 80ms`,
			"b": `facade: page: part "b": not done within the run's limit of 940ms`,
		} {
			if e := got.part(t, name).Err.(*facade.Error); e.Kind != facade.TimedOut || e.Error() != want {
				t.Error(e.Kind, e)
			}
		}
		if e := got.part(t, "c").Err.(*facade.Error); e.Kind != facade.TimedOut || !errors.Is(e, slow) && e.Err.Error() == "" {
			t.Error(e.Kind, e)
		}
	})
}

func TestTimeoutCountsFromThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(80*ms, 1))
			b := facade.Go(s, "b", after(80*ms, 2), facade.Part[int]{Timeout: 100 * ms})
			return sum(ctx, a, b)
		})
		got.wantValue(t, 3, 160*ms)
		if b := got.part(t, "b"); b.Queued != 80*ms || b.Took != 80*ms {
			t.Error(got.rep.Waterfall())
		}
	})
}

func TestTimeoutCountsTimeInGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", after(80*ms, 1))
			return facade.Go(s, "b", func(ctx context.Context) (int, error) {
				if _, err := a.Get(ctx); err != nil {
					return 0, err
				}
				return 2, sleep(ctx, 80*ms)
			}, facade.Part[int]{Timeout: 100 * ms}).Get(ctx)
		})
		got.wantError(t, facade.TimedOut, "b", "", 100*ms)
		if b := got.part(t, "b"); b.Parked != 80*ms {
			t.Error(got.rep.Waterfall())
		}
	})
}

func TestStragglerIsCountedAndItsResultDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "deaf", deaf(time.Minute, 9))
			facade.Go(s, "angry", func(context.Context) (int, error) {
				time.Sleep(time.Minute)
				panic("after the end")
			})
			return 1, sleep(ctx, 5*ms)
		})
		got.wantValue(t, 1, 15*ms)
		if got.rep.Stragglers != 2 || !got.part(t, "deaf").Late || got.part(t, "deaf").Took != 15*ms {
			t.Error(got.rep.Stragglers, got.rep.Waterfall())
		}
		got.wantStates(t, "deaf=unused angry=unused")
		before := got.rep.Waterfall()
		time.Sleep(time.Hour)
		if got.rep.Waterfall() != before {
			t.Error("the report changed")
		}
	})
}

func TestDoDoesNotWaitBeyondTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Timeout: 500 * ms}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "deaf", deaf(time.Minute, 9), optional)
			return 1, sleep(ctx, 470*ms)
		})
		got.wantValue(t, 1, 475*ms)
		if got.rep.Stragglers != 1 {
			t.Error(got.rep.Waterfall())
		}
		time.Sleep(time.Hour)
	})
}

// Hung functions must not use up the permits.
func TestPermitOfAStragglerIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{Permits: 1}, func(ctx context.Context, s *facade.Scope) (int, error) {
			a := facade.Go(s, "a", deaf(time.Minute, 1), facade.Part[int]{Optional: true, Timeout: 20 * ms})
			return sum(ctx, a, facade.Go(s, "b", after(10*ms, 2)))
		})
		got.wantValue(t, 2, 40*ms) // 10 ms of grace for a
		time.Sleep(time.Hour)
	})
}

func TestFunctionThatHeedsItsContextIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned := false
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "tidy", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(8 * ms)
				cleaned = true
				return 0, ctx.Err()
			})
			synctest.Wait()
			return 1, nil
		})
		got.wantValue(t, 1, 8*ms)
		if !cleaned || got.rep.Stragglers != 0 {
			t.Error("Do did not wait")
		}
	})
}

func TestContextOfAPartEndsWithTheRunAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept [2]context.Context
		do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			keep := func(i int) func(context.Context) (int, error) {
				return func(ctx context.Context) (int, error) {
					kept[i] = ctx //nolint:fatcontext // used when it is over
					return 1, nil
				}
			}
			a := facade.Go(s, "a", keep(0))
			b := facade.Go(s, "b", keep(1), facade.Part[int]{Timeout: time.Second})
			n, err := sum(ctx, a, b)
			if kept[0].Err() != nil || kept[1].Err() != nil {
				t.Error("a value may still depend on the context of its part")
			}
			return n, err
		})
		for _, ctx := range kept {
			if ctx.Err() != context.Canceled {
				t.Error("lives on:", ctx)
			}
		}
	})
}
