package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

func TestRefusedDialsOpenTheBreaker_resty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t) // nobody lives there
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 3, Open: 10 * time.Second}})
		for range 3 {
			if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonConnectRefused {
				t.Fatalf("err = %v", err)
			}
		}
		_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if !errors.Is(err, client.ErrBreakerOpen) || client.ReasonOf(err) != client.ReasonBreakerOpen || !client.Refused(err) || !client.NeverSent(err) {
			t.Errorf("err = %v", err)
		}
		if n := lab.Dials("10.0.0.1:80"); n != 3 {
			t.Errorf("%d dials", n)
		}
		var e *client.Error
		if !errors.As(err, &e) || e.RetryAfter < 8*time.Second || e.RetryAfter > 12*time.Second {
			t.Fatalf("RetryAfter %v", e.RetryAfter)
		}

		lab.serve("10.0.0.1:80", answers("hello"))
		time.Sleep(e.RetryAfter - time.Millisecond)
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); !errors.Is(err, client.ErrBreakerOpen) {
			t.Errorf("a moment before RetryAfter: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		for range 10 {
			readAll(t, get(t, c, up))
		}
		settled(t, c)
	})
}

func TestTheBreakerOfAnUnlistedHostIsItsOwn_extensions5021(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.2:80", answers("hello"))
		c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.Unlisted.Breaker = &client.Breaker{Consecutive: 2} })
		for _, want := range []client.Reason{client.ReasonConnectRefused, client.ReasonConnectRefused, client.ReasonBreakerOpen} {
			_, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil))
			var e *client.Error
			if errors.As(err, &e); e == nil || e.Reason != want || want == client.ReasonBreakerOpen && e.RetryAfter <= 0 {
				t.Errorf("want %v: %v", want, err)
			}
		}
		readAll(t, get(t, c, "http://10.0.0.2/"))
	})
}

func TestCancellationsLeaveTheBreakerClosed_gobreaker105(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		slow := true
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			if slow {
				hangs(w, r)
			}
		})
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 2, Ratio: 0.1, Volume: 2}})
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			if _, err := c.Do(newRequest(t, ctx, "GET", up, nil)); !client.IsCanceled(err) {
				t.Fatalf("err = %v", err)
			}
		}
		synctest.Wait()
		slow = false
		readAll(t, get(t, c, up))
		settled(t, c)
	})
}

func TestAHalfOpenBreakerAdmitsItsProbesAlone_Polly216(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 1, Open: time.Second, Probes: 2}})
		c.Do(newRequest(t, t.Context(), "GET", up, nil)) // refused
		time.Sleep(2 * time.Second)

		requests := 0
		var mu sync.Mutex
		lab.serve("10.0.0.1:80", func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			requests++
			mu.Unlock()
			time.Sleep(time.Second)
		})
		burst := func() (reasons []client.Reason) {
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
					if err == nil {
						readAll(t, resp)
					}
					mu.Lock()
					defer mu.Unlock()
					reasons = append(reasons, client.ReasonOf(err))
				})
			}
			calls.Wait()
			slices.Sort(reasons)
			return reasons
		}
		if got := burst(); requests != 2 || got[1] != client.ReasonOK || got[2] != client.ReasonBreakerOpen {
			t.Errorf("half-open: %d requests, %v", requests, got)
		}
		if got := burst(); requests != 12 || got[9] != client.ReasonOK {
			t.Errorf("closed again: %d requests, %v", requests, got)
		}
		settled(t, c)
	})
}

func TestAFailedProbeOpensTheBreakerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 5, Open: time.Second}})
		for range 300 {
			c.Do(newRequest(t, t.Context(), "GET", up, nil))
			time.Sleep(100 * time.Millisecond)
		}
		if n := lab.Dials("10.0.0.1:80"); n < 5+20 || n > 5+40 {
			t.Errorf("%d dials in 30 s, want the first five and one a second", n)
		}
	})
}

// A POST that no endpoint may get is not sent to one whose breaker is open.
func TestAnOpenBreakerSendsCallsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.2:80", answers("hello"))
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 2, Open: time.Hour}}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.1", "http://10.0.0.2"}
		})
		failed := 0
		for range 20 {
			resp, err := c.Do(newRequest(t, t.Context(), "POST", up, nil))
			if err != nil {
				failed++
				continue
			}
			readAll(t, resp)
		}
		if failed != 2 || lab.Dials("10.0.0.1:80") != 2 {
			t.Errorf("%d calls failed, %d dials", failed, lab.Dials("10.0.0.1:80"))
		}
	})
}

func TestAnOpenBreakerKeepsTheLastRealResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
		})
		var seen reports
		c := lab.client(client.Policy{Timeout: &client.Timeout{}, Retry: &client.Retry{Attempts: 5}, Breaker: &client.Breaker{Consecutive: 2}}, seen.config)
		resp := get(t, c, up)
		if got := readAll(t, resp); resp.StatusCode != 503 || got != "overloaded\n" {
			t.Errorf("%d %q", resp.StatusCode, got)
		}
		if r := seen.only(t); len(r.Attempts) != 2 || r.Reason != client.ReasonStatus {
			t.Errorf("%d attempts: %v", len(r.Attempts), r)
		}
	})
}

func TestAShadowBreakerKeepsNothingAwayAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		var seen reports
		c := lab.client(client.Policy{Breaker: &client.Breaker{Consecutive: 2, Open: time.Minute, Shadow: true}}, seen.config)
		for range 4 {
			if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonConnectRefused {
				t.Errorf("err = %v", err)
			}
		}
		for i, want := range [][]string{nil, nil, {"breaker: denied http://10.0.0.1"}, {"breaker: denied http://10.0.0.1"}} {
			if got := seen.all[i].Shadow; !slices.Equal(got, want) {
				t.Errorf("call %d: %q", i+1, got)
			}
		}
	})
}
