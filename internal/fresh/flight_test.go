package fresh_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

func TestForcePassesBackOffAndKeepsItsGap(t *testing.T) {
	src := &source{fetch: counting(1), delay: func(fresh.Try) time.Duration { return time.Hour }}
	bubble(t, src, fresh.Options{MinGap: time.Second}, func(t *testing.T, v *fresh.Value[string]) {
		v.Get(t.Context())
		if !v.Force("first") {
			t.Error("the first Force did not start a flight")
		}
		synctest.Wait()
		if v.Force("second") {
			t.Error("the second Force came at once")
		}
		time.Sleep(5 * time.Second)
		if want := []time.Duration{0, 0, time.Second}; !slices.Equal(src.times(), want) {
			t.Errorf("asked at %v, want %v", src.times(), want)
		}
		if want := []string{"cold", "first", "second"}; !slices.Equal(src.reasons, want) {
			t.Errorf("reasons %v, want %v", src.reasons, want)
		}
	})
}

func TestReaderWhoBeginsAForcedFlightKeepsItsGap(t *testing.T) {
	src := &source{fetch: counting(0)}
	bubble(t, src, fresh.Options{MinGap: time.Second}, func(t *testing.T, v *fresh.Value[string]) {
		v.Force("first")
		synctest.Wait()
		v.Force("second") // is to wait for a second
		time.Sleep(500 * time.Millisecond)
		v.Adjust(func(*snapshot) fresh.Plan { return fresh.Plan{End: time.Now()} })
		mustGet(t, v) // begins it sooner
		v.Force("third")
		time.Sleep(5 * time.Second)
		if want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}; !slices.Equal(src.times(), want) {
			t.Errorf("asked at %v, want %v", src.times(), want)
		}
	})
}

func TestForceJoinsTheFlightInProgress(t *testing.T) {
	src := &source{took: time.Second, fetch: counting(0)}
	bubble(t, src, fresh.Options{MinGap: time.Second}, func(t *testing.T, v *fresh.Value[string]) {
		v.Ask()
		if !v.Force("now") {
			t.Error("no flight")
		}
		time.Sleep(time.Minute)
		if got := src.questions(); got != 1 {
			t.Errorf("%d questions, want 1", got)
		}
	})
}

func TestValuePastItsEndIsGivenOnceAFlightAfterItFailed(t *testing.T) {
	src := &source{took: 100 * time.Millisecond, fetch: counting(2), plan: func(_ string, now time.Time) fresh.Plan {
		return fresh.Plan{Soft: now.Add(10 * time.Second), End: now.Add(20 * time.Second), Last: now.Add(time.Minute)}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(15 * time.Second)
		mustGet(t, v) // soft; this flight fails, but it began before the end
		time.Sleep(15 * time.Second)
		for _, want := range []time.Duration{100 * time.Millisecond, 0} {
			var s *snapshot
			if wait := timed(func() { s = mustGet(t, v) }); wait != want || s.Value != "1" || s.State != fresh.Expired {
				t.Errorf("waited %v for %+v, want %v and the old value", wait, s, want)
			}
		}
		time.Sleep(2 * time.Second)
		if wait := timed(func() { mustGet(t, v) }); wait != 0 || src.questions() != 4 {
			t.Errorf("waited %v, %d questions; want the old value at once, and a try behind it", wait, src.questions())
		}
		time.Sleep(time.Minute)
		if _, err := v.Get(t.Context()); err != errSource {
			t.Errorf("past Last: %v", err)
		}
	})
}

func TestRejectedValueWaitsForTheForcedFlight(t *testing.T) {
	src := &source{took: 100 * time.Millisecond, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		v.Adjust(func(s *snapshot) fresh.Plan { // as an owner does whose value was turned down
			return fresh.Plan{End: time.Now(), Last: s.Plan.End}
		})
		v.Force("rejected")
		if s := mustGet(t, v); s.Value != "2" {
			t.Errorf("got %q, want the new value", s.Value)
		}
	})
}

func TestPanicAndGoexitAreFailures(t *testing.T) {
	boom := errors.New("boom")
	src := &source{fetch: func(_ context.Context, nth int) outcome {
		if nth == 1 {
			panic(boom)
		}
		runtime.Goexit()
		return outcome{}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		_, err := v.Get(t.Context())
		if p, ok := errors.AsType[*fresh.PanicError](err); !ok || !errors.Is(err, boom) || len(p.Stack) == 0 {
			t.Errorf("error %v, want the panic with its stack", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := v.Get(t.Context()); err != fresh.ErrGoexit {
			t.Errorf("error %v, want ErrGoexit", err)
		}
	})
}

func TestSourceThatIgnoresItsDeadlineIsLeftBehind(t *testing.T) {
	release := make(chan struct{})
	src := &source{}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		src.fetch = func(_ context.Context, nth int) outcome {
			if nth <= 2 {
				<-release
				return good("late")
			}
			return good("3")
		}
		src.start, src.plan = time.Now(), life(10*time.Second, 20*time.Second, time.Minute)
		v := fresh.New[string](src, fresh.Options{Timeout: time.Second})
		defer v.Close()

		if wait := timed(func() {
			if _, err := v.Get(t.Context()); err != fresh.ErrStuck {
				t.Errorf("error %v, want ErrStuck", err)
			}
		}); wait > 2*time.Second {
			t.Errorf("waited %v for a source that never answers", wait)
		}
		time.Sleep(30 * time.Second)
		v.Get(t.Context())
		if v.Force("now") || src.questions() != 1 {
			t.Errorf("asked again within the gap: %d questions", src.questions())
		}
		time.Sleep(40 * time.Second)
		v.Get(t.Context())
		time.Sleep(time.Hour)
		v.Get(t.Context())
		if got := src.questions(); got != 2 || v.Peek().Stuck != 2 {
			t.Errorf("%d questions, %d left behind, want 2 and 2", got, v.Peek().Stuck)
		}
		close(release)
		synctest.Wait()
		if s := mustGet(t, v); s.Value != "late" || s.Stuck != 0 {
			t.Errorf("got %+v, want the late answer", s)
		}
	})
}

func TestLateAnswerNeverReplacesOneThatEndsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		src := &source{start: time.Now()}
		src.plan = func(value string, now time.Time) fresh.Plan {
			if value == "late" {
				return fresh.Plan{End: now.Add(time.Second)}
			}
			return fresh.Plan{End: now.Add(time.Hour)}
		}
		src.fetch = func(_ context.Context, nth int) outcome {
			if nth == 1 {
				<-release
				return good("late")
			}
			return good("newer")
		}
		v := fresh.New[string](src, fresh.Options{Timeout: time.Second})
		defer v.Close()
		v.Get(t.Context())
		time.Sleep(2 * time.Minute)
		mustGet(t, v)
		close(release)
		synctest.Wait()
		if s := v.Peek(); s.Value != "newer" {
			t.Errorf("%q replaced the newer value", s.Value)
		}
	})
}

func TestOlderAnswerNeverReplacesANewerOne(t *testing.T) {
	src := &source{took: time.Second, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		before := v.Ticket()
		v.Ask() // brings "1" in a second
		after := v.Ticket()
		if !v.Offer(after, good("after")) {
			t.Error("the later answer was refused")
		}
		if v.Offer(before, good("before")) {
			t.Error("the earlier answer was taken")
		}
		time.Sleep(2 * time.Second)
		if s := v.Peek(); s.Value != "after" || !s.Since.IsZero() {
			t.Errorf("got %+v, want the answer asked for last", s)
		}
	})
}

func TestDropLeavesTheErrorOnly(t *testing.T) {
	src := &source{fetch: func(_ context.Context, nth int) outcome {
		if nth == 1 {
			return good("1")
		}
		return outcome{Verdict: fresh.Drop, Err: errSource}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(15 * time.Second)
		v.Get(t.Context())
		synctest.Wait()
		if s, err := v.Get(t.Context()); err != errSource {
			t.Errorf("got %+v, %v", s, err)
		}
		v.Forgive()
		if s := v.Peek(); !s.Due || s.Err != nil || s.State != fresh.Cold {
			t.Errorf("after Forgive: %+v", s)
		}
	})
}

func TestKeepWithoutErrorIsNoFailure(t *testing.T) {
	src := &source{fetch: func(_ context.Context, nth int) outcome {
		if nth == 1 {
			return good("1")
		}
		return outcome{}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(15 * time.Second)
		mustGet(t, v)
		synctest.Wait()
		s := v.Peek()
		if s.Failures != 0 || s.Err != nil || s.Next.IsZero() {
			t.Errorf("got %+v, want no failure and a next try", s)
		}
		if try := src.tries[0]; try.Failures != 0 || try.Err != nil || try.Left != 45*time.Second || try.State != fresh.Soft {
			t.Errorf("the owner was told %+v", try)
		}
	})
}

func TestFailuresPastTheEndAreCountedAnew(t *testing.T) {
	src := &source{eager: true, fetch: counting(2), plan: life(2*time.Second, -1, 4*time.Second)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		var all, ended []int
		for _, try := range src.tries {
			all, ended = append(all, try.Failures), append(ended, try.Ended)
		}
		if !slices.Equal(all, []int{1, 2, 3, 4}) || !slices.Equal(ended, []int{0, 0, 1, 2}) {
			t.Errorf("failures %v, ended %v", all, ended)
		}
	})
}

func TestOwnerHearsOfEachStateOnceInOrder(t *testing.T) {
	src := &source{fetch: counting(0), plan: func(_ string, now time.Time) fresh.Plan {
		return fresh.Plan{
			Soft: now.Add(10 * time.Second), Aged: now.Add(15 * time.Second),
			Hard: now.Add(20 * time.Second), End: now.Add(30 * time.Second),
		}
	}}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(time.Minute)
		type heard struct {
			state fresh.State
			aged  bool
		}
		synctest.Wait()
		var got []heard
		for _, s := range src.heard {
			got = append(got, heard{s.State, s.Aged})
		}
		want := []heard{{fresh.Valid, false}, {fresh.Soft, false}, {fresh.Soft, true}, {fresh.Hard, true}, {fresh.Expired, true}}
		if !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
	})
}

func TestGetAtTrustsItsOwnClock(t *testing.T) {
	src := &source{took: 100 * time.Millisecond, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		// The machine slept for two hours, and no timer ran.
		s, err := v.GetAt(t.Context(), time.Now().Add(2*time.Hour))
		if err != nil || s.Value != "2" {
			t.Errorf("got %+v, %v, want a new value", s, err)
		}
		if s, err := v.GetAt(t.Context(), time.Now()); err != nil || s.Value != "2" || src.questions() != 2 {
			t.Errorf("got %+v, %v after %d questions", s, err, src.questions())
		}
	})
}

func TestHardWaitCountsFromTheStartOfTheFlight(t *testing.T) {
	src := &source{took: time.Second, fetch: counting(0)}
	bubble(t, src, fresh.Options{HardWait: 300 * time.Millisecond}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		time.Sleep(30 * time.Second)
		v.Ask()
		time.Sleep(200 * time.Millisecond)
		if wait := timed(func() { mustGet(t, v) }); wait != 100*time.Millisecond {
			t.Errorf("waited %v, want the 100 ms that were left", wait)
		}
		if wait := timed(func() { mustGet(t, v) }); wait != 0 {
			t.Errorf("waited %v, want none", wait)
		}
	})
}

func TestCloseEndsFlightAndReaders(t *testing.T) {
	src := &source{took: time.Hour, fetch: counting(0), eager: true}
	bubble(t, src, fresh.Options{Timeout: 2 * time.Hour}, func(t *testing.T, v *fresh.Value[string]) {
		done := make(chan error)
		go func() {
			_, err := v.Get(context.Background())
			done <- err
		}()
		synctest.Wait()
		v.Close()
		if err := <-done; err != fresh.ErrClosed {
			t.Errorf("the reader got %v", err)
		}
		if _, err := v.Get(t.Context()); err != fresh.ErrClosed {
			t.Errorf("a later reader got %v", err)
		}
		if v.Ask() || v.Force("now") {
			t.Error("a flight started after Close")
		}
		v.Close()
	})
}

func TestClosedValueServesUntilItsEnd(t *testing.T) {
	src := &source{fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		mustGet(t, v)
		v.Close()
		time.Sleep(50 * time.Second)
		if s := mustGet(t, v); s.Value != "1" {
			t.Errorf("got %+v", s)
		}
		v.Adjust(func(*snapshot) fresh.Plan { return fresh.Plan{} })
		time.Sleep(time.Minute)
		if _, err := v.Get(t.Context()); err != fresh.ErrClosed {
			t.Errorf("past the end: %v", err)
		}
	})
}

func TestAdjustMovesTheLife(t *testing.T) {
	src := &source{eager: true, fetch: counting(0)}
	bubble(t, src, fresh.Options{}, func(t *testing.T, v *fresh.Value[string]) {
		v.Adjust(func(*snapshot) fresh.Plan { t.Error("called without a value"); return fresh.Plan{} })
		mustGet(t, v)
		v.Adjust(func(s *snapshot) fresh.Plan {
			p := *s.Plan
			p.Soft = time.Now()
			return p
		})
		time.Sleep(time.Second)
		if s := v.Peek(); s.Value != "2" || s.State != fresh.Valid {
			t.Errorf("got %+v, want the refreshed value", s)
		}
		v.Forget()
		if s := v.Peek(); s.State != fresh.Cold || s.Value != "" {
			t.Errorf("after Forget: %+v", s)
		}
	})
}

func TestOwnerMayActFromChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &reentrant{source: source{start: time.Now(), plan: life(10*time.Second, -1, -1), fetch: counting(0)}}
		v := fresh.New[string](src, fresh.Options{})
		src.v = v
		defer v.Close()
		mustGet(t, v)
		synctest.Wait()
		if s := v.Peek(); s.Value != "2" {
			t.Errorf("got %+v, want the flight forced from Changed", s)
		}
	})
}

// reentrant forces a second flight when it hears of the first value.
type reentrant struct {
	source
	v *fresh.Value[string]
}

func (r *reentrant) Changed(s *snapshot) {
	if s.Value == "1" {
		r.v.Force("again")
	}
}
