package creds_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

func TestWindowBeyondTheLifetimeMakesNoStorm_aws_sdk_java1921_botocore2189(t *testing.T) {
	for _, soft := range []time.Duration{15 * time.Minute, 20 * time.Minute, time.Hour} {
		t.Run(soft.String(), func(t *testing.T) {
			logged, logger := newRecords()
			src := &source{life: 15 * time.Minute}
			story(t, src, creds.Config{Soft: soft, Logger: logger}, func(t *testing.T, c *creds.Cache) {
				for range 1000 {
					read(t, c)
				}
				if n := src.calls(); n != 1 {
					t.Errorf("%d calls for the first 1000 reads, want 1", n)
				}
				for range 15 * 60 {
					time.Sleep(time.Second)
					read(t, c)
				}
				if n := src.calls(); n > 3 {
					t.Errorf("%d calls in 15 minutes, want at most 3", n)
				}
				if n := logged.count(slog.LevelWarn); n != 1 || c.Stats().Clamped != 1 {
					t.Errorf("%d warnings, Clamped = %d, want 1 and 1", n, c.Stats().Clamped)
				}
			})
		})
	}
}

func TestStrictRefusesAWindowBeyondTheLifetime_aws_sdk_java1893(t *testing.T) {
	src := &source{life: 15 * time.Minute}
	story(t, src, creds.Config{Soft: 15 * time.Minute, Strict: true}, func(t *testing.T, c *creds.Cache) {
		err := c.Start(t.Context())
		e, ok := errors.AsType[*creds.ThresholdError](err)
		if !ok || e.Asked != 15*time.Minute || e.Lifetime != 15*time.Minute || e.Used != 450*time.Second {
			t.Fatalf("Start: %v", err)
		}
		src.setLife(time.Hour)
		time.Sleep(2 * time.Second)
		wantKey(t, c, "K2")
		src.setLife(15 * time.Minute)
		time.Sleep(2 * time.Hour)
		if _, _, err := tryRead(t, c); err != nil || c.Stats().Clamped != 1 {
			t.Errorf("with a value in hand: %v, Clamped = %d; want a warning only", err, c.Stats().Clamped)
		}
	})
}

func TestBrokerThatKeepsItsKeyIsAskedAtAMeasuredPace_metadataproxy94(t *testing.T) {
	for _, left := range []time.Duration{5 * time.Minute, time.Minute} {
		t.Run(left.String(), func(t *testing.T) {
			var current aws.Credentials
			var available time.Time
			src := &source{life: time.Hour}
			src.answer = func(context.Context, int) (aws.Credentials, error) {
				if time.Until(current.Expires) <= left {
					current = src.fresh()
				}
				return current, nil
			}
			story(t, src, creds.Config{Soft: 15 * time.Minute}, func(t *testing.T, c *creds.Cache) {
				read(t, c)
				available = time.Now().Add(time.Hour - left)
				for time.Until(available) > -time.Minute {
					time.Sleep(10 * time.Millisecond)
					if _, wait := read(t, c); wait != 0 {
						t.Fatalf("a read waited %v", wait)
					}
				}
				wantKey(t, c, "K2")
				s := c.Stats()
				if n := s.Fetches[creds.TriggerSoft].Unchanged; n == 0 || n > 30 || left == 5*time.Minute && n > 12 {
					t.Errorf("%d unchanged answers", n)
				}
			})
		})
	}
}

func TestRefreshesPerLifetime_vault3414(t *testing.T) {
	for _, life := range []time.Duration{
		10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 17 * time.Minute, time.Hour, 6 * time.Hour,
	} {
		t.Run(life.String(), func(t *testing.T) {
			src := &source{life: life}
			story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
				for range 300 {
					read(t, c)
					time.Sleep(life / 100)
				}
				asked := src.times()
				if n := len(asked); n < 3 || n > 6 {
					t.Errorf("%d calls in 3 lifetimes, want 3 to 6", n)
				}
				for i := 1; i < len(asked); i++ {
					if gap := asked[i].Sub(asked[i-1]); gap < life/3 {
						t.Errorf("calls %v apart", gap)
					}
				}
			})
		})
	}
}

func TestFailedRefreshCostsNoRead_google_cloud_rust5809(t *testing.T) {
	src := &source{life: 15 * time.Minute}
	src.failIf(func(nth int) error {
		if nth == 2 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{Soft: 5 * time.Minute, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		start := time.Now()
		for time.Since(start) < 15*time.Minute {
			if _, wait := read(t, c); wait != 0 {
				t.Fatalf("a read waited %v", wait)
			}
			time.Sleep(time.Second)
		}
		asked := src.times()
		if gap := asked[2].Sub(asked[1]); gap > 2*time.Second || gap < 500*time.Millisecond {
			t.Errorf("the next try came %v after the failure", gap)
		}
		wantKey(t, c, "K2")
	})
}

func TestWallClockAheadIsNoticedByTheNextRead_aws_sdk_net3541(t *testing.T) {
	src := &source{life: 15 * time.Minute, took: 50 * time.Millisecond}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		c.StepWall(30 * time.Minute)  // the machine slept: no timer ran
		src.setLife(45 * time.Minute) // the source's clock went on
		if k, wait := read(t, c); k != "K2" || wait != src.took {
			t.Errorf("read %s after %v, want the new key after the fetch", k, wait)
		}
	})
}

func TestReadInTheHardWindowWaitsALittle_aws_sdk_net4023(t *testing.T) {
	src := &source{life: 10 * time.Minute, took: 50 * time.Millisecond}
	story(t, src, creds.Config{IdleAfter: time.Minute}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(10*time.Minute - 20*time.Second)
		if k, wait := read(t, c); k != "K2" || wait != 50*time.Millisecond {
			t.Errorf("read %s after %v", k, wait)
		}
	})
}

func TestHangingSourceIsAskedOnce_aws_sdk_java_v23275(t *testing.T) {
	src := &source{life: 15 * time.Minute}
	src.answer = func(ctx context.Context, nth int) (aws.Credentials, error) {
		if nth > 1 {
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
				return aws.Credentials{}, ctx.Err()
			}
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{Soft: 5 * time.Minute, Jitter: -1, FetchTimeout: time.Minute}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(10 * time.Minute)
		for range 10_000 {
			wantKey(t, c, "K1")
		}
		if n := src.calls(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		time.Sleep(31 * time.Second)
		wantKey(t, c, "K2")
	})
}

func TestStaticStabilityLeavesUnexpiredCredentialsAlone_smithy_rs2687(t *testing.T) {
	src := &source{life: time.Minute}
	src.failIf(func(nth int) error {
		if nth > 1 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{StaticStability: creds.On}, func(t *testing.T, c *creds.Cache) {
		expires := time.Now().Add(time.Minute)
		for time.Until(expires) > -time.Minute {
			v, err := c.Retrieve(t.Context())
			if err != nil || !v.Expires.Equal(expires) {
				t.Fatalf("%v before the end: %v, expires %v, want the source's %v", time.Until(expires), err, v.Expires, expires)
			}
			if stale := c.Peek().Stale; stale != (time.Until(expires) <= 0) {
				t.Fatalf("%v before the end: Stale = %v", time.Until(expires), stale)
			}
			time.Sleep(time.Second)
		}
		if first := src.times()[1]; !first.Before(expires) {
			t.Error("no refresh before the end")
		}
	})
}

func TestDeadAnswersNeverReplaceGoodOnes_aws_sdk_js2440_aws_sdk_net3864(t *testing.T) {
	bad := map[string]aws.Credentials{
		"expired":   key(9, time.Unix(0, 0)),
		"no key":    {SecretAccessKey: "s"},
		"no secret": {AccessKeyID: "k"},
		"no date":   {AccessKeyID: "k", SecretAccessKey: "s", CanExpire: true},
	}
	for name, answer := range bad {
		t.Run(name, func(t *testing.T) {
			src := &source{life: 15 * time.Minute}
			src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
				if nth == 1 {
					return src.fresh(), nil
				}
				return answer, nil
			}
			story(t, src, creds.Config{Soft: 5 * time.Minute, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
				read(t, c)
				time.Sleep(14 * time.Minute)
				wantKey(t, c, "K1")
				s := c.Stats()
				if s.Failures < 5 || s.Failures > 20 {
					t.Errorf("%d failures in the last minutes, want a back-off", s.Failures)
				}
				if _, ok := errors.AsType[*creds.AnswerError](s.LastError); !ok {
					t.Errorf("LastError = %v", s.LastError)
				}
				time.Sleep(2 * time.Minute)
				_, _, err := tryRead(t, c)
				if _, ok := errors.AsType[*creds.ExpiredError](err); !ok {
					t.Errorf("past the end: %v", err)
				}
			})
		})
	}
}

func TestFirstValuePastItsEnd_aws_sdk_cpp3592(t *testing.T) {
	dead := func() *source {
		src := &source{}
		src.answer = func(context.Context, int) (aws.Credentials, error) { return key(1, time.Unix(1000, 0)), nil }
		return src
	}
	t.Run("off", func(t *testing.T) {
		story(t, dead(), creds.Config{}, func(t *testing.T, c *creds.Cache) {
			_, _, err := tryRead(t, c)
			if _, ok := errors.AsType[*creds.AnswerError](err); !ok {
				t.Errorf("error %v, want *AnswerError", err)
			}
		})
	})
	t.Run("on", func(t *testing.T) {
		src := dead()
		story(t, src, creds.Config{StaticStability: creds.On}, func(t *testing.T, c *creds.Cache) {
			for range 3 {
				wantKey(t, c, "K1")
			}
			if !c.Peek().Stale || src.calls() != 1 {
				t.Errorf("%v, %d calls; want it stale, 1 call", c.Peek(), src.calls())
			}
			time.Sleep(time.Hour)
			wantKey(t, c, "K1")
			if n := src.calls(); n > 31 {
				t.Errorf("%d calls in an hour", n)
			}
			src.change(func(s *source) { s.answer, s.life = nil, time.Hour })
			time.Sleep(6 * time.Minute)
			if k, _ := read(t, c); k != "K1" || c.Peek().Stale || src.calls() < 3 {
				t.Errorf("read %s, %v", k, c.Peek())
			}
		})
	})
	t.Run("beyond MaxStale", func(t *testing.T) {
		story(t, dead(), creds.Config{StaticStability: creds.On, MaxStale: time.Minute}, func(t *testing.T, c *creds.Cache) {
			if _, _, err := tryRead(t, c); err == nil {
				t.Error("accepted")
			}
		})
	})
}

// The windows by lifetime: the cross-SDK rules of 2026 say 5, 15 and 60 minutes; ours are a third, at most an hour.
func TestWindowFollowsTheLifetime_awsS11_S12_S13_S14(t *testing.T) {
	for _, life := range []time.Duration{10 * time.Minute, 1230 * time.Second, 6 * time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			src := &source{life: life}
			story(t, src, creds.Config{Jitter: -1}, func(t *testing.T, c *creds.Cache) {
				read(t, c)
				if got, want := c.Peek().Soft, min(life/3, time.Hour); got != want {
					t.Errorf("window %v, want %v", got, want)
				}
				src.setLife(30 * time.Minute)
				time.Sleep(life)
				if got := c.Peek().Soft; got != 10*time.Minute {
					t.Errorf("window %v after a life of 30 minutes, want a third of it", got)
				}
			})
		})
	}
}

func TestJitterIsDrawnOncePerAnswer(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			story(t, &source{life: 15 * time.Minute}, creds.Config{}, func(t *testing.T, c *creds.Cache) {
				read(t, c)
				soft := c.Peek().Soft
				if soft < 4*time.Minute || soft > 5*time.Minute {
					t.Errorf("window %v, want 4 to 5 minutes", soft)
				}
				time.Sleep(5 * time.Minute)
				if again := c.Peek().Soft; again != soft {
					t.Errorf("window %v, then %v", soft, again)
				}
				seen[soft] = true
			})
		})
	}
	if len(seen) < 10 {
		t.Errorf("%d different windows in 20 lives", len(seen))
	}
}

func TestIdleCacheStopsAsking(t *testing.T) {
	src := &source{life: 15 * time.Minute}
	story(t, src, creds.Config{IdleAfter: time.Hour}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(10 * time.Hour)
		before := src.calls()
		if before > 8 {
			t.Errorf("%d calls, want those of the first hour", before)
		}
		if _, wait := read(t, c); wait != 0 || src.calls() != before+1 {
			t.Errorf("waited %v, %d calls", wait, src.calls())
		}
	})
}

func TestUnreadCacheStaysFresh_aws_sdk_java_v23160(t *testing.T) {
	src := &source{life: 15 * time.Minute, took: 100 * time.Millisecond}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(150 * time.Minute)
		if _, wait := read(t, c); wait != 0 {
			t.Errorf("waited %v after 10 lifetimes without a read", wait)
		}
	})
}

func TestNothingIsAskedBeforeTheFirstRead(t *testing.T) {
	src := &source{life: time.Minute}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		time.Sleep(time.Hour)
		if c.Peek() != nil || c.InvalidateIf("K1", "") || c.Stats().State != "cold" || src.calls() != 0 {
			t.Errorf("%v, %d calls", c.Peek(), src.calls())
		}
	})
}

func TestCredentialsWithoutEndAreAskedForOnce(t *testing.T) {
	src := &source{}
	src.answer = func(context.Context, int) (aws.Credentials, error) { return key(1, time.Time{}), nil }
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		for range 100 {
			wantKey(t, c, "K1")
			time.Sleep(time.Hour)
		}
		c.StepWall(-24 * time.Hour)
		c.Look()
		wantKey(t, c, "K1")
		if n := src.calls(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestCloseKeepsTheValueUntilItEnds(t *testing.T) {
	for _, stability := range []creds.Stability{creds.Off, creds.On} {
		synctest.Test(t, func(t *testing.T) {
			src := &source{life: 15 * time.Minute}
			c := newCache(t, src, creds.Config{StaticStability: stability})
			read(t, c)
			c.Close()
			c.Close()
			time.Sleep(14 * time.Minute)
			wantKey(t, c, "K1")
			time.Sleep(2 * time.Minute)
			_, _, err := tryRead(t, c)
			if e, ok := errors.AsType[*creds.ExpiredError](err); !ok || !errors.Is(e.LastErr, creds.ErrClosed) || src.calls() != 1 {
				t.Errorf("past the end: %v", err)
			}
		})
	}
}

func TestCloseEndsStaticStability(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		if nth > 1 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{StaticStability: creds.On}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Hour)
		wantKey(t, c, "K1")
		c.Close()
		if _, _, err := tryRead(t, c); !errors.Is(err, creds.ErrClosed) {
			t.Errorf("an expired value after Close: %v", err)
		}
	})
}

func TestCloseWithoutValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: time.Minute}
		c := newCache(t, src, creds.Config{})
		c.Close()
		if err := c.Start(t.Context()); !errors.Is(err, creds.ErrClosed) || src.calls() != 0 {
			t.Errorf("Start: %v, %d calls", err, src.calls())
		}
	})
}

// The same key with a later end is progress. A second is the most that counts as the same, and a tenth of a short life.
func TestExtendedKeyIsProgress(t *testing.T) {
	for _, life := range []time.Duration{time.Second, time.Minute, time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			src := &source{}
			src.answer = func(context.Context, int) (aws.Credentials, error) { return key(1, time.Now().Add(life)), nil }
			story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
				for range 300 {
					v, err := c.Retrieve(t.Context())
					if err != nil || !v.Expires.After(time.Now()) {
						t.Fatalf("%v, %v left", err, time.Until(v.Expires))
					}
					time.Sleep(life / 100)
				}
				if n := c.Stats().Fetches[creds.TriggerSoft].Unchanged; n != 0 {
					t.Errorf("%d unchanged", n)
				}
			})
		})
	}
}
