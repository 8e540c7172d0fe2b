package breaker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

// The window is the last ten seconds at any moment, and not what has gathered since some instant.
func TestWindowDoesNotJump_gobreaker21(t *testing.T) {
	cfg := standard
	cfg.Consecutive, cfg.Volume = 0, 100
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		for range 10_900 { // 1,000 calls a second, in good health
			attempt(b, breaker.OK)
			time.Sleep(ms)
		}
		attempts(b, 90, breaker.Failed) // one per cent of ten seconds
		time.Sleep(100 * ms)
		attempts(b, 10, breaker.Failed)
		want(t, b, breaker.Closed)

		// Now 60 % fail. They are half of the last ten seconds when they are five sixths of them.
		opened := time.Duration(0)
		for now := time.Duration(0); now < 10*time.Second && opened == 0; now += ms {
			o := breaker.Failed
			if now/ms%5 < 2 {
				o = breaker.OK
			}
			if !attempt(b, o) {
				opened = now
			}
			time.Sleep(ms)
		}
		if opened < 7*time.Second || opened > 8500*ms {
			t.Errorf("opened after %v, want 8.3 s or a bucket less", opened)
		}
	})
}

// With the rule of failures in a row beside it, five seconds of 60 % are enough.
func TestFiveSecondsOfSixtyPercentOpenIt_gobreaker21(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		attempts(b, 10_900, breaker.OK)
		for range 5000 {
			o := breaker.Failed
			if rand.IntN(5) < 2 {
				o = breaker.OK
			}
			attempt(b, o)
			time.Sleep(ms)
			if ready, _ := b.Ready(time.Now()); !ready {
				return
			}
		}
		t.Error("still closed")
	})
}

func TestCancellationsAndLostHedgesAreNeutral_gobreaker105(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		attempts(b, 100, breaker.Neutral) // cancelled by their callers
		attempts(b, 20, breaker.Neutral)  // hedges that lost
		attempts(b, 3, breaker.OK)
		if s := b.Stats(); s.State != breaker.Closed || s.Failures != 0 || s.InRow != 0 || s.Successes != 3 {
			t.Errorf("%+v, want closed with 3 successes", s)
		}
		attempts(b, 10, breaker.Failed) // attempt timeouts
		want(t, b, breaker.Open)
	})
}

func TestThreeCancellationsWithThresholdTwo_B11(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 2}, func(t *testing.T, b *breaker.Breaker) {
		attempts(b, 3, breaker.Neutral)
		want(t, b, breaker.Closed)
		attempt(b, breaker.Failed)
		attempt(b, breaker.Neutral) // neither ends the row nor adds to it
		want(t, b, breaker.Closed)
		attempt(b, breaker.Failed)
		want(t, b, breaker.Open)
	})
}

func TestRefusedConnectionsOpenIt_B12(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 3}, func(t *testing.T, b *breaker.Breaker) {
		if n := attempts(b, 50, breaker.Failed); n != 3 {
			t.Errorf("%d of 50 refused connections were tried, want 3", n)
		}
	})
}

func TestFailuresSlowerThanTheWindowAreStillInARow_B19(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 3, Window: 100 * ms}, func(t *testing.T, b *breaker.Breaker) {
		admitted := 0
		for range 20 {
			admitted += attempts(b, 1, breaker.Failed)
			time.Sleep(60 * ms)
		}
		if admitted != 3 {
			t.Errorf("%d of 20 failures, 60 ms apart, were admitted; want 3", admitted)
		}
	})
}

func TestFailuresOfAttemptsOlderThanTheWindowAreStillInARow(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 3, Window: time.Second}, func(t *testing.T, b *breaker.Breaker) {
		for range 3 {
			p := admit(t, b)
			time.Sleep(2 * time.Second) // the bucket in which it began is gone
			p.Report(breaker.Failed)
		}
		want(t, b, breaker.Open)
	})
}

func TestSuccessEndsARow(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 3}, func(t *testing.T, b *breaker.Breaker) {
		for range 10 {
			attempts(b, 2, breaker.Failed)
			attempt(b, breaker.OK)
		}
		want(t, b, breaker.Closed)
	})
}

// Running and neutral attempts are no denominator: 10 failures of 20 results are a half, whatever else there is.
func TestRatioIsOfFinishedAttempts(t *testing.T) {
	cfg := standard
	cfg.Consecutive = 0
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		var running []*breaker.Permit
		for range 100 {
			running = append(running, admit(t, b))
		}
		attempts(b, 100, breaker.Neutral)
		attempts(b, 10, breaker.OK)
		attempts(b, 9, breaker.Failed)
		want(t, b, breaker.Closed) // 19 results are below Volume
		attempt(b, breaker.Failed)
		want(t, b, breaker.Open)
		for _, p := range running {
			p.Report(breaker.OK) // of a generation that is over
		}
		want(t, b, breaker.Open)
	})
}

func TestRatioBelowVolumeSaysNothing(t *testing.T) {
	cfg := standard
	cfg.Consecutive = 0
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		for range 10 { // 19 failures in each window
			attempts(b, 19, breaker.Failed)
			time.Sleep(11 * time.Second)
		}
		want(t, b, breaker.Closed)
	})
}

func TestRulesCanBeSwitchedOff(t *testing.T) {
	bubble(t, breaker.Config{}, func(t *testing.T, b *breaker.Breaker) {
		attempts(b, 1000, breaker.Failed)
		want(t, b, breaker.Closed)
	})
}
