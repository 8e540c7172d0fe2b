package creds_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

// E24: 1000 readers, none of whom gets anything.
func TestColdReadersShareOneError(t *testing.T) {
	src := &source{life: lifetime, took: time.Millisecond}
	src.failIf(func(int) error { return errSource })
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		for range 5 {
			var mu sync.Mutex
			seen := map[error]bool{}
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					_, err := c.Retrieve(t.Context())
					mu.Lock()
					defer mu.Unlock()
					seen[err] = true
				})
			}
			all.Wait()
			if len(seen) != 1 {
				t.Errorf("%d different errors", len(seen))
			}
			for err := range seen {
				e, ok := errors.AsType[*creds.FetchError](err)
				if !ok || !errors.Is(err, errSource) || e.RetryAt.Before(time.Now()) || e.Failures == 0 {
					t.Errorf("error %+v", err)
				}
			}
			time.Sleep(time.Until(c.Stats().Next))
			synctest.Wait()
		}
		if n := src.calls(); n > 6 {
			t.Errorf("%d calls, want one per step of the back-off", n)
		}
	})
}

func TestFatalErrorComesAsItIs_awsS23(t *testing.T) {
	logged, logger := newRecords()
	src := &source{life: lifetime}
	src.failIf(func(int) error { return refused{} })
	story(t, src, creds.Config{Logger: logger}, func(t *testing.T, c *creds.Cache) {
		if err := c.Start(t.Context()); err != (refused{}) {
			t.Errorf("Start: %v", err)
		}
		if _, _, err := tryRead(t, c); err != (refused{}) {
			t.Errorf("Retrieve: %v", err)
		}
		synctest.Wait()
		if n := logged.count(slog.LevelError); n != 1 {
			t.Errorf("%d errors logged", n)
		}
	})
}

func TestConfigFatalAddsToTheList(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(int) error { return errSource })
	fatal := func(err error) bool { return errors.Is(err, errSource) }
	story(t, src, creds.Config{Fatal: fatal}, func(t *testing.T, c *creds.Cache) {
		if err := c.Start(t.Context()); err != errSource {
			t.Errorf("Start: %v", err)
		}
	})
}

func TestFatalAnswerEndsStaticStability_awsS16_S17(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		switch {
		case nth == 2:
			return refused{}
		case nth > 2 && nth < 1000:
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{StaticStability: creds.On}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(14 * time.Minute)
		wantKey(t, c, "K1")
		time.Sleep(2 * time.Minute)
		if _, _, err := tryRead(t, c); err == nil {
			t.Error("stale credentials were given out after a refusal")
		}
	})
}

func TestStartWaitsForTheFirstValue(t *testing.T) {
	src := &source{life: lifetime, took: took}
	src.failIf(func(nth int) error {
		if nth < 4 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := c.Start(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errSource) {
			t.Errorf("Start: %v, want the context's error and the last", err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Errorf("Start: %v", err)
		}
		wantKey(t, c, "K1")
	})
}

func TestReaderWhoLeavesEndsNoFetch_kiam145(t *testing.T) {
	type secret struct{}
	src := &source{life: lifetime, took: time.Second}
	src.answer = func(ctx context.Context, _ int) (aws.Credentials, error) {
		if ctx.Value(secret{}) != nil {
			t.Error("the fetch carries a reader's values")
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		cause := errors.New("the user went away")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), secret{}, "s"))
		go func() {
			time.Sleep(20 * time.Millisecond)
			cancel(cause)
		}()
		_, err := c.Retrieve(ctx)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("the reader who left got %v", err)
		}
		if k, wait := read(t, c); k != "K1" || wait != 980*time.Millisecond || src.calls() != 1 {
			t.Errorf("the other read %s after %v", k, wait)
		}
	})
}

// E7: a panic or Goexit of the source is its failure.
func TestPanicAndGoexitOfTheSource_aws_sdk_go2972(t *testing.T) {
	src := &source{life: lifetime}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		switch nth {
		case 1:
			panic("secret-of-K1")
		case 2:
			runtime.Goexit()
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		_, _, err := tryRead(t, c)
		if p, ok := errors.AsType[*creds.PanicError](err); !ok || len(p.Stack) == 0 || c.Stats().Panics != 1 {
			t.Errorf("after a panic: %v", err)
		}
		wantNoSecret(t, err)
		time.Sleep(1300 * time.Millisecond)
		if _, _, err := tryRead(t, c); !errors.Is(err, creds.ErrGoexit) {
			t.Errorf("after Goexit: %v", err)
		}
		time.Sleep(3 * time.Second)
		wantKey(t, c, "K1")
	})
}

func TestSourceThatIgnoresItsDeadline(t *testing.T) {
	var release chan struct{}
	src := &source{life: 2 * time.Hour}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		if nth == 2 {
			<-release
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{Soft: time.Hour, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		release = make(chan struct{})
		read(t, c)
		time.Sleep(time.Hour + 30*time.Second)
		wantKey(t, c, "K1")
		s := c.Stats()
		if s.Stuck != 1 || !errors.Is(s.LastError, creds.ErrStuck) || src.calls() != 2 {
			t.Errorf("Stuck = %d, LastError = %v, %d calls", s.Stuck, s.LastError, src.calls())
		}
		close(release)
		synctest.Wait()
		wantKey(t, c, "K2") // a late answer that ends later
	})
}

func TestFetchTimeoutIsAFailure_aws_c_auth182(t *testing.T) {
	src := &source{life: lifetime, took: time.Hour}
	story(t, src, creds.Config{FetchTimeout: time.Second}, func(t *testing.T, c *creds.Cache) {
		_, wait, err := tryRead(t, c)
		if !errors.Is(err, context.DeadlineExceeded) || wait != time.Second {
			t.Errorf("%v after %v", err, wait)
		}
	})
}

func TestNegativeHardWaitIsNone(t *testing.T) {
	src := &source{life: lifetime, took: took}
	story(t, src, creds.Config{IdleAfter: time.Minute, HardWait: -1}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(lifetime - 30*time.Second)
		wantKey(t, c, "K1")
		time.Sleep(took + time.Millisecond)
		wantKey(t, c, "K2")
	})
}

// E1: with steady reads no outage shorter than the window costs one.
func TestOutagesWithinTheWindowCostNoRead_botocore3760(t *testing.T) {
	for _, length := range []time.Duration{30 * time.Second, 2 * time.Minute, 4 * time.Minute, 10 * time.Minute} {
		for _, begin := range []time.Duration{0, 3 * time.Minute, 8 * time.Minute, 10*time.Minute + time.Second, 12 * time.Minute} {
			t.Run(length.String()+"at"+begin.String(), func(t *testing.T) {
				src := &source{life: lifetime}
				var from, to time.Time
				src.failIf(func(nth int) error {
					if nth > 1 && !time.Now().Before(from) && time.Now().Before(to) {
						return errSource
					}
					return nil
				})
				story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
					from = time.Now().Add(begin)
					to = from.Add(length)
					for time.Now().Before(to.Add(10 * time.Minute)) {
						v, err := c.Retrieve(t.Context())
						switch {
						case err == nil && !v.Expires.After(time.Now()):
							t.Fatalf("expired credentials %v into the outage", time.Since(from))
						case err != nil && length <= 4*time.Minute:
							t.Fatalf("%v into an outage of %v: %v", time.Since(from), length, err)
						}
						time.Sleep(500 * time.Millisecond)
					}
					if n := c.Stats().Total(); length == 4*time.Minute && n > 45 {
						t.Errorf("%d calls", n)
					}
				})
			})
		}
	}
}

func TestDeadSourceIsAskedSeldom(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		if nth > 1 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(lifetime + time.Hour)
		inLife, after := 0, 0
		for _, at := range src.times() {
			if at.Before(c.Peek().Expires) {
				inLife++
			} else {
				after++
			}
		}
		if inLife > 41 || after > 25 {
			t.Errorf("%d calls before the end, %d in the hour after it; want at most 41 and 25", inLife, after)
		}
	})
}

// E2: the time left decides, also when it is short.
func TestShortLifeIsRefreshedAfterAFailure(t *testing.T) {
	src := &source{life: 400 * time.Millisecond}
	src.failIf(func(nth int) error {
		if nth == 2 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		for range 80 {
			if _, wait := read(t, c); wait != 0 {
				t.Fatalf("a read waited %v", wait)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// E22: an EC2 role's keys live for hours and are replaced minutes before their end. After one life the Cache knows.
func TestSourceThatHoldsItsKeysBackIsLearnt(t *testing.T) {
	var current aws.Credentials
	src := &source{life: 6 * time.Hour}
	src.answer = func(context.Context, int) (aws.Credentials, error) {
		if time.Until(current.Expires) <= 5*time.Minute {
			current = src.fresh()
		}
		return current, nil
	}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(6 * time.Hour)
		first := src.calls()
		time.Sleep(6 * time.Hour)
		second := src.calls() - first
		if first > 62 || second > 6 {
			t.Errorf("%d and %d calls in the first and second life", first, second)
		}
		if k, wait := read(t, c); k != "K3" || wait != 0 {
			t.Errorf("read %s after %v", k, wait)
		}
	})
}
