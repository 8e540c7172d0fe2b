package client_test

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// A minute in which everything fails, under 1,000 calls a second: what retries add stays within the budget, and nothing has
// to be restarted afterwards.
func TestAMinuteOfFailureIsNoStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("60,000 calls")
	}
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		var seen atomic.Int64
		failing.Store(true)
		answer := roundTrip(func(req *http.Request) (*http.Response, error) {
			seen.Add(1)
			status := http.StatusOK
			if failing.Load() {
				status = http.StatusServiceUnavailable
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		})
		policy := client.Standard()
		policy.Breaker = nil // which would spare the upstream even more: here the budget is on its own
		policy.Budget = client.Budget{Percent: 20, PerSecond: 10}
		c := newClient(t, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"}, Transport: answer, Policy: policy,
		}}})
		second := func() (good int) {
			var calls sync.WaitGroup
			var ok atomic.Int64
			for range 100 {
				for range 10 {
					calls.Go(func() {
						resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
						if err != nil {
							t.Error(err)
							return
						}
						if resp.StatusCode == http.StatusOK {
							ok.Add(1)
						}
						resp.Body.Close()
					})
				}
				time.Sleep(10 * time.Millisecond)
			}
			calls.Wait()
			return int(ok.Load())
		}
		for range 60 {
			second()
		}
		const calls = 60_000
		if extra := seen.Load() - calls; extra > calls/5+60*10+100 || extra < calls/5-1000 {
			t.Errorf("%d attempts for %d calls: retries are not a fifth and ten a second", seen.Load(), calls)
		}
		failing.Store(false)
		if good := second(); good != 1000 {
			t.Errorf("%d of 1,000 calls succeed when it is over", good)
		}
	})
}

// With one of two endpoints refusing connections, or answering no SYN, none of 200 GETs fails.
func TestHalfAServiceDeadFailsNoCall_httplb(t *testing.T) {
	for name, silent := range map[string]bool{"refused": false, "black hole": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sortietest.NewNetwork()
				alive := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("hello"))
				policy := client.Standard()
				if silent {
					n.BlackHole("10.0.0.2:80")
					policy.Conns = &client.Conns{DialTimeout: 100 * time.Millisecond}
				}
				c := newClient(t, client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
					Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1", "http://10.0.0.2"}, Policy: policy,
				}}})
				retries := 0
				for range 200 {
					resp := get(t, c, up)
					readAll(t, resp)
					retries += client.ReportOf(resp).Retries
				}
				if retries != 0 || alive.Stats().Requests != 200 {
					t.Errorf("%d retries, %d requests", retries, alive.Stats().Requests)
				}
				if dead := n.Dials("10.0.0.2:80"); dead > 5 {
					t.Errorf("the dead endpoint was dialled %d times", dead)
				}
			})
		})
	}
}

// With one of four hanging, nobody waits for longer than an attempt, and the hanging one gets next to nothing.
func TestOneOfFourHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		var bases []string
		var servers []*sortietest.Upstream
		for _, host := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
			bases = append(bases, "http://"+host)
			servers = append(servers, n.NewUpstream(t, host+":80", sortietest.OK("hello").After(10*time.Millisecond)))
		}
		policy := client.Standard()
		policy.Timeout.Attempt = 500 * time.Millisecond
		c := newClient(t, client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: bases, Policy: policy,
		}}})
		run := func(calls int) (p99 time.Duration) {
			var mu sync.Mutex
			var took []time.Duration
			var workers sync.WaitGroup
			for range 8 {
				workers.Go(func() {
					for range calls / 8 {
						start := time.Now()
						resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
						if err != nil {
							t.Error(err)
							return
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						mu.Lock()
						took = append(took, time.Since(start))
						mu.Unlock()
					}
				})
			}
			workers.Wait()
			slices.Sort(took)
			return took[len(took)*99/100]
		}
		run(400)
		before := servers[2].Stats().Requests
		servers[2].Play(sortietest.Hang())
		if p99 := run(2000); p99 > policy.Timeout.Attempt {
			t.Errorf("p99 is %v, beyond the attempt's limit of %v", p99, policy.Timeout.Attempt)
		}
		if share := float64(servers[2].Stats().Requests-before) / 2000; share > 0.05 {
			t.Errorf("the hanging endpoint got %.1f %% of the calls", 100*share)
		}
	})
}
