package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// Two upstreams that reach one address share its ports, and the tighter setting holds for both.
func TestUpstreamsShareThePortsOfAnAddress(t *testing.T) {
	throughNAT(t, 40, once, func(g *gated) {
		for range 8 {
			if err := g.call(g.Context()); err != nil {
				g.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(g.Context(), time.Second)
		defer cancel()
		resp, err := g.client.Do(newRequest(g, ctx, "GET", "http://other.example/", nil))
		if err != nil { // the ninth of nine
			g.Fatal(err)
		}
		readAll(g, resp)
		for _, host := range []string{"http://other.example/", up} {
			_, err := g.client.Do(newRequest(g, ctx, "GET", host, nil))
			if e, ok := errors.AsType[*client.PortError](err); !ok || e.Budget != 10 || e.Held != 9 {
				g.Errorf("%s: %v", host, err)
			}
		}
	}, func(cfg *client.Config) {
		cfg.Upstreams = append(cfg.Upstreams, client.Upstream{
			Name: "other", Hosts: []string{"other.example"}, External: cfg.Upstreams[0].External,
			Policy: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: 100, Hold: 4 * time.Minute, Share: 10}}},
		})
		// The rules of "other" must be known from the start: it is met at its first dial.
		cfg.Upstreams[0].Policy.Conns.Ports = &client.Ports{Ports: 100, Hold: 4 * time.Minute, Share: 10}
	})
}

// A name with two addresses has two budgets: a race tries the other one.
func TestARaceTriesTheOtherAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		closing := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }
		lab.serve("10.0.0.1:80", closing)
		lab.serve("10.0.0.2:80", closing)
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Conns = &client.Conns{Ports: &client.Ports{Ports: 10, Hold: time.Hour}}
			cfg.Logger = slog.New(slog.DiscardHandler)
		})
		dns.Host("up.internal", 3600, "10.0.0.1", "10.0.0.2")
		for i := range 18 {
			if resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); err != nil {
				t.Fatalf("call %d: %v", i+1, err)
			} else {
				readAll(t, resp)
			}
		}
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonPortBudget {
			t.Errorf("call 19: %v", err)
		}
		for _, dest := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			if p := ports(t, c, dest); p.Held != 9 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// Through a proxy it is the proxy's address whose ports count.
func TestTheProxysPortsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newProxied(t)
		proxy, _ := url.Parse("http://10.9.9.9:3128")
		c := newClient(t, client.Config{
			Dial: w.DialContext, Proxy: http.ProxyURL(proxy), Logger: slog.New(slog.DiscardHandler),
			Unlisted: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: 4}}},
		})
		for _, host := range []string{"http://10.0.0.1/", "http://10.0.0.2/", "http://10.0.0.3/"} {
			readAll(t, get(t, c, host))
		}
		if p := ports(t, c, "10.9.9.9:3128"); p.Open != 3 || len(c.Stats().Ports) != 1 {
			t.Errorf("%+v", c.Stats().Ports)
		}
		if _, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.4/", nil)); !errors.Is(err, client.ErrPortBudget) {
			t.Errorf("a fourth: %v", err)
		}
	})
}

// EADDRNOTAVAIL is the kernel's word: the same error, with the cause, and for a second nobody dials there.
func TestTheKernelsWordIsAPortErrorToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := newClient(t, client.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}
		}})
		for range 3 {
			_, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil))
			e, ok := errors.AsType[*client.PortError](err)
			if !ok || !errors.Is(err, syscall.EADDRNOTAVAIL) || !errors.Is(e.Cause, syscall.EADDRNOTAVAIL) || e.RetryAfter != time.Second ||
				client.ReasonOf(err) != client.ReasonPortBudget || !client.NeverSent(err) {
				t.Fatalf("err = %v", err)
			}
		}
		if dials != 1 {
			t.Errorf("%d dials within the second", dials)
		}
		time.Sleep(time.Second)
		c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil))
		if dials != 2 {
			t.Errorf("%d dials after it", dials)
		}
		if p := ports(t, c, "10.0.0.1:80"); p.NoPort != 2 || p.Held != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// Counts everything: lost races, refused connects and failed handshakes are dials.
func TestDialsThatComeToNothingCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := sortietest.NewNetwork()
		server := &sortietest.Upstream{Network: network, Address: "10.0.0.1:443", TLS: true}
		server.Start(t)
		c := newClient(t, client.Config{
			Dial:     network.DialContext,
			Unlisted: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: 100, Hold: time.Minute}}},
		})
		c.Do(newRequest(t, t.Context(), "GET", "https://10.0.0.1/", nil)) // not trusted
		c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.2/", nil))  // refused
		for _, dest := range []string{"10.0.0.1:443", "10.0.0.2:80"} {
			if p := ports(t, c, dest); p.Dials != 1 || p.Cooling != 1 || p.Open != 0 {
				t.Errorf("%+v", p)
			}
		}
		time.Sleep(61 * time.Second)
		for _, p := range c.Stats().Ports {
			if p.Held != 0 {
				t.Errorf("a minute later: %+v", p)
			}
		}
	})
}

// While ports run short age waits, up to twice its limit: a new connection would cost one.
func TestAgeWaitsWhilePortsRunShort(t *testing.T) {
	for _, short := range []bool{false, true} {
		throughNAT(t, 4, sortietest.OK("hello"), func(g *gated) {
			for range 50 {
				if err := g.call(g.Context()); err != nil {
					g.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			conns := g.nat.Stats().Conns
			if short && conns != 1 || !short && conns < 2 {
				g.Errorf("short %v: %d connections after 50 s with an age limit of 30", short, conns)
			}
			for range 50 { // at twice the limit it goes, whatever it costs
				g.call(g.Context())
				time.Sleep(time.Second)
			}
			if g.nat.Stats().Conns == conns {
				g.Errorf("short %v: still the same connection", short)
			}
		}, func(cfg *client.Config) {
			c := cfg.Upstreams[0].Policy.Conns
			c.MaxAge = 30 * time.Second
			if short {
				c.Ports.Warn = 0.1
			}
		})
	}
}

// A sudden outage of ports with connections open costs nothing, and nobody hangs behind a SYN that a NAT has dropped.
func TestSuspectedDropsAreCounted_Azure_AKS3047(t *testing.T) {
	throughNAT(t, 10, once, func(g *gated) {
		for range 8 {
			g.call(g.Context())
		}
		g.net.BlackHole(gatewayAddr) // others have used up what is left
		ctx, cancel := context.WithTimeout(g.Context(), 10*time.Second)
		defer cancel()
		if err := g.call(ctx); client.ReasonOf(err) != client.ReasonConnectTimeout {
			g.Errorf("err = %v", err)
		}
		if p := ports(g, g.client, gatewayAddr); p.Suspected != 1 || p.Refused != 0 {
			g.Errorf("%+v", p)
		}
		g.net.Restore(gatewayAddr)
	})
}

// With all endpoints' ports used up, a balanced call moves to the one that has some.
func TestABalancedCallMovesToAnAddressWithPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		var seen [2]atomic.Int32
		for i, addr := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			lab.serve(addr, func(w http.ResponseWriter, _ *http.Request) {
				seen[i].Add(1)
				w.Header().Set("Connection", "close")
			})
		}
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy = client.Standard()
			cfg.Upstreams[0].Policy.Conns = &client.Conns{Ports: &client.Ports{Ports: 20, Hold: time.Hour}}
			cfg.Logger = slog.New(slog.DiscardHandler)
		})
		dns.Host("up.internal", 3600, "10.0.0.1", "10.0.0.2")
		for i := range 36 {
			resp, err := c.Do(newRequest(t, t.Context(), "POST", up, nil))
			if err != nil {
				t.Fatalf("call %d (%d and %d before): %v", i+1, seen[0].Load(), seen[1].Load(), err)
			}
			readAll(t, resp)
		}
		if seen[0].Load() != 18 || seen[1].Load() != 18 {
			t.Errorf("%d and %d calls, want all ports of both", seen[0].Load(), seen[1].Load())
		}
	})
}

func TestMistakesAboutPorts(t *testing.T) {
	for want, p := range map[string]client.Ports{
		`Preset: "azure" is no preset; there are none, azure-lb, azure-natgw, gcp-nat, aws-natgw, linux. For another NAT set Ports and Hold`: {Preset: "azure"},
		"Ports: -1 is negative; use 0 for the default":                                                    {Ports: -1},
		"Hold: -1s is negative; use 0 for the default":                                                    {Preset: client.AzureLB, Hold: -time.Second},
		"Share: -2 is negative; use 0 for the default":                                                    {Share: -2},
		"Warn: 1.5 is no part of the budget":                                                              {Warn: 1.5, Admit: 1},
		"Admit: -0.1 is no part of the budget":                                                            {Admit: -0.1},
		"Warn: 0.7 is above Admit (0.5), from where nothing is left to warn of; make it smaller":          {Admit: 0.5},
		`Preset: with "none" ports are not limited, so the other fields have no effect`:                   {Preset: client.NoPorts, Share: 3},
		"Hold: says how long a NAT keeps a port, but not which; add Preset, or Ports for one of your own": {Hold: time.Minute},
		"Share: 65 processes cannot share 64 ports; make it smaller, or raise Ports":                      {Preset: client.GoogleCloudNAT, Share: 65},
	} {
		_, err := client.New(client.Config{Unlisted: client.Policy{Conns: &client.Conns{Ports: &p}}})
		if err == nil || !strings.Contains(err.Error(), "Unlisted.Conns.Ports."+want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	for _, p := range []client.Ports{
		{}, {Preset: client.NoPorts}, {Preset: client.LinuxPorts, Ports: 10}, {Preset: client.AzureLB, Hold: time.Minute, Share: 50},
		{Ports: 1, Share: 1}, {Warn: 1, Admit: 1}, {Warn: 0.5},
	} {
		if _, err := client.New(client.Config{Unlisted: client.Policy{Conns: &client.Conns{Ports: &p}}}); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
