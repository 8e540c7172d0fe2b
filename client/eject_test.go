package client_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// A sick server answers 500 while it is sick, and counts.
type sick struct {
	ill      atomic.Bool
	requests atomic.Int64
}

// ServeHTTP answers.
func (s *sick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	io.Copy(io.Discard, r.Body)
	if s.ill.Load() {
		http.Error(w, "sick", http.StatusInternalServerError)
	}
}

// since returns the requests since the last time it was asked.
func (s *sick) since() int64 { return s.requests.Swap(0) }

// ward returns a client that goes round n servers, the first of which is sick.
func ward(t *testing.T, n int, policy client.Policy) (*client.Client, []*sick, *reports) {
	t.Helper()
	lab := newLab(t)
	servers := make([]*sick, n)
	var bases []string
	for i := range n {
		servers[i] = new(sick)
		lab.serve(fmt.Sprintf("10.0.0.%d:80", i+1), servers[i].ServeHTTP)
		bases = append(bases, fmt.Sprintf("http://10.0.0.%d", i+1))
	}
	servers[0].ill.Store(true)
	var seen reports
	policy.Balance = &client.Balance{Picker: client.RoundRobin, SlowStart: -1}
	c := lab.client(policy, seen.config, func(cfg *client.Config) { cfg.Upstreams[0].External = bases })
	return c, servers, &seen
}

// round makes calls at intervals, and returns how many brought a 500 or an error.
func round(t *testing.T, c *client.Client, calls int, interval time.Duration) (bad int) {
	t.Helper()
	for range calls {
		resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err != nil || resp.StatusCode >= 500 {
			bad++
		}
		time.Sleep(interval)
	}
	return bad
}

func TestAnEndpointThatFailsInARowIsLeftOutForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, servers, _ := ward(t, 4, client.Policy{Eject: &client.Eject{Consecutive: 3, Base: 30 * time.Second}})
		if bad := round(t, c, 100, 100*time.Millisecond); bad != 3 { // 10 s
			t.Errorf("%d bad answers, want the three that it takes", bad)
		}
		servers[0].ill.Store(false)
		servers[0].since()
		round(t, c, 150, 100*time.Millisecond) // up to 25 s
		if n := servers[0].since(); n != 0 {
			t.Errorf("%d requests to it before its time", n)
		}
		round(t, c, 150, 100*time.Millisecond) // beyond 36 s
		if n := servers[0].since(); n == 0 {
			t.Error("it was never asked again")
		}
		if bad := round(t, c, 40, time.Millisecond); bad != 0 || servers[0].since() == 0 {
			t.Errorf("%d bad answers after it got well", bad)
		}
		settled(t, c)
	})
}

func TestAnEndpointThatRefusesDialsIsEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{
			Balance: &client.Balance{Picker: client.RoundRobin, SlowStart: -1}, Eject: &client.Eject{Connect: 2, Consecutive: 100},
		}, func(cfg *client.Config) { cfg.Upstreams[0].External = []string{"http://10.0.0.1", "http://10.0.0.9"} })
		if bad := round(t, c, 100, 200*time.Millisecond); bad != 2 || lab.Dials("10.0.0.9:80") != 2 {
			t.Errorf("%d bad calls, %d dials", bad, lab.Dials("10.0.0.9:80"))
		}
	})
}

// All endpoints of a set fail: it is the service, and nobody's fault.
func TestAServiceThatFailsAsAWholeLosesNobody_envoy26877(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, servers, _ := ward(t, 4, client.Policy{Eject: &client.Eject{Consecutive: 3, MaxPercent: 50}})
		for _, s := range servers {
			s.ill.Store(true)
		}
		round(t, c, 200, 20*time.Millisecond)
		for _, s := range servers {
			s.since()
		}
		round(t, c, 100, 20*time.Millisecond)
		asked := 0
		for _, s := range servers {
			if s.since() > 10 {
				asked++
			}
		}
		if asked < 2 { // half of them may be out
			t.Errorf("%d of four endpoints are asked", asked)
		}
		for _, s := range servers {
			s.ill.Store(false)
		}
		time.Sleep(time.Minute)
		if bad := round(t, c, 40, time.Millisecond); bad != 0 {
			t.Errorf("%d bad answers after it got well", bad)
		}
		for i, s := range servers {
			if s.since() == 0 {
				t.Errorf("endpoint %d never came back", i)
			}
		}
	})
}

func TestOneEndpointIsNeverEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		server := new(sick)
		server.ill.Store(true)
		lab.serve("10.0.0.1:80", server.ServeHTTP)
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy = client.Policy{Balance: &client.Balance{}, Eject: &client.Eject{Consecutive: 2}}
		})
		dns.Host("up.internal", 60, "10.0.0.1")
		if bad := round(t, c, 20, time.Millisecond); bad != 20 || server.since() != 20 {
			t.Errorf("%d bad answers", bad)
		}
	})
}

func TestInPanicEjectionIsIgnoredAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, servers, seen := ward(t, 3, client.Policy{
			Eject:   &client.Eject{Consecutive: 2, MaxPercent: 34, Panic: 50, Base: time.Hour, MaxTime: time.Hour},
			Breaker: &client.Breaker{Consecutive: 6, Ratio: 1, Volume: 1000, Open: time.Hour},
		})
		round(t, c, 10, 100*time.Millisecond) // the first is ejected: two of three are left
		servers[0].since()
		if round(t, c, 10, 100*time.Millisecond); servers[0].since() != 0 {
			t.Error("the sick one was not ejected")
		}
		for _, r := range seen.all {
			if r.Panic {
				t.Fatalf("panic with two of three: %v", r)
			}
		}
		servers[0].ill.Store(false)
		servers[1].ill.Store(true)    // whom ejection may not touch any more, but the breaker does
		round(t, c, 100, time.Second) // a suspect is asked less and less, until the breaker opens
		seen.all = nil
		servers[0].since()
		servers[1].since()
		if bad := round(t, c, 20, 100*time.Millisecond); bad != 0 || servers[0].since() == 0 || servers[1].since() != 0 {
			t.Errorf("%d bad answers with one of three left", bad)
		}
		for _, r := range seen.all {
			if !r.Panic {
				t.Errorf("no panic in %v", r)
			}
		}
	})
}

func TestShadowEjectionLeavesNobodyOutAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, servers, seen := ward(t, 4, client.Policy{Eject: &client.Eject{Consecutive: 3, Shadow: true}})
		round(t, c, 20, time.Second)
		servers[0].since()
		seen.all = nil
		round(t, c, 100, time.Second) // a suspect is asked less often
		said := 0
		for _, r := range seen.all {
			if len(r.Shadow) > 0 && r.Shadow[0] == "eject: left out http://10.0.0.1" {
				said++
			}
		}
		if n := servers[0].since(); n < 5 || said == 0 {
			t.Errorf("%d requests to it, %d reports say so", n, said)
		}
	})
}
