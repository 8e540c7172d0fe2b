package facade_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// Two parts rewrite requests that they were given the same input for: the facade adds nothing that they would share.
func TestPartsShareNothing_lura719(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := http.NewRequest("GET", "http://backend.test/in", nil)
		rewrite := func(path string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				out := in.Clone(ctx)
				out.URL.Path = path
				out.Header.Set("X-Path", path)
				return out.URL.Path + out.Header.Get("X-Path"), nil
			}
		}
		for range 1000 {
			_, _, err := facade.Do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
				a, b := facade.Go(s, "a", rewrite("/user-agent")), facade.Go(s, "b", rewrite("/ip"))
				if v, err := a.Get(ctx); v != "/user-agent/user-agent" || err != nil {
					t.Error(v, err)
				}
				if v, err := b.Get(ctx); v != "/ip/ip" || err != nil {
					t.Error(v, err)
				}
				return 0, nil
			})
			if err != nil || in.URL.Path != "/in" || len(in.Header) != 0 {
				t.Fatal(err, in)
			}
		}
	})
}

// Ten parts annotate at the same time, with maps of their own behind: each sees its own only.
func TestNotesOfPartsDoNotMix_lura105(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			_, err := facade.Each(s, "p", upTo(10), func(ctx context.Context, i int) (int, error) {
				for range 3 {
					facade.Annotate(ctx, slog.Int("i", i))
				}
				return i, nil
			}).Get(ctx)
			return 0, err
		})
		for i := range 10 {
			p := got.part(t, fmt.Sprintf("p[%d]", i))
			if len(p.Notes) != 3 || p.Notes[0].Value.Int64() != int64(i) || p.Notes[2].Value.Int64() != int64(i) {
				t.Error(p.Name, p.Notes)
			}
		}
	})
}

func TestEqualNameAndKeyAreOnePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			item := func(id int) *facade.Future[int] {
				return facade.Go(s, "item", func(context.Context) (int, error) {
					calls.Add(1)
					return id, nil
				}, facade.Part[int]{Key: id})
			}
			a, b, c := item(1), item(2), item(1)
			if a != c || a == b {
				t.Error("futures", a, b, c)
			}
			var many []*facade.Future[int] // past the point where a map takes over
			for id := range 40 {
				many = append(many, item(id), item(id))
			}
			if many[2] != a || many[4] != b || many[78] != many[79] {
				t.Error("not the same")
			}
			return sum(ctx, many...)
		})
		if got.err != nil || got.value != 39*40 || len(got.rep.Parts) != 40 {
			t.Error(got.value, got.err, len(got.rep.Parts))
		}
		if got.rep.Parts[0].Name != "item" || got.rep.Parts[1].Name != "item#2" || got.rep.Parts[39].Name != "item#40" {
			t.Error(got.rep.Parts[0].Name, got.rep.Parts[1].Name, got.rep.Parts[39].Name)
		}
		if n := calls.Load(); n != 40 {
			t.Error("calls:", n)
		}
	})
}

// shared is a service whose runs share one call.
type shared struct {
	share *facade.Share[int]
	calls atomic.Int32
	fn    func(context.Context) (int, error)
	wg    sync.WaitGroup
}

func newShared(fn func(context.Context) (int, error)) *shared {
	return &shared{fn: fn, share: &facade.Share[int]{Partition: func(ctx context.Context) string {
		user, _ := ctx.Value(userKey{}).(string)
		return user
	}}}
}

type userKey struct{}

func (s *shared) run(ctx context.Context) outcome {
	return do(ctx, facade.Options{}, get(func(ctx context.Context) (int, error) {
		s.calls.Add(1)
		return s.fn(ctx)
	}, facade.Part[int]{Key: 1, Share: s.share}))
}

func TestShareIsOneCallForManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(func(ctx context.Context) (int, error) {
			facade.Annotate(ctx, slog.String("cache", "MISS"))
			return 7, sleep(ctx, 20*ms)
		})
		var others atomic.Int32
		for range 5 {
			s.wg.Go(func() {
				got := s.run(t.Context())
				got.wantValue(t, 7, 20*ms)
				p := got.part(t, "part")
				if p.Shared {
					others.Add(1)
				}
				if len(p.Notes) != 1 {
					t.Error(p.Notes)
				}
			})
		}
		s.wg.Wait()
		if s.calls.Load() != 1 || others.Load() != 4 {
			t.Error(s.calls.Load(), "calls,", others.Load(), "shared")
		}
		s.run(t.Context()).wantValue(t, 7, 20*ms)
		if s.calls.Load() != 2 {
			t.Error("something was kept")
		}
	})
}

func TestShareNeverCrossesAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(func(ctx context.Context) (int, error) {
			return len(ctx.Value(userKey{}).(string)), sleep(ctx, 20*ms)
		})
		for _, user := range []string{"a", "bb", "ccc", "bb"} {
			s.wg.Go(func() {
				s.run(context.WithValue(t.Context(), userKey{}, user)).wantValue(t, len(user), 20*ms)
			})
		}
		s.wg.Wait()
		if s.calls.Load() != 3 {
			t.Error(s.calls.Load(), "calls")
		}
	})
}

// Three runs wait for one call, which the first began. (a) The first goes away; (b) all three do.
func TestSharedCallBelongsToNobody_strawberry4379(t *testing.T) {
	for name, leave := range map[string]int{"the first": 1, "all": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var ended time.Duration
				s := newShared(func(ctx context.Context) (int, error) {
					err := sleep(ctx, 100*ms)
					ended = time.Since(start)
					return 7, err
				})
				for i := range 3 {
					time.Sleep(1 * ms)
					s.wg.Go(func() {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if i < leave {
							time.AfterFunc(time.Duration(10*(i+1))*ms, cancel)
							s.run(ctx).wantError(t, facade.Cancelled, "", "", time.Duration(10*(i+1))*ms)
							return
						}
						s.run(ctx).wantValue(t, 7, 101*ms-time.Duration(i+1)*ms)
					})
				}
				s.wg.Wait()
				want := 101 * ms
				if leave == 3 {
					want = 33 * ms // when the third left
				}
				if ended != want || s.calls.Load() != 1 {
					t.Errorf("the call ended after %v, want %v; %d calls", ended, want, s.calls.Load())
				}
			})
		})
	}
}

// (a) the leader goes away; (b) a joiner does; (c) a joiner comes when its context has ended; (d) a joiner goes away and
// another one comes.
func TestSharedCallSurvivesItsCallers_undici5711(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(after(100*ms, 7))
		go1 := func(at, leave time.Duration) {
			s.wg.Go(func() {
				time.Sleep(at)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if leave == 0 {
					s.run(ctx).wantValue(t, 7, 100*ms-at)
					return
				}
				time.AfterFunc(leave-at, cancel)
				s.run(ctx).wantError(t, facade.Cancelled, "", "", leave-at)
			})
		}
		go1(0, 20*ms)     // the leader
		go1(1*ms, 30*ms)  // a joiner that leaves
		go1(2*ms, 0)      // one that stays
		go1(40*ms, 0)     // one that comes afterwards
		go1(50*ms, 50*ms) // and one that comes too late
		s.wg.Wait()
		if s.calls.Load() != 1 {
			t.Error(s.calls.Load(), "calls")
		}
	})
}

func TestShareKeepsPartsOfDifferentNamesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(nil)
		one := facade.Part[int]{Key: 1, Share: s.share}
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			return sum(ctx, facade.Go(s, "a", after(10*ms, 1), one), facade.Go(s, "b", after(10*ms, 2), one))
		})
		got.wantValue(t, 3, 10*ms)
	})
}

// A call that all have left is no call to join, even if it takes its time to end.
func TestSharedCallThatWasCancelledIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(deaf(100*ms, 7))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*ms, cancel)
		got := s.run(ctx)
		got.wantError(t, facade.Cancelled, "", "", 20*ms)
		if got.rep.Stragglers != 1 { // of the run that left last
			t.Error(got.rep.Waterfall())
		}
		s.run(t.Context()).wantValue(t, 7, 100*ms)
		if s.calls.Load() != 2 {
			t.Error(s.calls.Load(), "calls")
		}
	})
}

func TestPartThatIsOverBeginsNoSharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(nil)
		got := do(t.Context(), facade.Options{}, get(func(context.Context) (int, error) {
			t.Error("called")
			return 0, nil
		}, facade.Part[int]{
			Key: 1, Share: s.share, Optional: true, Timeout: 10 * ms,
			When: func(ctx context.Context) (bool, error) { <-ctx.Done(); return true, nil },
		}))
		got.wantValue(t, 0, 10*ms)
	})
}

func TestSharedCallHasALimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(after(time.Hour, 7))
		s.share.Timeout = 40 * ms
		got := s.run(t.Context())
		got.wantError(t, facade.TimedOut, "part", `facade: page: part "part": not done within the shared call's limit of 40ms`, 40*ms)
	})
}

func TestPanicOfASharedCallReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(func(ctx context.Context) (int, error) {
			time.Sleep(10 * ms)
			panic("oops")
		})
		for range 3 {
			s.wg.Go(func() {
				e := s.run(t.Context()).wantError(t, facade.Panicked, "part", "", 10*ms)
				if _, ok := errors.AsType[*facade.PanicError](e); !ok {
					t.Error(e)
				}
			})
		}
		s.wg.Wait()
	})
}

func TestSharedCallMustNotWaitForARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := &facade.Share[int]{Partition: func(context.Context) string { return "" }}
		batch := &facade.Batch[int, int]{Name: "items", Load: (&backend{}).load}
		for _, ask := range []func(context.Context, *facade.Future[int]) (int, error){
			func(ctx context.Context, f *facade.Future[int]) (int, error) { return f.Get(ctx) },
			func(ctx context.Context, _ *facade.Future[int]) (int, error) { return batch.Get(ctx, 1) },
		} {
			got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
				dep := facade.Go(s, "dep", after(10*ms, 1))
				return facade.Go(s, "part", func(ctx context.Context) (int, error) { return ask(ctx, dep) },
					facade.Part[int]{Key: 1, Share: share}).Get(ctx)
			})
			got.wantError(t, facade.Usage, "part", "", 0)
		}
	})
}
