package fresh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

type (
	snapshot = fresh.Snapshot[string]
	outcome  = fresh.Outcome[string]
)

var errSource = errors.New("the source failed")

func good(value string) outcome { return outcome{Value: value, Verdict: fresh.Replace} }
func failed() outcome           { return outcome{Err: errSource} }

// source is an owner whose answers are scripted. Values live by the plan given, counted from their arrival.
type source struct {
	plan  func(value string, now time.Time) fresh.Plan
	delay func(fresh.Try) time.Duration
	eager bool
	took  time.Duration                                            // how long a fetch takes
	fetch func(ctx context.Context, nth int) fresh.Outcome[string] // after took

	mu      sync.Mutex
	asked   []time.Duration // when, since the start
	reasons []string
	tries   []fresh.Try
	heard   []*snapshot
	start   time.Time
	running int
	most    int
}

func (s *source) Fetch(ctx context.Context, reason string) outcome {
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.start))
	s.reasons = append(s.reasons, reason)
	nth := len(s.asked)
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return outcome{Err: ctx.Err()}
	}
	return s.fetch(ctx, nth)
}

func (s *source) Plan(value string, now time.Time) fresh.Plan { return s.plan(value, now) }

func (s *source) Delay(t fresh.Try) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, t)
	if s.delay == nil {
		return time.Second
	}
	return s.delay(t)
}

func (s *source) Eager() bool { return s.eager }

func (s *source) Changed(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, snap)
}

func (s *source) questions() int { return len(s.times()) }

// times waits until the bubble rests, and returns when the source was asked.
func (s *source) times() []time.Duration {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// life returns a plan function with the given ages; negative is never.
func life(soft, hard, end time.Duration) func(string, time.Time) fresh.Plan {
	return func(_ string, now time.Time) fresh.Plan {
		at := func(age time.Duration) time.Time {
			if age < 0 {
				return time.Time{}
			}
			return now.Add(age)
		}
		return fresh.Plan{Soft: at(soft), Hard: at(hard), End: at(end)}
	}
}

// bubble runs a story in virtual time around a Value of src, which is closed at its end: what is left then fails the
// test.
func bubble(t *testing.T, src *source, opt fresh.Options, story func(t *testing.T, v *fresh.Value[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src.start = time.Now()
		if src.plan == nil {
			src.plan = life(10*time.Second, 20*time.Second, 60*time.Second)
		}
		v := fresh.New[string](src, opt)
		defer v.Close()
		story(t, v)
	})
}

func mustGet(t *testing.T, v *fresh.Value[string]) *snapshot {
	t.Helper()
	s, err := v.Get(t.Context())
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return s
}

// timed runs f and returns how long it took.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
