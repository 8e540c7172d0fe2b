package creds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

var errSource = errors.New("the source failed")

// refused is an error that another try does not cure.
type refused struct{}

func (refused) Error() string     { return "not authorized" }
func (refused) ErrorCode() string { return "AccessDenied" }

// source is a scripted source of credentials. By default each answer is a new key that lives for life.
type source struct {
	life time.Duration
	took time.Duration // how long a question takes

	// answer decides, after took; nil gives a new key. nth counts from 1.
	answer func(ctx context.Context, nth int) (aws.Credentials, error)

	mu      sync.Mutex
	asked   []time.Time
	issued  int
	ends    time.Time // of the newest key
	running int
	most    int
}

func (s *source) Retrieve(ctx context.Context) (aws.Credentials, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	nth := len(s.asked)
	s.running++
	s.most = max(s.most, s.running)
	took, answer := s.took, s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	if err := pause(ctx, took); err != nil {
		return aws.Credentials{}, err
	}
	if answer != nil {
		return answer(ctx, nth)
	}
	return s.fresh(), nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change changes the script while the source is in use.
func (s *source) change(f func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *source) setLife(d time.Duration) { s.change(func(s *source) { s.life = d }) }

// fresh issues the next key.
func (s *source) fresh() aws.Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	s.ends = time.Now().Add(s.life)
	return key(s.issued, s.ends)
}

// again returns the newest key once more, if there is one.
func (s *source) again() (aws.Credentials, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return key(s.issued, s.ends), s.issued > 0
}

// key makes the credentials "K1", "K2", …; the zero expiry is none.
func key(n int, expires time.Time) aws.Credentials {
	c := aws.Credentials{
		AccessKeyID: fmt.Sprintf("K%d", n), SecretAccessKey: fmt.Sprintf("secret-of-K%d", n),
		SessionToken: fmt.Sprintf("session-of-K%d", n), Source: "test",
	}
	if !expires.IsZero() {
		c.CanExpire, c.Expires = true, expires
	}
	return c
}

// calls returns how often the source was asked, when everything rests.
func (s *source) calls() int { return len(s.times()) }

func (s *source) times() []time.Time {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked...)
}

// failIf fails the questions of which bad says so.
func (s *source) failIf(bad func(nth int) error) {
	s.answer = func(_ context.Context, nth int) (aws.Credentials, error) {
		if err := bad(nth); err != nil {
			return aws.Credentials{}, err
		}
		return s.fresh(), nil
	}
}

// story runs in virtual time with a Cache in front of src, which is closed at the end: a goroutine that is left fails it.
func story(t *testing.T, src *source, cfg creds.Config, tell func(t *testing.T, c *creds.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, src, cfg)
		tell(t, c)
	})
}

func newCache(t *testing.T, src aws.CredentialsProvider, cfg creds.Config) *creds.Cache {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := creds.New(src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// read returns the key that a read gets, and how long it took.
func read(t *testing.T, c *creds.Cache) (string, time.Duration) {
	t.Helper()
	k, wait, err := tryRead(t, c)
	if err != nil {
		t.Fatalf("Retrieve: %v", err)
	}
	return k, wait
}

func tryRead(t *testing.T, c *creds.Cache) (string, time.Duration, error) {
	t.Helper()
	start := time.Now()
	v, err := c.Retrieve(t.Context())
	return v.AccessKeyID, time.Since(start), err
}

// wantKey fails unless a read gets the key at once.
func wantKey(t *testing.T, c *creds.Cache, want string) {
	t.Helper()
	if got, wait := read(t, c); got != want || wait != 0 {
		t.Errorf("read %s after %v, want %s at once", got, wait, want)
	}
}

// records collects what is logged.
type records struct {
	slog.Handler
	mu  sync.Mutex
	all []slog.Record
}

func newRecords() (*records, *slog.Logger) {
	r := &records{Handler: slog.DiscardHandler}
	return r, slog.New(r)
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
	return nil
}

func (r *records) count(level slog.Level) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.Level == level {
			n++
		}
	}
	return n
}
