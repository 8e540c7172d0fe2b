package fresh_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// counting answers "1", "2", … and fails from the nth on if from > 0.
func counting(from int) func(context.Context, int) outcome {
	return func(_ context.Context, nth int) outcome {
		if from > 0 && nth >= from {
			return failed()
		}
		return good(string(rune('0' + nth)))
	}
}

func TestEachStateServesAsPromised(t *testing.T) {
	const took = 100 * time.Millisecond
	for _, tc := range []struct {
		name  string
		age   time.Duration // of the value when it is read
		fail  bool          // what the flight brings
		slow  time.Duration // how long it takes instead of took
		value string        // "" for an error
		wait  time.Duration
		state fresh.State
		asked int // questions in all
	}{
		{name: "valid", age: 9 * time.Second, value: "1", state: fresh.Valid, asked: 1},
		{name: "soft, source fine", age: 15 * time.Second, value: "1", state: fresh.Soft, asked: 2},
		{name: "soft, source fails", age: 15 * time.Second, fail: true, value: "1", state: fresh.Soft, asked: 2},
		{name: "hard, source fine", age: 30 * time.Second, value: "2", wait: took, state: fresh.Valid, asked: 2},
		{name: "hard, source fails", age: 30 * time.Second, fail: true, value: "1", wait: took, state: fresh.Hard, asked: 2},
		{name: "hard, source slow", age: 30 * time.Second, slow: time.Second, value: "1", wait: 250 * time.Millisecond,
			state: fresh.Hard, asked: 2},
		{name: "expired, source fine", age: 90 * time.Second, value: "2", wait: took, state: fresh.Valid, asked: 2},
		{name: "expired, source fails", age: 90 * time.Second, fail: true, wait: took, asked: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &source{took: took, fetch: counting(0)}
			if tc.fail {
				src.fetch = counting(2)
			}
			bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
				if s := mustGet(t, v); s.Value != "1" {
					t.Fatalf("cold read gave %q", s.Value)
				}
				time.Sleep(tc.age)
				if tc.slow > 0 {
					src.took = tc.slow
				}
				var s *snapshot
				var err error
				wait := timed(func() { s, err = v.Get(t.Context()) })
				if tc.value == "" {
					if err != errSource {
						t.Errorf("error %v, want the source's", err)
					}
				} else if err != nil || s.Value != tc.value || s.State != tc.state {
					t.Fatalf("got %+v, %v, want %q in state %v", s, err, tc.value, tc.state)
				}
				if wait != tc.wait {
					t.Errorf("waited %v, want %v", wait, tc.wait)
				}
				synctest.Wait()
				if got := src.questions(); got != tc.asked {
					t.Errorf("%d questions, want %d", got, tc.asked)
				}
			})
		})
	}
}

func TestBackOffIsNotWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		name string
		age  time.Duration
		want string
	}{
		{"soft", 15 * time.Second, "1"},
		{"hard", 30 * time.Second, "1"},
		{"expired", 90 * time.Second, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &source{took: 50 * time.Millisecond, fetch: counting(2)}
			bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
				mustGet(t, v)
				time.Sleep(tc.age)
				v.Get(t.Context())
				time.Sleep(500 * time.Millisecond) // the try has failed, the next is due in half a second

				var s *snapshot
				var err error
				if wait := timed(func() { s, err = v.Get(t.Context()) }); wait != 0 {
					t.Errorf("waited %v during back-off", wait)
				}
				if tc.want == "" && err != errSource || tc.want != "" && (err != nil || s.Value != tc.want) {
					t.Errorf("got %+v, %v", s, err)
				}
				if got := src.questions(); got != 2 {
					t.Errorf("%d questions, want 2", got)
				}
				time.Sleep(600 * time.Millisecond)
				v.Get(t.Context())
				synctest.Wait()
				if got := src.questions(); got != 3 {
					t.Errorf("%d questions after the back-off, want 3", got)
				}
			})
		})
	}
}

func TestHundredReadersAtExpiryMakeOneFetch(t *testing.T) {
	src := &source{took: 100 * time.Millisecond, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(time.Hour)
		var wg sync.WaitGroup
		var bad atomic.Int32
		for range 100 {
			wg.Go(func() {
				if s, err := v.Get(t.Context()); err != nil || s.Value != "2" {
					bad.Add(1)
				}
			})
		}
		wg.Wait()
		if bad.Load() != 0 || src.questions() != 2 {
			t.Errorf("%d bad reads, %d questions, want 0 and 2", bad.Load(), src.questions())
		}
	})
}

func TestReaderWhoLeavesDoesNotEndTheFlight(t *testing.T) {
	src := &source{took: 100 * time.Millisecond, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := v.Get(ctx); err != context.DeadlineExceeded {
			t.Errorf("error %v, want the reader's own", err)
		}
		if s := mustGet(t, v); s.Value != "1" || src.questions() != 1 {
			t.Errorf("got %q after %d questions", s.Value, src.questions())
		}
	})
}

func TestAllReadersOfAFailureGetTheSameError(t *testing.T) {
	src := &source{took: 10 * time.Millisecond, fetch: func(context.Context, int) outcome {
		return outcome{Err: errors.New("new each time")}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		_, first := v.Get(t.Context())
		_, second := v.Get(t.Context())
		if first == nil || first != second {
			t.Errorf("%v and %v are different errors", first, second)
		}
	})
}

func TestTransientFailureIsNotKept(t *testing.T) {
	src := &source{fetch: func(_ context.Context, nth int) outcome {
		if nth == 1 {
			return outcome{Err: errSource, Transient: true}
		}
		return good("2")
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		if _, err := v.Get(t.Context()); err != errSource {
			t.Fatalf("error %v", err)
		}
		if s := mustGet(t, v); s.Value != "2" {
			t.Errorf("got %q", s.Value)
		}
	})
}

func TestEagerRefreshesWithoutReaders(t *testing.T) {
	src := &source{eager: true, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(35 * time.Second)
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}
		if !slices.Equal(src.times(), want) {
			t.Errorf("asked at %v, want %v", src.times(), want)
		}
		if want := []string{"cold", "soft", "soft", "soft"}; !slices.Equal(src.reasons, want) {
			t.Errorf("reasons %v, want %v", src.reasons, want)
		}
	})
}

func TestEagerTriesAgainByTimer(t *testing.T) {
	src := &source{eager: true, fetch: counting(2), delay: func(try fresh.Try) time.Duration {
		return time.Duration(try.Failures) * time.Second
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(17 * time.Second)
		want := []time.Duration{0, 10 * time.Second, 11 * time.Second, 13 * time.Second, 16 * time.Second}
		if !slices.Equal(src.times(), want) {
			t.Errorf("asked at %v, want %v", src.times(), want)
		}
	})
}

func TestUnreadValueCostsNoQuestion(t *testing.T) {
	src := &source{fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(time.Hour)
		if got := src.questions(); got != 1 {
			t.Errorf("%d questions, want 1", got)
		}
	})
}

func TestDegeneratePlansAndDelaysNeverMakeALoop(t *testing.T) {
	for name, src := range map[string]*source{
		"plan":  {eager: true, fetch: counting(0), plan: life(0, 0, 0)},
		"delay": {eager: true, fetch: counting(1), delay: func(fresh.Try) time.Duration { return -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
				v.Ask()
				time.Sleep(time.Second)
				if got := src.questions(); got < 40 || got > 52 {
					t.Errorf("%d questions in a second, want one per 20 ms", got)
				}
			})
		})
	}
}
