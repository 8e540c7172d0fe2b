package breaker_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

func TestHookMayAskTheBreaker_gobreaker37(t *testing.T) {
	var b *breaker.Breaker
	var seen []breaker.State
	cfg := standard
	cfg.OnChange = func(c breaker.Change) {
		seen = append(seen, c.From, c.To, b.State())
		b.Stats()
		attempt(b, breaker.Neutral)
	}
	bubble(t, cfg, func(t *testing.T, made *breaker.Breaker) {
		b = made
		open(t, b, true)
		attempts(b, 2, breaker.OK)
		synctest.Wait()
	})
	if want := []breaker.State{
		breaker.Closed, breaker.Open, breaker.Open,
		breaker.Open, breaker.HalfOpen, breaker.HalfOpen,
		breaker.HalfOpen, breaker.Closed, breaker.Closed,
	}; !slices.Equal(seen, want) {
		t.Errorf("told %v, want %v", seen, want)
	}
}

// Each change begins where the one before ended, although many goroutines cause them and the hook takes its time.
func TestChangesAreNeverReordered_gascity4839(t *testing.T) {
	var changes []breaker.Change // no lock: one at a time is promised
	cfg := breaker.Config{
		Consecutive: 1, Open: 10 * ms, Probes: 1,
		OnChange: func(c breaker.Change) {
			changes = append(changes, c)
			time.Sleep(3 * ms) // in a bubble
		},
	}
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				for j := range 200 {
					attempt(b, breaker.Outcome(1+(i*j)%2))
					time.Sleep(ms)
				}
			})
		}
		callers.Wait()
	})
	if len(changes) < 10 {
		t.Fatalf("%d changes", len(changes))
	}
	last := breaker.Closed
	for i, c := range changes {
		if c.From != last || c.To == c.From || i > 0 && c.At.Before(changes[i-1].At) {
			t.Fatalf("change %d is %+v after %v", i, c, last)
		}
		last = c.To
	}
}

func TestNothingIsDeliveredAfterClose_gascity4839(t *testing.T) {
	entered, leave, told := make(chan struct{}), make(chan struct{}), 0
	synctest.Test(t, func(t *testing.T) {
		entered, leave = make(chan struct{}), make(chan struct{})
		b := breaker.New(breaker.Config{Consecutive: 1, OnChange: func(breaker.Change) {
			told++
			close(entered)
			<-leave
		}})
		go attempt(b, breaker.Failed)
		<-entered
		time.Sleep(time.Minute)
		attempt(b, breaker.OK) // two more changes behind the one that is told
		closed := false
		go func() {
			b.Close()
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("Close did not wait for the hook")
		}
		close(leave)
		synctest.Wait()
		if !closed {
			t.Error("Close did not return")
		}
		attempt(b, breaker.Failed)
		want(t, b, breaker.Open)
		b.Close()
	})
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}

func TestPanickingHookDoesNotSilenceTheNext(t *testing.T) {
	told := 0
	cfg := breaker.Config{Consecutive: 1, OnChange: func(breaker.Change) {
		if told++; told == 1 {
			panic("hook")
		}
	}}
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			attempt(b, breaker.Failed)
		}()
		time.Sleep(time.Minute)
		attempt(b, breaker.OK)
		if told != 3 {
			t.Errorf("told %d changes, want 3", told)
		}
	})
}

func TestHookThatDoesNotReturnIsBounded(t *testing.T) {
	leave := make(chan struct{})
	var changes []breaker.Change
	synctest.Test(t, func(t *testing.T) {
		leave = make(chan struct{})
		b := breaker.New(breaker.Config{Consecutive: 1, Open: ms, OnChange: func(c breaker.Change) {
			changes = append(changes, c)
			<-leave
		}})
		go attempt(b, breaker.Failed)
		for range 1000 {
			time.Sleep(2 * ms)
			attempt(b, breaker.Failed)
		}
		close(leave)
		synctest.Wait()
	})
	if len(changes) != 65 || changes[64].To != breaker.Open {
		t.Errorf("%d changes are told late, want the last 64", len(changes)-1)
	}
}
