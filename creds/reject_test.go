package creds_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

func TestLateRejectionsOfOneKeyAskOnce_botocore3777_aws_sdk_java_v25545(t *testing.T) {
	src := &source{life: lifetime, took: took}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Minute)
		for range 50 {
			c.InvalidateIf("K1", "ExpiredToken")
			time.Sleep(20 * time.Millisecond)
		}
		wantKey(t, c, "K2")
		if c.InvalidateIf("K1", "late") || c.Peek().Rejected {
			t.Error("a late rejection of K1 dropped K2")
		}
		if n := src.calls(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

func TestFailedFetchAfterARejectionIsNotRepeatedFast_botocore3775(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		if nth > 1 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Minute)
		c.InvalidateIf("K1", "ExpiredToken")
		for range 500 {
			if k, _ := read(t, c); k != "K1" {
				t.Fatalf("read %s", k)
			}
			c.InvalidateIf("K1", "ExpiredToken")
			time.Sleep(20 * time.Millisecond)
		}
		asked := src.times()[1:]
		for i := 1; i < len(asked); i++ {
			if gap := asked[i].Sub(asked[i-1]); gap < time.Second {
				t.Errorf("asked %v apart", gap)
			}
		}
		s := c.Stats()
		if !s.Rejected || s.RejectedServed == 0 || s.Rejections != 501 {
			t.Errorf("%+v", s)
		}
	})
}

func TestForcedFetchesAreASecondApart(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		c.InvalidateIf("K1", "")
		wantKey(t, c, "K2")
		time.Sleep(100 * time.Millisecond)
		c.InvalidateIf("K2", "")
		wantKey(t, c, "K2") // until the second is over
		if !c.Peek().Rejected {
			t.Error("not flagged")
		}
		time.Sleep(899 * time.Millisecond)
		wantKey(t, c, "K2")
		time.Sleep(2 * time.Millisecond)
		wantKey(t, c, "K3")
		asked := src.times()
		if gap := asked[2].Sub(asked[1]); gap != time.Second {
			t.Errorf("forced fetches %v apart", gap)
		}
	})
}

// E4: a fetch that began before the rejection, and brings the rejected key, says nothing about it.
func TestRejectionDuringAFetchIsNotLost(t *testing.T) {
	var current aws.Credentials
	src := &source{life: lifetime, took: took}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		if nth != 2 {
			current = src.fresh()
		}
		return current, nil
	}
	story(t, src, creds.Config{Soft: 5 * time.Minute, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(10*time.Minute + took/2) // the refresh is under way
		c.InvalidateIf("K1", "")
		if k, wait := read(t, c); k != "K2" || wait != took/2+took {
			t.Errorf("read %s after %v, want K2 by a second question", k, wait)
		}
		if n := src.calls(); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}

func TestRejectionDuringAFetchThatHangsIsNotLost(t *testing.T) {
	src := &source{life: lifetime}
	src.answer = func(ctx context.Context, nth int) (aws.Credentials, error) {
		if nth == 2 {
			<-ctx.Done()
			return aws.Credentials{}, ctx.Err()
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{Soft: 5 * time.Minute, Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(10*time.Minute + time.Second)
		c.InvalidateIf("K1", "")
		time.Sleep(4*time.Second + time.Millisecond)
		wantKey(t, c, "K2")
	})
}

func TestRejectedKeyThatComesBackIsNoProgress(t *testing.T) {
	src := &source{life: lifetime}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		if nth == 3 {
			return key(1, time.Now().Add(time.Hour)), nil // of a replica that lags
		}
		return src.fresh(), nil
	}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		c.InvalidateIf("K1", "")
		wantKey(t, c, "K2")
		time.Sleep(11 * time.Minute)
		wantKey(t, c, "K2")
		if n := c.Stats().Fetches[creds.TriggerSoft].Unchanged; n != 1 {
			t.Errorf("%d unchanged, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		wantKey(t, c, "K3")
	})
}

func TestOtherKeysAreIgnored_awsS21(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		for _, k := range []string{"K0", "K2", ""} {
			if c.InvalidateIf(k, "") {
				t.Errorf("InvalidateIf(%q) = true", k)
			}
		}
		wantKey(t, c, "K1")
		if n := src.calls(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestRejectionsAndRefreshesAtOnce(t *testing.T) {
	src := &source{life: lifetime}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 200 {
					v, err := c.Retrieve(t.Context())
					if err != nil {
						t.Error(err)
					}
					if (i+j)%3 == 0 {
						c.InvalidateIf(v.AccessKeyID, fmt.Sprint(i))
					}
					_ = c.Stats()
					_ = fmt.Sprint(c.Peek())
					time.Sleep(time.Duration(i+j) * time.Millisecond)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if src.most != 1 {
			t.Errorf("%d questions at once", src.most)
		}
	})
}

func TestRejectedCredentialsWithoutEnd(t *testing.T) {
	src := &source{}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) { return key((nth+1)/2, time.Time{}), nil }
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		c.InvalidateIf("K1", "")
		wantKey(t, c, "K1")
		if !c.Peek().Rejected {
			t.Error("not flagged")
		}
		time.Sleep(time.Minute + time.Second)
		wantKey(t, c, "K2")
	})
}
