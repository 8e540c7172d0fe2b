package facade_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

func TestMistakesNameTheirPart(t *testing.T) {
	fn := after(0, 1)
	type (
		scope = *facade.Scope
		opt   = facade.Part[int]
	)
	share := &facade.Share[int]{Partition: func(context.Context) string { return "" }}
	declare := func(name string, opts ...opt) func(scope) {
		return func(s scope) { facade.Go(s, name, fn, opts...) }
	}
	for text, do1 := range map[string]func(scope){
		`a part has no name`:                              declare(""),
		`part "a": the function is nil`:                   func(s scope) { facade.Go[int](s, "a", nil) },
		`part "b": the name is used twice, without a Key`: func(s scope) { declare("b")(s); declare("b")(s) },
		`part "c": the name is used twice, without a Key`: func(s scope) { declare("c")(s); declare("c", opt{Key: 1})(s) },
		`part "d": more than one Part value`:              declare("d", opt{}, opt{}),
		`part "e": Fallback without Optional or When`:     declare("e", opt{Fallback: 1}),
		`part "f": FallbackFunc without Optional`:         declare("f", opt{FallbackFunc: func(context.Context, error) (int, error) { return 0, nil }}),
		`part "g": Share without Key`:                     declare("g", opt{Share: share}),
		`part "h": Share without Partition`:               declare("h", opt{Key: 1, Share: &facade.Share[int]{}}),
		`part "i": Timeout is negative: -1ns`:             declare("i", opt{Timeout: -1}),
		`part "j": Key is not comparable`:                 declare("j", opt{Key: []int{1}}),
		`part "k": Limit without Max`:                     declare("k", opt{Limit: &facade.Limit{}}),
		`part "l": Share.Timeout is negative`:             declare("l", opt{Key: 1, Share: &facade.Share[int]{Partition: share.Partition, Timeout: -1}}),
		`part "m": more than 10000 parts`: func(s scope) {
			facade.Each(s, "m", make([]int, 10_001), func(context.Context, int) (int, error) { return 0, nil })
		},
		`part "n": the function is nil`: func(s scope) { facade.Each[int, int](s, "n", nil, nil) },
		`part "o": Share is not for Each`: func(s scope) {
			facade.Each(s, "o", nil, func(context.Context, int) (int, error) { return 0, nil }, opt{Key: 1, Share: share})
		},
		`part "p": the name is used twice, without a Key`: func(s scope) {
			declare("p")(s)
			facade.Each(s, "p", []int{1}, func(context.Context, int) (int, error) { return 0, nil })
		},
		`part "q": two parts with an equal Key have values of different types`: func(s scope) {
			declare("q", opt{Key: 1})(s)
			facade.Go(s, "q", after(0, ""), facade.Part[string]{Key: 1})
		},
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
					do1(s)
					return 1, nil
				})
				part := ""
				if strings.HasPrefix(text, "part ") {
					part = text[len(`part "`):len(`part "x`)]
				}
				got.wantError(t, facade.Usage, part, "facade: page: "+text, 0)
			})
		})
	}
}

func TestMistakeOfAnOptionalPartFailsTheRunToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			f := facade.Go[int](s, "a", nil, optional)
			return f.Get(ctx)
		})
		got.wantError(t, facade.Usage, "a", "", 0)
	})
}

func TestTooManyParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Each(s, "many", make([]int, 9_998), func(context.Context, int) (int, error) { return 0, nil })
			facade.Go(s, "last", after(0, 1))
			if f := facade.Go(s, "over", after(0, 1)); f.State() != facade.StateSkipped {
				t.Error(f.State())
			}
			return 1, nil
		})
		got.wantError(t, facade.Usage, "over", `facade: page: part "over": more than 10000 parts`, 0)
	})
}

func TestOptionsMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do(t.Context(), facade.Options{}, nil).wantError(t, facade.Usage, "", "facade: page: the function of the run is nil", 0)
		got := do(t.Context(), facade.Options{Timeout: -1}, func(context.Context, *facade.Scope) (int, error) {
			t.Error("called")
			return 0, nil
		})
		got.wantError(t, facade.Usage, "", "facade: page: Options.Timeout is negative: -1ns", 0)
	})
}

func TestFuturesAndScopesOfNoRun(t *testing.T) {
	var f facade.Future[int]
	if _, err := f.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	for _, s := range []*facade.Scope{nil, {}} {
		_, err := facade.Go(s, "a", after(0, 1)).Get(t.Context())
		if e, ok := err.(*facade.Error); !ok || e.Kind != facade.Usage {
			t.Error(err)
		}
	}
}

func TestPanicsAreContained(t *testing.T) {
	for name, c := range map[string]struct {
		fn    func(*testing.T, context.Context) (int, error)
		value any
		text  string
	}{
		"error": {func(*testing.T, context.Context) (int, error) { panic(errBoom) }, errBoom, `facade: page: part "part": panic: boom`},
		"text":  {func(*testing.T, context.Context) (int, error) { panic("oops") }, "oops", `facade: page: part "part": panic: oops`},
		"goexit": {
			func(t *testing.T, _ context.Context) (int, error) { (&testing.T{}).FailNow(); return 0, nil }, nil,
			`facade: page: part "part": runtime.Goexit was called`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := do(t.Context(), facade.Options{}, get(func(ctx context.Context) (int, error) { return c.fn(t, ctx) }))
				e := got.wantError(t, facade.Panicked, "part", c.text, 0)
				p, ok := errors.AsType[*facade.PanicError](e)
				if !ok || p.Part != "part" || p.Value != c.value || !strings.Contains(string(p.Stack), "usage_test.go") {
					t.Errorf("%+v", p)
				}
				if c.value == errBoom && !errors.Is(e, errBoom) {
					t.Error("the value is lost")
				}
			})
		})
	}
}

func TestPanicOfTheFunctionGoesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rep *facade.Report
		ended := false
		func() {
			defer func() {
				if v := recover(); v != errBoom {
					t.Error(v)
				}
			}()
			do(t.Context(), facade.Options{OnRun: func(r *facade.Report) { rep = r }}, func(ctx context.Context, s *facade.Scope) (int, error) {
				facade.Go(s, "a", func(ctx context.Context) (int, error) {
					<-ctx.Done()
					ended = true
					return 0, ctx.Err()
				})
				synctest.Wait()
				panic(errBoom)
			})
		}()
		if !ended {
			t.Error("the part runs on")
		}
		e, ok := rep.Err.(*facade.Error)
		if !ok || e.Kind != facade.Panicked || e.Error() != "facade: page: panic: boom" {
			t.Error(rep.Err)
		}
		if p, ok := errors.AsType[*facade.PanicError](e); !ok || !strings.Contains(string(p.Stack), "TestPanicOfTheFunctionGoesUp") {
			t.Error("without the stack")
		}
	})
}

// OnPart gets the future of its own part and starts another one: it runs under no lock, after the part is settled.
func TestOnPartMayUseTheRun_dataloader119(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := make(map[string]facade.State)
		var scope *facade.Scope
		parts := make(chan *facade.Future[int], 1)
		o := facade.Options{OnPart: func(p facade.PartReport) {
			mu.Lock()
			seen[p.Name] = p.State
			mu.Unlock()
			if p.Name != "a" {
				return
			}
			a := <-parts
			parts <- a
			if n, err := a.Get(t.Context()); n != 1 || err != nil || a.State() != facade.StateOK {
				t.Error(n, err, a.State())
			}
			facade.Go(scope, "b", after(10*ms, 2))
		}}
		got := do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) {
			scope = s
			a := facade.Go(s, "a", after(10*ms, 1))
			parts <- a
			facade.Go(s, "poor", failing(0, errBoom), optional)
			facade.Go(s, "unused", after(time.Minute, 1))
			return sum(ctx, a, facade.Go(s, "c", after(15*ms, 1)))
		})
		got.wantValue(t, 2, 15*ms)
		want := map[string]facade.State{
			"a": facade.StateOK, "b": facade.StateUnused, "c": facade.StateOK,
			"poor": facade.StateFallback, "unused": facade.StateUnused,
		}
		for name, state := range want {
			if seen[name] != state {
				t.Errorf("%s: %v, want %v", name, seen[name], state)
			}
		}
		if len(seen) != len(want) {
			t.Error(seen)
		}
	})
}

func TestDoWaitsForOnPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		o := facade.Options{OnPart: func(facade.PartReport) { time.Sleep(5 * ms); done = true }}
		do(t.Context(), o, get(after(0, 1))).wantValue(t, 1, 5*ms)
		if !done {
			t.Error("Do did not wait")
		}
	})
}

func TestPanicOfOnPartFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := facade.Options{OnPart: func(p facade.PartReport) {
			if p.Name == "a" {
				panic("oops")
			}
		}}
		got := do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) {
			return sum(ctx, facade.Go(s, "a", after(0, 1)), facade.Go(s, "b", after(time.Minute, 1)))
		})
		got.wantError(t, facade.Panicked, "a", `facade: page: part "a": panic: oops`, 0)

		// Also when the run has its value already.
		got = do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Go(s, "a", after(time.Minute, 1))
			return 1, nil
		})
		got.wantError(t, facade.Panicked, "a", `facade: page: part "a": panic: oops`, 0)
	})
}

func TestGoexitOfTheFunctionEndsTheParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, left := false, make(chan struct{})
		go func() {
			defer close(left)
			do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
				facade.Go(s, "a", func(ctx context.Context) (int, error) {
					<-ctx.Done()
					ended = true
					return 0, ctx.Err()
				})
				synctest.Wait()
				runtime.Goexit()
				return 0, nil
			})
		}()
		<-left
		if !ended {
			t.Error("the part runs on")
		}
	})
}
