package creds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

// wantNoSecret fails if a secret can be seen in what is printed.
func wantNoSecret(t *testing.T, v any) {
	t.Helper()
	js, _ := json.Marshal(v)
	for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), string(js)} {
		if strings.Contains(text, "secret-of") || strings.Contains(text, "session-of") {
			t.Errorf("a secret in %s", text)
		}
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	var buf bytes.Buffer
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		switch nth {
		case 2:
			return errSource
		case 3:
			return refused{}
		}
		return nil
	})
	var events []creds.Event
	cfg := creds.Config{
		Soft: 14 * time.Minute, OnRefresh: func(e creds.Event) { events = append(events, e) },
		Logger: slog.New(slog.NewTextHandler(&buf, nil)),
	}
	story(t, src, cfg, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(time.Minute)
		c.InvalidateIf("K1", "ExpiredToken")
		synctest.Wait()
		wantNoSecret(t, c.Peek())
		wantNoSecret(t, *c.Peek())
		wantNoSecret(t, c.Stats())
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, e := range events {
			wantNoSecret(t, e)
		}
		wantNoSecret(t, buf.String())
		if len(events) < 4 || buf.Len() == 0 {
			t.Errorf("%d events, log %q", len(events), buf.String())
		}
	})
}

func TestEventsTellEachFetchInOrder(t *testing.T) {
	src := &source{life: lifetime, took: took}
	src.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		switch nth {
		case 1:
			return aws.Credentials{}, errSource
		case 3:
			return key(1, src.ends), nil
		}
		return src.fresh(), nil
	}
	var events []creds.Event
	cfg := creds.Config{Name: "test", OnRefresh: func(e creds.Event) { events = append(events, e) }}
	story(t, src, cfg, func(t *testing.T, c *creds.Cache) {
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Minute)
		c.InvalidateIf("K2", "")
		time.Sleep(time.Second)
		synctest.Wait()
		type line struct {
			trigger creds.Trigger
			outcome creds.Outcome
			key     string
			rule    string
		}
		var got []line
		for _, e := range events {
			got = append(got, line{e.Trigger, e.Outcome, e.Key, e.Rule})
			if e.Source != "test" || e.Duration != took || e.Next.Before(e.Start.Add(e.Duration)) || (e.Err == nil) != (e.Failures == 0) {
				t.Errorf("event %+v", e)
			}
		}
		want := []line{
			{"cold", "error", "", "cold"},
			{"cold", "ok", "K1", "ahead"},
			{"soft", "unchanged", "K1", "unchanged"},
			{"soft", "ok", "K2", "ahead"},
			{"rejected", "ok", "K3", "ahead"},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("events\n%v, want\n%v", got, want)
		}
	})
}

func TestSlowOnRefreshLosesTheOldestEvents(t *testing.T) {
	src := &source{life: 10 * time.Second}
	var mu sync.Mutex
	block := true
	var seen int
	cfg := creds.Config{OnRefresh: func(creds.Event) {
		mu.Lock()
		seen++
		wait := block
		mu.Unlock()
		if wait {
			time.Sleep(10 * time.Minute) // in a bubble
		}
	}}
	story(t, src, cfg, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(5 * time.Minute)
		if _, wait := read(t, c); wait != 0 {
			t.Errorf("a slow callback made a read wait %v", wait)
		}
		mu.Lock()
		block = false
		mu.Unlock()
		dropped := c.Stats().DroppedEvents
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if seen < 17 || dropped == 0 {
			t.Errorf("%d delivered, %d dropped", seen, dropped)
		}
	})
}

func TestFailuresAreLoggedAtPowersOfTwo(t *testing.T) {
	logged, logger := newRecords()
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		if nth <= 9 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{Logger: logger}, func(t *testing.T, c *creds.Cache) {
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w, i := logged.count(slog.LevelWarn), logged.count(slog.LevelInfo); w != 4 || i != 1 {
			t.Errorf("%d warnings and %d recoveries logged, want 4 (1, 2, 4, 8) and 1", w, i)
		}
	})
}

func TestStatsTellTheLife(t *testing.T) {
	src := &source{life: lifetime, took: took}
	story(t, src, creds.Config{Jitter: -1}, func(t *testing.T, c *creds.Cache) {
		if s := c.Stats(); s.State != "cold" || s.Name != "creds_test.source" || s.Kind != s.Name {
			t.Errorf("%+v", s)
		}
		read(t, c)
		synctest.Wait()
		s := c.Stats()
		if s.State != "valid" || s.Lifetime != lifetime || s.Soft != 5*time.Minute || s.Hard != time.Minute ||
			s.Key != "K1" || s.Rule != "ahead" || time.Until(s.Next) != 10*time.Minute || s.Left != lifetime ||
			len(s.Receipts) != 1 || !s.Receipts[0].Changed || s.Waits != 1 || s.WaitLongest != took || s.WaitTotal != took {
			t.Errorf("%+v", s)
		}
		time.Sleep(100 * lifetime)
		s = c.Stats()
		if len(s.Receipts) != 8 || s.Total() != s.Fetches[creds.TriggerCold].OK+s.Fetches[creds.TriggerSoft].OK {
			t.Errorf("%+v", s)
		}
	})
}

func TestNewReportsAllMistakes(t *testing.T) {
	_, err := creds.New(&source{}, creds.Config{
		Soft: time.Minute, Hard: time.Hour, MaxFraction: 2, Jitter: 1, FetchTimeout: -1, MaxStale: time.Hour, IdleAfter: -1,
	})
	for _, field := range []string{"Hard", "MaxFraction", "Jitter", "FetchTimeout", "MaxStale", "IdleAfter"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s is missing in %v", field, err)
		}
	}
	for name, src := range map[string]aws.CredentialsProvider{
		"nil": nil, "anonymous": aws.AnonymousCredentials{}, "cache": newCache(t, &source{}, creds.Config{}),
	} {
		if _, err := creds.New(src, creds.Config{Strict: true}); err == nil || !strings.Contains(err.Error(), "Strict") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCacheLooksLikeItsSource(t *testing.T) {
	c := newCache(t, instance{}, creds.Config{MaxStale: time.Hour})
	if s := c.ProviderSources(); len(s) != 1 || s[0] != aws.CredentialSourceIMDS {
		t.Errorf("sources %v", s)
	}
	if !aws.IsCredentialsProvider(c, instance{}) || aws.IsCredentialsProvider(c, aws.AnonymousCredentials{}) ||
		!aws.IsCredentialsProvider(c, (*creds.Cache)(nil)) {
		t.Error("the Cache hides its source")
	}
}

// instance is a source that says it is the role of an EC2 instance.
type instance struct{ source *source }

func (instance) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceIMDS}
}

func (i instance) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return i.source.Retrieve(ctx)
}

func TestStaticStabilityIsAutomaticForInstances(t *testing.T) {
	for stability, want := range map[creds.Stability]bool{creds.Auto: true, creds.Off: false} {
		synctest.Test(t, func(t *testing.T) {
			src := &source{life: lifetime}
			src.failIf(func(nth int) error {
				if nth > 1 {
					return errSource
				}
				return nil
			})
			c := newCache(t, instance{src}, creds.Config{StaticStability: stability})
			read(t, c)
			time.Sleep(16 * time.Minute)
			if _, _, err := tryRead(t, c); (err == nil) != want {
				t.Errorf("%v: %v", stability, err)
			}
		})
	}
}

func TestMaxStaleEndsStaticStability(t *testing.T) {
	src := &source{life: lifetime}
	src.failIf(func(nth int) error {
		if nth > 1 {
			return errSource
		}
		return nil
	})
	story(t, src, creds.Config{StaticStability: creds.On, MaxStale: time.Hour}, func(t *testing.T, c *creds.Cache) {
		read(t, c)
		time.Sleep(74 * time.Minute)
		wantKey(t, c, "K1")
		if s := c.Stats(); !s.Stale || s.StaleServed != 1 || s.State != "expired" {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Minute)
		_, _, err := tryRead(t, c)
		if e, ok := errors.AsType[*creds.ExpiredError](err); !ok || !errors.Is(e, errSource) {
			t.Errorf("beyond MaxStale: %v", err)
		}
	})
}

func TestCacheOfTheSDKIsAskedAnew(t *testing.T) {
	src := &source{life: lifetime}
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, aws.NewCredentialsCache(src), creds.Config{})
		read(t, c)
		time.Sleep(11 * time.Minute)
		wantKey(t, c, "K2")
	})
}
