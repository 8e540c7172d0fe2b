package client_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// retrying returns a client whose upstream answers by the script, and the upstream.
func retrying(t *testing.T, retry client.Retry, change func(*client.Config), steps ...sortietest.Step) (*client.Client, *sortietest.Upstream) {
	t.Helper()
	n := sortietest.NewNetwork()
	server := n.NewUpstream(t, "10.0.0.1:80", steps...)
	cfg := client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"},
		Policy: client.Policy{Timeout: &client.Timeout{}, Retry: &retry},
	}}}
	if change != nil {
		change(&cfg)
	}
	return newClient(t, cfg), server
}

func TestRetryAfterBeyondTheCapEndsTheCall_retryablehttp247_295(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		again       bool
	}{
		{"an hour", "3600", false},
		{"a date in an hour", "date", false},
		{"negative", "-5", true},
		{"garbage", "abc", true},
		{"overflow", "99999999999999999999", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				value := tc.value
				if value == "date" {
					value = time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
				}
				c, server := retrying(t, client.Retry{MaxRetryAfter: 2 * time.Second}, nil,
					sortietest.Status(429).With("Retry-After", value).Body("slow down"), sortietest.OK("hello"))
				start := time.Now()
				resp := get(t, c, up)
				body := readAll(t, resp)
				r := client.ReportOf(resp)
				if tc.again {
					if body != "hello" || time.Since(start) > 250*time.Millisecond {
						t.Errorf("got %q after %v", body, time.Since(start))
					}
					return
				}
				if resp.StatusCode != 429 || body != "slow down" || time.Since(start) != 0 || r.Stopped != client.StoppedDeadline || server.Stats().Requests != 1 {
					t.Errorf("got %d %q after %v, %v", resp.StatusCode, body, time.Since(start), r.Stopped)
				}
			})
		})
	}
}

// failsafe-go and heimdall waited 0 s.
func TestRetryAfterAsADateIsWaitedFor_failsafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := retrying(t, client.Retry{}, nil,
			sortietest.Status(503).With("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat)), sortietest.OK("hello"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		resp := getWith(t, ctx, c, up)
		if waited := time.Since(start); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		readAll(t, resp)
		r := client.ReportOf(resp)
		if d, _ := r.Account.Get(metrics.PhaseBackoff); d != r.Attempts[1].Wait || r.Retries != 1 || r.Account.Sum() != r.Duration {
			t.Errorf("report %v, wait %v", r, r.Attempts[1].Wait)
		}
	})
}

func TestNoSleepIntoAVisibleDeadline_retryablehttp272(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{}, nil, sortietest.Status(503).With("Retry-After", "1").Body("overloaded"))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		resp := getWith(t, ctx, c, up)
		if time.Since(start) != 0 || resp.StatusCode != 503 || server.Stats().Requests != 1 {
			t.Errorf("status %d after %v", resp.StatusCode, time.Since(start))
		}
		if got := client.ReportOf(resp).Stopped; got != client.StoppedDeadline {
			t.Errorf("stopped: %q", got)
		}
		if got := readAll(t, resp); got != "overloaded" {
			t.Errorf("body %q", got)
		}
	})
}

func TestRetryKeepsTheLastRealResponse_retryablehttp46_212(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{Statuses: []int{500}}, nil, sortietest.Status(500).Body("db down"))
		resp := get(t, c, up)
		if got := readAll(t, resp); resp.StatusCode != 500 || got != "db down" || server.Stats().Requests != 3 {
			t.Errorf("got %d %q after %d requests", resp.StatusCode, got, server.Stats().Requests)
		}
		if r := client.ReportOf(resp); r.Stopped != client.StoppedLimit || r.Retries != 2 || len(r.Attempts) != 3 {
			t.Errorf("report %+v", r)
		}
		_, err := client.GetJSON[item](t.Context(), c, up)
		var e *client.Error
		if !errors.As(err, &e) || e.Status != 500 || string(e.Body) != "db down" || e.Attempts != 3 || e.Stopped != client.StoppedLimit {
			t.Errorf("error %+v", e)
		}
	})
}

func TestARealResponseIsWorthMoreThanALaterError(t *testing.T) {
	for name, last := range map[string]sortietest.Step{"reset": sortietest.Reset(), "hang": sortietest.Hang()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := retrying(t, client.Retry{}, nil, sortietest.Status(503).Body("overloaded"), last)
				resp := get(t, c, up)
				if got := readAll(t, resp); resp.StatusCode != 503 || got != "overloaded" {
					t.Errorf("got %d %q", resp.StatusCode, got)
				}
				r := client.ReportOf(resp)
				if r.Reason != client.ReasonStatus || r.Account.Sum() != r.Duration || r.Attempts[0].Reason != client.ReasonStatus {
					t.Errorf("report %v", r)
				}
				settled(t, c)
			})
		})
	}
}

func TestTheCallersOwnEndReplacesTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := retrying(t, client.Retry{}, nil, sortietest.Status(503), sortietest.Hang())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Do(newRequest(t, ctx, "GET", up, nil)); !client.IsCanceled(err) {
			t.Errorf("err = %v", err)
		}
		settled(t, c)
	})
}

func TestAPOSTIsNotRepeatedUnlessMarked_resty777(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		header       http.Header
		retry        client.Retry
		requests     int
	}{
		{"POST", "POST", nil, client.Retry{}, 1},
		{"POST with a key", "POST", http.Header{"Idempotency-Key": {"k"}}, client.Retry{}, 2},
		{"POST with an X- key", "POST", http.Header{"X-Idempotency-Key": {"k"}}, client.Retry{}, 2},
		{"POST with a generated key", "POST", nil, client.Retry{IdempotencyHeader: "Request-Id"}, 2},
		{"PUT", "PUT", nil, client.Retry{}, 2},
		{"PATCH", "PATCH", nil, client.Retry{}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, server := retrying(t, tc.retry, nil, sortietest.Status(503), sortietest.OK("hello"))
				req := newRequest(t, t.Context(), tc.method, up, strings.NewReader("body"))
				maps.Copy(req.Header, tc.header)
				resp := mustDo(t, c, req)
				readAll(t, resp)
				seen := server.Requests()
				if len(seen) != tc.requests {
					t.Fatalf("%d requests, want %d", len(seen), tc.requests)
				}
				for _, r := range seen {
					if string(r.Body) != "body" {
						t.Errorf("body %q", r.Body)
					}
					for _, key := range []string{"Idempotency-Key", "Request-Id"} {
						if r.Header.Get(key) != seen[0].Header.Get(key) {
							t.Errorf("%s changed from %q to %q", key, seen[0].Header.Get(key), r.Header.Get(key))
						}
					}
				}
				if tc.retry.IdempotencyHeader != "" && len(seen[0].Header.Get("Request-Id")) < 16 {
					t.Errorf("key %q", seen[0].Header.Get("Request-Id"))
				}
				if tc.requests == 1 && client.ReportOf(resp).Stopped != client.StoppedNotIdempotent {
					t.Errorf("stopped: %q", client.ReportOf(resp).Stopped)
				}
				if len(req.Header) != len(tc.header) {
					t.Errorf("the caller's header is now %v", req.Header)
				}
			})
		})
	}
}

func TestWhatABodyNeedsToBeSentAgain(t *testing.T) {
	const size = 100 << 10
	for _, tc := range []struct {
		name   string
		body   func() io.ReadCloser
		length int64
		retry  client.Retry
		again  bool
	}{
		{"small and of known length: kept in memory", func() io.ReadCloser { return io.NopCloser(strings.NewReader("body")) }, 4, client.Retry{}, true},
		{"small, but told not to", func() io.ReadCloser { return io.NopCloser(strings.NewReader("body")) }, 4, client.Retry{BufferBody: -1}, false},
		{"large", func() io.ReadCloser { return io.NopCloser(strings.NewReader(strings.Repeat("x", size))) }, size, client.Retry{}, false},
		{"of unknown length", func() io.ReadCloser { return io.NopCloser(strings.NewReader("body")) }, -1, client.Retry{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, server := retrying(t, tc.retry, nil, sortietest.Status(503), sortietest.OK("hello"))
				body := &countingBody{Reader: tc.body()}
				req := newRequest(t, t.Context(), "PUT", up, body)
				req.ContentLength = tc.length
				resp := mustDo(t, c, req)
				readAll(t, resp)
				seen := server.Requests()
				if again := len(seen) == 2; again != tc.again || again && string(seen[0].Body) != string(seen[1].Body) {
					t.Errorf("%d requests", len(seen))
				}
				if !tc.again && client.ReportOf(resp).Stopped != client.StoppedNotReplayable {
					t.Errorf("stopped: %q", client.ReportOf(resp).Stopped)
				}
				if body.closed != 1 {
					t.Errorf("body closed %d times", body.closed)
				}
			})
		})
	}
}

// failsafe-go read both copies of a file from one offset, so that both were cut short.
func TestAFileThatCannotBeHadAgainIsSentOnce_failsafe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(name, []byte(strings.Repeat("0123456789", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	server := sortietest.NewUpstream(t, sortietest.Status(503), sortietest.OK("hello"))
	c := newClient(t, client.Config{Unlisted: client.Policy{Retry: &client.Retry{}}})
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	req := newRequest(t, t.Context(), "PUT", server.URL(), file)
	req.ContentLength = 1_000_000
	resp := mustDo(t, c, req)
	readAll(t, resp)
	if seen := server.Requests(); len(seen) != 1 || seen[0].BodyBytes != 1_000_000 || resp.StatusCode != 503 {
		t.Errorf("%d requests, status %d", len(seen), resp.StatusCode)
	}
	if _, err := file.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
}

func TestDiscardedBodiesGiveTheirConnectionBack_heimdall45(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := sortietest.Status(503).Body(strings.Repeat("x", 2<<10))
		c, server := retrying(t, client.Retry{Attempts: 4}, func(cfg *client.Config) { cfg.Upstreams[0].Policy.Budget.Percent = 100 },
			small, small, small, sortietest.OK("hello"))
		for range 20 {
			readAll(t, get(t, c, up))
			server.Play(small, small, small, sortietest.OK("hello"))
		}
		if s := server.Stats(); s.Conns != 1 || s.Requests != 80 {
			t.Errorf("%d requests over %d connections", s.Requests, s.Conns)
		}
	})
}

func TestALargeDiscardedBodyIsNotDrained_heimdall45(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := sortietest.Status(503).Body(strings.Repeat("x", 10<<20))
		c, server := retrying(t, client.Retry{}, nil, large, sortietest.OK("hello"))
		start := time.Now()
		if got := readAll(t, get(t, c, up)); got != "hello" || time.Since(start) > 75*time.Millisecond {
			t.Errorf("got %q after %v", got, time.Since(start))
		}
		server.Play(large)
		resp := get(t, c, up)
		server.Play(sortietest.Reset())
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("the last response is read to its end: %v", err)
		}
		server.Play(large, sortietest.Reset())
		resp = get(t, c, up)
		body, err := io.ReadAll(resp.Body)
		if !errors.Is(err, client.ErrBodyDiscarded) || len(body) != 64<<10+1 {
			t.Errorf("read %d bytes of a discarded body: %v", len(body), err)
		}
		settled(t, c)
	})
}

func TestTheBudgetEndsAStorm_envoy30205(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{}, func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Budget = client.Budget{PerSecond: -1}
			cfg.Upstreams[0].Policy.Conns = &client.Conns{MaxConns: 1000}
		}, sortietest.Status(503).After(100*time.Millisecond))
		var calls sync.WaitGroup
		start := time.Now()
		for range 1000 {
			calls.Go(func() {
				resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
				if err != nil {
					t.Error(err)
					return
				}
				readAll(t, resp)
				r := client.ReportOf(resp)
				if resp.StatusCode != 503 || r.Retries == 0 && (r.Stopped != client.StoppedBudget || r.Duration != 100*time.Millisecond) {
					t.Errorf("%v, stopped %q, after %v", r, r.Stopped, time.Since(start))
				}
			})
		}
		calls.Wait()
		if got := server.Stats().Requests; got != 1200 {
			t.Errorf("%d requests for 1,000 calls, want a fifth more", got)
		}
	})
}

func TestTheReserveServesSlowCallers_failsafe106_139(t *testing.T) {
	for _, tc := range []struct {
		perSecond float64
		min, max  int
	}{{1, 60, 60}, {-1, 8, 14}} {
		synctest.Test(t, func(t *testing.T) {
			c, server := retrying(t, client.Retry{}, func(cfg *client.Config) {
				cfg.Upstreams[0].Policy.Budget = client.Budget{PerSecond: tc.perSecond}
			})
			good := 0
			for range 60 {
				server.Play(sortietest.Status(503), sortietest.OK("hello"))
				resp := get(t, c, up)
				if resp.StatusCode == 200 {
					good++
				}
				resp.Body.Close()
				time.Sleep(time.Second)
			}
			if good < tc.min || good > tc.max {
				t.Errorf("%v/s: %d of 60 calls succeeded, want %d to %d", tc.perSecond, good, tc.min, tc.max)
			}
		})
	}
}

func TestADeadEndpointIsLeftWithoutARetry_httplb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.9", "http://10.0.0.1"} // nobody lives at the first
		}, sortietest.OK("hello"))
		moves := 0
		for range 20 {
			req := newRequest(t, t.Context(), "POST", up, strings.NewReader("body")) // was never sent: any method may go on
			resp := mustDo(t, c, req)
			readAll(t, resp)
			r := client.ReportOf(resp)
			if r.Moves != len(r.Attempts)-1 || r.Retries != 0 || r.Moves == 1 && (r.Attempts[1].Kind != client.KindMove || r.Attempts[1].Wait != 0) {
				t.Fatalf("report %+v", r)
			}
			moves += r.Moves
		}
		// Two failures make an endpoint suspect: then the other is asked first.
		if s := server.Stats(); s.Requests != 20 || moves != 2 {
			t.Errorf("%d requests, %d moves", s.Requests, moves)
		}
	})
}

func TestWithoutRetryThereAreNoMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := retrying(t, client.Retry{}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.9", "http://10.0.0.1"}
			cfg.Upstreams[0].Policy.Retry = nil
		}, sortietest.OK("hello"))
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonConnectRefused {
			t.Errorf("err = %v", err)
		}
	})
}

func TestACallMayForbidRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{}, nil, sortietest.Status(503))
		ctx := client.WithCall(t.Context(), client.CallOptions{NoRetry: true})
		readAll(t, getWith(t, ctx, c, up))
		if s := server.Stats(); s.Requests != 1 {
			t.Errorf("%d requests", s.Requests)
		}
	})
}

func TestADrainingClientRetriesOnlyWhatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := retrying(t, client.Retry{}, func(cfg *client.Config) { cfg.DrainTimeout = 2 * time.Second },
			sortietest.Status(503), sortietest.OK("hello"))
		c.Drain()
		if got := readAll(t, get(t, c, up)); got != "hello" {
			t.Errorf("a retry that fits: %q", got)
		}
		time.Sleep(1500 * time.Millisecond)
		server.Play(sortietest.Status(503).With("Retry-After", "1"), sortietest.OK("hello"))
		resp := get(t, c, up)
		if r := client.ReportOf(resp); resp.StatusCode != 503 || r.Stopped != client.StoppedDraining {
			t.Errorf("status %d, stopped %q", resp.StatusCode, r.Stopped)
		}
		readAll(t, resp)
	})
}

func TestShutdownEndsAWaitBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := retrying(t, client.Retry{}, nil, sortietest.Status(503).With("Retry-After", "3").Body("overloaded"))
		got := make(chan *http.Response)
		go func() {
			resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
			if err != nil {
				t.Error(err)
			}
			got <- resp
		}()
		time.Sleep(time.Second)
		start := time.Now()
		go c.Close()
		resp := <-got
		if time.Since(start) != 0 || resp.StatusCode != 503 || readAll(t, resp) != "overloaded" {
			t.Errorf("status %d after %v", resp.StatusCode, time.Since(start))
		}
		time.Sleep(time.Second)
	})
}
