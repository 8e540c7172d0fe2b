package facade_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/facade"
)

func TestErrorText(t *testing.T) {
	inner := &facade.Error{Run: "page", Part: "items/1", Kind: facade.Failed, Err: errBoom}
	other := &facade.Error{Run: "menu", Part: "dish", Kind: facade.Failed, Err: errBoom}
	many := []string{"b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for want, e := range map[string]*facade.Error{
		`facade: page: part "a": boom`:                                          {Run: "page", Part: "a", Kind: facade.Failed, Err: errBoom},
		`facade: part "a": boom`:                                                {Part: "a", Kind: facade.Failed, Err: errBoom},
		`facade: page: boom`:                                                    {Run: "page", Kind: facade.Failed, Err: errBoom},
		`facade: page: part "a": timeout`:                                       {Run: "page", Part: "a", Kind: facade.TimedOut},
		`facade: page: part "a": part "items/1": boom`:                          {Run: "page", Part: "a", Kind: facade.Failed, Err: inner},
		`facade: page: part "a": facade: menu: part "dish": boom`:               {Run: "page", Part: "a", Kind: facade.Failed, Err: other},
		`facade: page: parts wait for each other: a -> b -> a`:                  {Run: "page", Part: "a", Also: []string{"b"}, Kind: facade.Cycle},
		`facade: page: parts "a", "b\n": late`:                                  {Run: "page", Part: "a", Also: []string{"b\n"}, Kind: facade.TimedOut, Err: errors.New("late")},
		`facade: parts "a", "b", "c", "d", "e", "f", "g", "h" and 2 more: late`: {Part: "a", Also: many, Kind: facade.TimedOut, Err: errors.New("late")},
	} {
		if e.Error() != want {
			t.Errorf("got  %s\nwant %s", e, want)
		}
		if (e.Path() != nil) != (e.Kind == facade.Cycle) {
			t.Error(e.Path())
		}
	}
}

// timeout is an error that says so only by its method, as those of package net.
type timeout struct{}

func (timeout) Error() string { return "i/o timeout" }
func (timeout) Timeout() bool { return true }

func TestKindOfAPartsError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind facade.Kind
	}{
		"plain":                    {errBoom, facade.Failed},
		"deadline":                 {fmt.Errorf("get: %w", context.DeadlineExceeded), facade.TimedOut},
		"says timeout":             {fmt.Errorf("get: %w", timeout{}), facade.TimedOut},
		"its own cancellation":     {context.Canceled, facade.Failed},
		"an inner run's timeout":   {&facade.Error{Kind: facade.TimedOut}, facade.TimedOut},
		"an inner run's mistake":   {&facade.Error{Kind: facade.Usage}, facade.Usage},
		"an inner run's caller":    {&facade.Error{Kind: facade.Cancelled}, facade.Failed},
		"an inner run's panic":     {&facade.Error{Kind: facade.Panicked}, facade.Panicked},
		"a panic it has recovered": {&facade.PanicError{Value: 1}, facade.Panicked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{}, get(failing(0, c.err)))
				if e := got.wantError(t, c.kind, "part", "", 0); !errors.Is(e, c.err) {
					t.Error("the error is lost")
				}
				got = do(t.Context(), facade.Options{}, func(context.Context, *facade.Scope) (int, error) { return 0, c.err })
				got.wantError(t, c.kind, "", "", 0)
			})
		})
	}
}

func TestCauseOfALimitNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do(t.Context(), facade.Options{Timeout: 500 * ms}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "a", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				cause := context.Cause(ctx)
				if cause.Error() != "not done within the run's limit of 465ms" || !errors.Is(cause, context.DeadlineExceeded) {
					t.Error(cause)
				}
				var timed interface{ Timeout() bool }
				if !errors.As(cause, &timed) || !timed.Timeout() {
					t.Error("it does not say that it is a timeout")
				}
				return 0, cause
			}, optional)
			<-ctx.Done()
			return 0, ctx.Err()
		}).wantError(t, facade.TimedOut, "", "facade: page: not done within the run's limit of 475ms", 475*ms)
	})
}

// A context may be printed while its part runs.
func TestContextOfAPartCanBePrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, get(func(ctx context.Context) (int, error) {
			for range 100 {
				if s := fmt.Sprint(ctx); s != `facade part "part"` {
					t.Error(s)
				}
			}
			return 1, nil
		}))
		got.wantValue(t, 1, 0)
	})
}
