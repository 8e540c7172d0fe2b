package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// twoBases returns a client with two bases, and their upstreams: first and second.
func twoBases(t *testing.T, policy client.Policy, change ...func(*client.Config)) (*client.Client, *sortietest.Upstream, *sortietest.Upstream) {
	t.Helper()
	n := sortietest.NewNetwork()
	first, second := n.NewUpstream(t, "10.0.0.1:80"), n.NewUpstream(t, "10.0.0.2:80")
	cfg := client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1", "http://10.0.0.2"}, Policy: policy,
	}}}
	for _, c := range change {
		c(&cfg)
	}
	return newClient(t, cfg), first, second
}

func hedged(delay time.Duration) client.Policy {
	return client.Policy{Timeout: &client.Timeout{}, Hedge: &client.Hedge{Delay: delay, ExtraLoad: 1}, Budget: client.Budget{Percent: 100}}
}

// resty sent the second copy after 380 ms instead of 50.
func TestASecondAttemptIsMadeWhenItIsDue_resty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(50*time.Millisecond))
		first.Play(sortietest.OK("slow").After(time.Second))
		second.Play(sortietest.OK("quick").After(10 * time.Millisecond))
		start := time.Now()
		resp := get(t, c, up)
		if got := readAll(t, resp); got != "quick" || time.Since(start) != 60*time.Millisecond {
			t.Errorf("got %q after %v", got, time.Since(start))
		}
		if seen := second.Requests(); len(seen) != 1 || seen[0].Time.Sub(start) != 50*time.Millisecond {
			t.Errorf("the second upstream saw %v", seen)
		}
		r := client.ReportOf(resp)
		wait, _ := r.Account.Get(metrics.PhaseHedgeWait)
		if !r.Hedged || !r.HedgeWon || wait != 50*time.Millisecond || r.Account.Sum() != r.Duration || r.Attempts[1].Kind != client.KindHedge {
			t.Errorf("report %+v", r)
		}
		time.Sleep(2 * time.Second) // the loser ends
		settled(t, c)
	})
}

// Cancelling a request costs an HTTP/1 connection, so the loser may go on for a while, also when the call has ended, and with it,
// as in a handler, its context.
func TestTheLoserOverHTTP1MayKeepItsConnection(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("the caller has gone=%v", gone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reports []client.Report
				c, first, second := twoBases(t, hedged(50*time.Millisecond), func(cfg *client.Config) {
					cfg.OnCall = func(r client.Report) { reports = append(reports, r) }
				})
				first.Play(sortietest.OK("slow").After(80 * time.Millisecond))
				second.Play(sortietest.OK("quick").After(10 * time.Millisecond))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if got := readAll(t, getWith(t, ctx, c, up)); got != "quick" {
					t.Errorf("got %q", got)
				}
				if gone {
					cancel()
				}
				if len(reports) != 1 || reports[0].Attempts[0].Reason != client.ReasonLocalReset || reports[0].Attempts[1].Reason != client.ReasonOK {
					t.Errorf("reports %+v: the first attempt has lost, and the second has won", reports)
				}
				time.Sleep(time.Second)
				for _, ep := range c.Stats().Upstreams[0].Endpoints {
					if ep.Open != 1 || ep.Idle != 1 || ep.Attempts != 0 {
						t.Errorf("%s: %d connections open, %d idle, %d attempts run", ep.Base, ep.Open, ep.Idle, ep.Attempts)
					}
				}
				settled(t, c)
			})
		})
	}
}

// One that takes its time all the same is cut.
func TestTheLoserOverHTTP1IsCutInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(50*time.Millisecond))
		first.Play(sortietest.OK("slow").After(time.Minute))
		second.Play(sortietest.OK("quick").After(10 * time.Millisecond))
		readAll(t, get(t, c, up))
		time.Sleep(60 * time.Millisecond) // patience is 50 ms, as long as the delay
		if s := c.Stats().Upstreams[0].Endpoints[0]; s.Open != 0 || s.Attempts != 0 {
			t.Errorf("%d connections open, %d attempts run", s.Open, s.Attempts)
		}
		settled(t, c)
	})
}

func TestAQuickErrorNeverBeatsASlowAnswer_failsafe_resty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(50*time.Millisecond))
		first.Play(sortietest.OK("slow").After(time.Second))
		second.Play(sortietest.Status(503))
		start := time.Now()
		resp := get(t, c, up)
		if got := readAll(t, resp); resp.StatusCode != 200 || got != "slow" || time.Since(start) != time.Second {
			t.Errorf("got %d %q after %v", resp.StatusCode, got, time.Since(start))
		}
		if r := client.ReportOf(resp); !r.Hedged || r.HedgeWon {
			t.Errorf("report %+v", r)
		}
		settled(t, c)
	})
}

func TestOfTwoBadOutcomesAResponseComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(50*time.Millisecond))
		first.Play(sortietest.Status(503).Body("overloaded").After(100 * time.Millisecond))
		second.Play(sortietest.Reset().After(100 * time.Millisecond))
		resp := get(t, c, up)
		if got := readAll(t, resp); resp.StatusCode != 503 || got != "overloaded" {
			t.Errorf("got %d %q", resp.StatusCode, got)
		}
		settled(t, c)
	})
}

func TestAnEmptyBudgetSendsNoSecondAttempt_failsafe141(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := hedged(20 * time.Millisecond)
		policy.Budget = client.Budget{Percent: 1}
		c, first, second := twoBases(t, policy)
		first.Play(sortietest.OK("hello").After(100 * time.Millisecond))
		if got := readAll(t, get(t, c, up)); got != "hello" || second.Stats().Requests != 0 {
			t.Errorf("got %q, the second upstream saw %d requests", got, second.Stats().Requests)
		}
		settled(t, c)
	})
}

func TestWhatIsNotHedged(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		body   string
		opts   client.CallOptions
		drain  bool
	}{
		"POST":           {method: "POST"},
		"told not to":    {method: "GET", opts: client.CallOptions{NoHedge: true}},
		"draining":       {method: "GET", drain: true},
		"not replayable": {method: "PUT", body: "stream"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, first, second := twoBases(t, hedged(20*time.Millisecond))
				first.Play(sortietest.OK("hello").After(time.Second))
				req := newRequest(t, client.WithCall(t.Context(), tc.opts), tc.method, up, nil)
				if tc.body != "" {
					req.Body = &countingBody{Reader: strings.NewReader(tc.body)}
				}
				if tc.drain {
					c.Drain()
				}
				readAll(t, mustDo(t, c, req))
				if n := second.Stats().Requests; n != 0 {
					t.Errorf("%d second attempts", n)
				}
			})
		})
	}
}

func TestBothAttemptsSendTheWholeBody_failsafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(20*time.Millisecond))
		first.Play(sortietest.OK("slow").After(time.Second))
		second.Play(sortietest.OK("quick").After(100 * time.Millisecond))
		body := strings.Repeat("0123456789", 100_000)
		if got := readAll(t, mustDo(t, c, newRequest(t, t.Context(), "PUT", up, strings.NewReader(body)))); got != "quick" {
			t.Errorf("got %q", got)
		}
		time.Sleep(2 * time.Second)
		for _, u := range []*sortietest.Upstream{first, second} {
			if seen := u.Requests(); len(seen) != 1 || seen[0].BodyBytes != int64(len(body)) {
				t.Errorf("saw %d requests, %d bytes", len(seen), seen[0].BodyBytes)
			}
		}
		settled(t, c)
	})
}

// envoyproxy/envoy#7530, App-vNext/Polly#1340: hedge, attempt limit and the caller's cancel in all orders.
func TestTheCallersCancelEndsBothAttempts_envoy7530_Polly1340(t *testing.T) {
	for _, after := range []int{0, 10, 50, 60, 500} {
		synctest.Test(t, func(t *testing.T) {
			policy := hedged(50 * time.Millisecond)
			policy.Timeout.Attempt = 200 * time.Millisecond
			c, first, second := twoBases(t, policy)
			first.Play(sortietest.Hang())
			second.Play(sortietest.Hang())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(after)*time.Millisecond, cancel)
			_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
			want := client.ReasonCanceled
			if after == 500 {
				want = client.ReasonAttemptTimeout
			}
			if client.ReasonOf(err) != want {
				t.Errorf("cancel after %d ms: %v", after, err)
			}
			cancel()
			time.Sleep(2 * time.Second)
			settled(t, c)
			if n := second.Stats().InFlight + first.Stats().InFlight; n != 0 {
				t.Errorf("%d attempts still run", n)
			}
		})
	}
}

func TestTheMeasuredDelayNeedsSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := client.Policy{Hedge: &client.Hedge{}}
		c, first, second := twoBases(t, policy)
		first.Play(sortietest.OK("hello").After(20 * time.Millisecond))
		second.Play(sortietest.OK("hello").After(20 * time.Millisecond))
		for range 200 {
			readAll(t, get(t, c, up))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		readAll(t, get(t, c, up))
		first.Play(sortietest.OK("slow").After(time.Second))
		start := time.Now()
		resp := get(t, c, up)
		readAll(t, resp)
		if r := client.ReportOf(resp); !r.HedgeWon || time.Since(start) > 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), r)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestAPanicBesideAnotherAttemptReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := twoBases(t, hedged(20*time.Millisecond), func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer(func(context.Context, *http.Request) error { panic(errors.New("signer")) })
		})
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
			settled(t, c)
		}()
		c.Do(newRequest(t, t.Context(), "GET", up, nil))
	})
}

// Real goroutines on real sockets: the race detector sees whatever a call and the loser of its hedge still share.
func TestHedgesRaceWithTheEndsOfTheirCalls(t *testing.T) {
	var reports atomic.Int64
	answer := func(*http.Request) sortietest.Step { return sortietest.OK("hello").After(rand.N(4 * time.Millisecond)) }
	first, second := &sortietest.Upstream{Respond: answer}, &sortietest.Upstream{Respond: answer}
	first.Start(t)
	second.Start(t)
	c := newClient(t, client.Config{
		OnCall: func(r client.Report) { reports.Add(int64(len(r.Attempts))) },
		Upstreams: []client.Upstream{{Name: "up", Hosts: []string{"up.example"}, External: []string{first.URL(), second.URL()}, Policy: client.Policy{
			Hedge: &client.Hedge{Delay: time.Millisecond, ExtraLoad: 1}, Budget: client.Budget{Percent: 100}, Balance: &client.Balance{},
			Breaker: &client.Breaker{}, Retry: &client.Retry{},
		}}},
	})
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				req := newRequest(t, ctx, http.MethodPut, up, strings.NewReader("body"))
				if resp, err := c.Do(req); err != nil {
					t.Error(err)
				} else {
					readAll(t, resp)
				}
				cancel()
			}
		})
	}
	calls.Wait()
	if n := reports.Load(); n <= 800 {
		t.Errorf("%d attempts in 800 calls: nothing was hedged", n)
	}
}
