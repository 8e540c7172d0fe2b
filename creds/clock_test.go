package creds_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/creds"
)

// E19: a clock that is set back refreshes once, and does not keep expired credentials in use.
func TestWallClockSetBack(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Minute)
		c.StepWall(-20 * time.Minute)
		src.failIf(func(int) error { return errSource })
		wantKey(t, c, "K1")
		time.Sleep(15 * time.Minute)
		if _, _, err := tryRead(t, c); err == nil {
			t.Error("credentials of 16 minutes age, with a life of 15, were given out")
		}
		if n := c.Stats().Fetches[creds.TriggerClock].Total(); n == 0 {
			t.Error("no fetch for the clock")
		}
	})
}

func TestLoopNoticesAStepOfTheClock(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Minute)
		c.StepWall(10 * time.Minute)
		src.setLife(lifetime + 10*time.Minute)
		time.Sleep(30 * time.Second) // no reads: the loop has to see it
		synctest.Wait()
		if s := c.Stats(); s.ClockSteps != 1 || s.ClockOffset != 10*time.Minute || src.calls() != 2 {
			t.Errorf("%d steps of %v, %d calls", s.ClockSteps, s.ClockOffset, src.calls())
		}
		wantKey(t, c, "K2")
	})
}

func TestSmallCorrectionsOfTheClockAreNoSteps(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		for range 10 {
			c.StepWall(-100 * time.Millisecond)
			time.Sleep(30 * time.Second)
			wantKey(t, c, "K1")
		}
		if s := c.Stats(); s.ClockSteps != 0 || src.calls() != 1 {
			t.Errorf("%d steps, %d calls", s.ClockSteps, src.calls())
		}
	})
}

func TestExpiredByTheWallClockIsNeverGivenOut(t *testing.T) {
	for _, step := range []time.Duration{9 * time.Minute, 14 * time.Minute, 20 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			src := &source{life: lifetime}
			src.failIf(func(nth int) error {
				if nth > 1 {
					return errSource
				}
				return nil
			})
			story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
				start := time.Now()
				read(t, c)
				c.StepWall(step)
				for range 2000 {
					gone := time.Since(start) + step
					_, _, err := tryRead(t, c)
					if gone < lifetime != (err == nil) {
						t.Fatalf("at %v by the wall clock: %v", gone, err)
					}
					time.Sleep(500 * time.Millisecond)
				}
			})
		})
	}
}

func TestSkewOfAServiceBringsTheRefreshForward(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{Soft: 3 * time.Minute, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		for skew, want := range map[time.Duration]time.Duration{
			2 * time.Minute:  5 * time.Minute,
			time.Hour:        7*time.Minute + 30*time.Second,
			-time.Hour:       3 * time.Minute,
			10 * time.Second: 3*time.Minute + 10*time.Second,
		} {
			c.SetSkew(skew)
			if got := c.Peek().Soft; got != want {
				t.Errorf("a skew of %v makes the window %v, want %v", skew, got, want)
			}
		}
		c.SetSkew(time.Hour)
		wantKey(t, c, "K1")
		time.Sleep(7*time.Minute + 31*time.Second)
		wantKey(t, c, "K2")
	})
}
