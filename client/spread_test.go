package client_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// balanced is named with an endpoint per address, and servers at 10.0.0.1 to 10.0.0.n.
func balanced(t *testing.T, lab *lab, n int, change ...func(*client.Config)) (*client.Client, *sortietest.DNS) {
	t.Helper()
	for i := range n {
		lab.serve(fmt.Sprintf("10.0.0.%d:80", i+1), func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Millisecond) // where all answers take no time at all, one that took a moment is the worst for ever
			answers("hello")(w, r)
		})
	}
	return named(t, lab, "http://up.internal", append([]func(*client.Config){func(cfg *client.Config) {
		cfg.Upstreams[0].Policy.Balance = &client.Balance{Picker: client.RoundRobin, SlowStart: -1}
	}}, change...)...)
}

// spread makes calls, and returns how many went to each address.
func spread(t *testing.T, c *client.Client, calls int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range calls {
		resp := get(t, c, up)
		readAll(t, resp)
		got[client.ReportOf(resp).Attempts[0].Conn.Remote.Addr().String()]++
	}
	return got
}

// busy makes a call a second, so that the name stays in use.
func busy(t *testing.T, c *client.Client, d time.Duration) {
	t.Helper()
	for range int(d / time.Second) {
		readAll(t, get(t, c, up))
		time.Sleep(time.Second)
	}
}

func endpointsOf(c *client.Client) int { return len(c.Stats().Upstreams[0].Endpoints) }

func TestEveryAddressOfANameGetsItsShare(t *testing.T) {
	for _, picker := range []client.Picker{client.PeakEWMA, client.LeastConnections, client.RoundRobin} {
		synctest.Test(t, func(t *testing.T) {
			lab := newLab(t)
			c, dns := balanced(t, lab, 4, func(cfg *client.Config) {
				cfg.Upstreams[0].Policy.Balance = &client.Balance{Picker: picker}
			})
			dns.Host("up.internal", 60, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
			if n := endpointsOf(c); n != 0 {
				t.Errorf("%d endpoints before the first call: New looks nothing up", n)
			}
			got := spread(t, c, 400)
			if len(got) != 4 || endpointsOf(c) != 4 || slices.Min(slices.Collect(maps.Values(got))) < 50 {
				t.Errorf("%v: %v over %d endpoints", picker, got, endpointsOf(c))
			}
		})
	}
}

func TestAKeyKeepsItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, dns := balanced(t, lab, 4, func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Balance = &client.Balance{Picker: client.Rendezvous}
		})
		dns.Host("up.internal", 60, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
		spread(t, c, 100) // all are warm
		homes := map[netip.AddrPort]bool{}
		for i := range 20 {
			ctx := client.WithCall(t.Context(), client.CallOptions{HashKey: fmt.Sprint("key ", i)})
			var home netip.AddrPort
			for j := range 5 {
				resp := getWith(t, ctx, c, up)
				readAll(t, resp)
				remote := client.ReportOf(resp).Attempts[0].Conn.Remote
				if j > 0 && remote != home {
					t.Errorf("key %d went to %v and %v", i, home, remote)
				}
				home = remote
			}
			homes[home] = true
		}
		if len(homes) < 3 {
			t.Errorf("20 keys live at %v", homes)
		}
	})
}

func TestTheFirstCallsWaitForOneLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, dns := balanced(t, lab, 2)
		dns.Script("up.internal", "A", sortietest.DNSReply{Addrs: []string{"10.0.0.1", "10.0.0.2"}, TTL: 60, Delay: 40 * time.Millisecond})
		dns.Script("up.internal", "AAAA", sortietest.NoData())
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
				if err != nil {
					t.Error(err)
					return
				}
				readAll(t, resp)
				r := client.ReportOf(resp)
				if d, _ := r.Account.Get(metrics.PhaseDNS); d != 40*time.Millisecond || r.Account.Sum() != r.Duration {
					t.Errorf("dns %v, account %v of %v", d, r.Account, r.Duration)
				}
			})
		}
		calls.Wait()
		if n := len(dns.Questions()); n != 2 {
			t.Errorf("%d questions, want one for each family", n)
		}
		resp := get(t, c, up)
		readAll(t, resp)
		if _, happened := client.ReportOf(resp).Account.Get(metrics.PhaseDNS); happened {
			t.Errorf("a later call waited for DNS: %v", client.ReportOf(resp))
		}
	})
}

func TestAnAddressThatStaysAwayDrainsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, dns := balanced(t, lab, 3)
		dns.Host("up.internal", 10, "10.0.0.1", "10.0.0.2")
		if got := spread(t, c, 10); len(got) != 2 {
			t.Fatalf("at first: %v", got)
		}
		dns.Host("up.internal", 10, "10.0.0.1", "10.0.0.3")
		busy(t, c, 15*time.Second) // missing from one answer
		if got := spread(t, c, 30); len(got) != 3 || endpointsOf(c) != 3 {
			t.Errorf("after one answer without it: %v", got)
		}
		busy(t, c, 90*time.Second)
		if got := spread(t, c, 30); got["10.0.0.2"] != 0 || len(got) != 2 || endpointsOf(c) != 2 {
			t.Errorf("after a minute and a half without it: %v, %d endpoints", got, endpointsOf(c))
		}
		synctest.Wait()
		if n := len(lab.Conns("10.0.0.2:80")); n != 0 {
			t.Errorf("%d connections to it are open", n)
		}
		dns.Host("up.internal", 10, "10.0.0.1", "10.0.0.2", "10.0.0.3")
		busy(t, c, 15*time.Second)
		if got := spread(t, c, 30); len(got) != 3 {
			t.Errorf("back again: %v", got)
		}
	})
}

func TestACallAtADrainingAddressEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.9:80", slowBody(3*time.Minute))
		c, dns := balanced(t, lab, 1)
		dns.Host("up.internal", 10, "10.0.0.9")
		get(t, c, up).Body.Close() // it is no newcomer
		long := get(t, c, up)
		dns.Host("up.internal", 10, "10.0.0.1")
		time.Sleep(time.Minute)
		if got := spread(t, c, 10); got["10.0.0.1"] != 10 {
			t.Errorf("drained: %v", got)
		}
		dns.Host("up.internal", 10, "10.0.0.1", "10.0.0.9") // before its last call has ended
		time.Sleep(30 * time.Second)
		back := 0
		for range 4 {
			resp := get(t, c, up)
			if client.ReportOf(resp).Attempts[0].Conn.Remote == netip.MustParseAddrPort("10.0.0.9:80") {
				back++
			}
			resp.Body.Close()
		}
		if back != 2 {
			t.Errorf("%d of 4 calls went to the address that is back", back)
		}
		if got := readAll(t, long); got != "done" {
			t.Errorf("read %q", got)
		}
		settled(t, c)
	})
}

func TestANameThatRotatesDrainsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, dns := balanced(t, lab, 6)
		answer := 0
		dns.Script("up.internal", "AAAA", sortietest.NoData())
		rotate := func() {
			var addrs []string
			for i := range 2 {
				addrs = append(addrs, fmt.Sprintf("10.0.0.%d", (2*answer+i)%6+1))
			}
			answer++
			dns.Script("up.internal", "A", sortietest.DNSReply{Addrs: addrs, TTL: 5})
		}
		for range 120 { // 10 minutes
			rotate()
			busy(t, c, 5*time.Second)
		}
		dns.Host("up.internal", 5, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")
		busy(t, c, time.Minute) // longer than in a name that does not rotate
		if got := spread(t, c, 60); len(got) != 6 || endpointsOf(c) != 6 {
			t.Errorf("%v, %d endpoints", got, endpointsOf(c))
		}
	})
}

func TestNoAnswerDrainsNobody(t *testing.T) {
	for name, reply := range map[string]sortietest.DNSReply{
		"silence": {Drop: true}, "failure": sortietest.ServFail(), "gone": sortietest.NXDomain(), "empty": sortietest.NoData(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				c, dns := balanced(t, lab, 2)
				dns.Host("up.internal", 10, "10.0.0.1", "10.0.0.2")
				busy(t, c, 5*time.Second)
				dns.Outage(reply)
				busy(t, c, 4*time.Minute)
				if got := spread(t, c, 20); len(got) != 2 || endpointsOf(c) != 2 {
					t.Errorf("%v, %d endpoints", got, endpointsOf(c))
				}
			})
		})
	}
}

func TestTheGuardKeepsAddressesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("169.254.169.254:80", answers("secret"))
		c, dns := balanced(t, lab, 2)
		dns.Host("up.internal", 60, "169.254.169.254", "10.0.0.1", "10.0.0.2")
		if got := spread(t, c, 20); got["169.254.169.254"] != 0 || len(got) != 2 || endpointsOf(c) != 2 {
			t.Errorf("%v, %d endpoints", got, endpointsOf(c))
		}

		c, dns = balanced(t, newLab(t), 0)
		dns.Host("up.internal", 60, "169.254.169.254")
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonDenied || !client.Refused(err) {
			t.Errorf("with nothing left: %v", err)
		}
	})
}

func TestAnInternalNameThatDoesNotResolveSpills(t *testing.T) {
	for _, factor := range []float64{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			lab := newLab(t)
			c, dns := balanced(t, lab, 2, func(cfg *client.Config) {
				cfg.Side = client.Internal
				cfg.Upstreams[0].SpillFactor = factor
				cfg.Upstreams[0].Internal = []string{"http://no.such.internal"}
			})
			dns.Host("up.internal", 60, "10.0.0.1")
			resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
			if factor < 0 {
				if client.ReasonOf(err) != client.ReasonDNS {
					t.Errorf("without spill: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if r := client.ReportOf(resp); r.Side != client.Internal || r.Tier != client.External {
				t.Errorf("from %v to %v", r.Side, r.Tier)
			}
			dns.Host("no.such.internal", 60, "10.0.0.2") // now it does
			busy(t, c, 2*time.Minute)
			if got := spread(t, c, 10); got["10.0.0.2"] != 10 {
				t.Errorf("with an internal endpoint: %v", got)
			}
		})
	}
}
