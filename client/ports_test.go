package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// A gateway of few ports in a bubble, with a server behind it that the upstream "up" leads to.
type gated struct {
	*testing.T
	net    *sortietest.Network
	server *sortietest.Upstream
	nat    *sortietest.NAT
	client *client.Client
}

const gatewayAddr = "10.9.9.9:80"

// throughNAT runs a story with so many ports, kept for four minutes. The client knows of them.
func throughNAT(t *testing.T, ports int, step sortietest.Step, story func(g *gated), change ...func(*client.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gated{T: t, net: sortietest.NewNetwork()}
		g.server = g.net.NewUpstream(t, "10.0.0.1:80", step)
		g.nat = &sortietest.NAT{Target: g.server.Addr(), Ports: ports, Hold: 4 * time.Minute, Network: g.net, Address: gatewayAddr}
		g.nat.Start(t)
		cfg := client.Config{
			Dial: g.net.DialContext, Logger: slog.New(slog.DiscardHandler),
			Upstreams: []client.Upstream{{
				Name: "up", Hosts: []string{"up.example"}, External: []string{g.nat.URL()},
				Policy: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: ports, Hold: 4 * time.Minute}}},
			}},
		}
		for _, c := range change {
			c(&cfg)
		}
		g.client = newClient(t, cfg)
		story(g)
	})
}

func (g *gated) call(ctx context.Context) error {
	resp, err := g.client.Do(newRequest(g, ctx, "POST", up, strings.NewReader("body")))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err
}

// ports returns what the ledger says of an address.
func ports(t testing.TB, c *client.Client, dest string) client.PortStats {
	t.Helper()
	for _, p := range c.Stats().Ports {
		if p.Dest.String() == dest {
			return p
		}
	}
	return client.PortStats{}
}

var once = sortietest.OK("hello").ThenClose() // an answer on a connection that is used for nothing else

// Field report 3, and Azure/AKS#4697, jenkins-infra/helpdesk#3908: five calls per inbound request, to one address, without
// reuse. At 90 % they are refused, with the time to come back, and nothing hangs.
func TestWithoutReuseCallsAreRefusedAtNineTenths_Azure_AKS4697(t *testing.T) {
	throughNAT(t, 50, once, func(g *gated) {
		began, served := time.Now(), 0
		var refusals []error
		for range 20 {
			var mu sync.Mutex
			var page sync.WaitGroup
			for range 5 {
				page.Go(func() {
					ctx, cancel := context.WithTimeout(g.Context(), time.Second)
					defer cancel()
					err := g.call(ctx)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						served++
					} else {
						refusals = append(refusals, err)
					}
				})
			}
			page.Wait()
		}
		if served != 45 || len(refusals) != 55 || time.Since(began) != 0 {
			g.Fatalf("%d served and %d refused in %v, want 45, 55 and no time", served, len(refusals), time.Since(began))
		}
		for _, err := range refusals {
			e, ok := errors.AsType[*client.PortError](err)
			if !ok || !errors.Is(err, client.ErrPortBudget) || client.ReasonOf(err) != client.ReasonPortBudget ||
				!client.NeverSent(err) || !client.Refused(err) || client.IsTimeout(err) {
				g.Fatalf("refused with %v", err)
			}
			if e.Dest.String() != gatewayAddr || e.Held != 45 || e.Budget != 50 || e.Preset != "custom" || e.Cause != nil ||
				e.RetryAfter < 4*time.Minute || e.RetryAfter > 4*time.Minute+4*time.Second {
				g.Fatalf("refused with %+v", e)
			}
			if whole, _ := errors.AsType[*client.Error](err); whole.RetryAfter != e.RetryAfter || whole.Report.ErrorType() != "port_budget" {
				g.Fatalf("the call's error: %+v", whole)
			}
		}
		if s := g.nat.Stats(); s.Dropped != 0 || s.MostHeld != 45 {
			g.Errorf("the gateway: %+v, want nothing dropped", s)
		}
		p := ports(g, g.client, gatewayAddr)
		if p.Open != 0 || p.Cooling != 45 || p.Held != 45 || p.Budget != 50 || p.Refused == 0 || p.Dials != 45 || p.Reuse != 0 {
			g.Errorf("%+v", p)
		}
		if u := g.client.Stats().Upstreams[0]; u.PortUtilization != 0.9 {
			g.Errorf("utilization %v", u.PortUtilization)
		}
		settled(g, g.client)
	})
}

// harbor#23591, golang/go#13801: parallel calls over a pool need no more ports than there are workers.
func TestWithAPoolThereAreNoMoreDialsThanWorkers_harbor23591_go13801(t *testing.T) {
	throughNAT(t, 50, sortietest.OK("hello").After(5*time.Millisecond), func(g *gated) {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 50 {
					if err := g.call(g.Context()); err != nil {
						g.Error(err)
					}
				}
			})
		}
		wg.Wait()
		p := ports(g, g.client, gatewayAddr)
		if s := g.nat.Stats(); s.Conns > 10 || s.Dropped != 0 || p.Dials != uint64(s.Conns) {
			g.Errorf("the gateway: %+v; %+v", s, p)
		}
		if p.Reuse < 0.98 || p.Growing || p.Refused != 0 || p.Cooling != 0 {
			g.Errorf("%+v, want 500 calls on 10 connections", p)
		}
	})
}

// A call whose time allows it waits for the next port.
func TestACallWaitsForTheNextPort(t *testing.T) {
	throughNAT(t, 2, once, func(g *gated) {
		if err := g.call(g.Context()); err != nil {
			g.Fatal(err)
		}
		began := time.Now()
		if err := g.call(g.Context()); err != nil {
			g.Fatal(err)
		}
		if took := time.Since(began); took < 4*time.Minute || took > 4*time.Minute+5*time.Second {
			g.Errorf("waited %v for a port that is kept for 4 minutes", took)
		}
	}, func(cfg *client.Config) {
		cfg.Upstreams[0].Policy.Conns.MaxWait = -1
		cfg.Upstreams[0].Policy.Conns.Ports.Admit = 0.5
		cfg.Upstreams[0].Policy.Conns.Ports.Warn = 0.5
	})
}

// While a connection is open, a call waits for it, whatever becomes of the ports.
func TestACallWaitsForAConnectionToComeBack(t *testing.T) {
	throughNAT(t, 3, sortietest.OK("hello").After(time.Second), func(g *gated) {
		began := time.Now()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if err := g.call(g.Context()); err != nil {
					g.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 3*time.Second || g.nat.Stats().Conns != 2 {
			g.Errorf("six calls of 1 s over two connections took %v; %+v", took, g.nat.Stats())
		}
	})
}

// A wait that ends before either says what was missing, and that it took a time limit to end it.
func TestAWaitThatEndsNamesThePorts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*client.Policy)
		call   client.CallOptions
		reason client.Reason
	}{
		"the attempt's time": {func(p *client.Policy) { p.Timeout = &client.Timeout{Attempt: time.Second} }, client.CallOptions{}, client.ReasonPortBudget},
		"the pool's wait":    {func(p *client.Policy) { p.Conns.MaxWait = time.Second }, client.CallOptions{}, client.ReasonPortBudget},
		"the call's time":    {func(p *client.Policy) { p.Timeout = &client.Timeout{} }, client.CallOptions{Total: time.Second}, client.ReasonDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			throughNAT(t, 3, sortietest.OK("hello").Stall(1, time.Minute), func(g *gated) {
				var hold [2]*http.Response
				for i := range hold {
					hold[i] = get(g, g.client, up)
				}
				began := time.Now()
				err := g.call(client.WithCall(g.Context(), tc.call))
				e, ok := errors.AsType[*client.PortError](err)
				if !ok || client.ReasonOf(err) != tc.reason || !client.NeverSent(err) || !errors.Is(err, client.ErrPortBudget) {
					g.Fatalf("err = %v", err)
				}
				if took := time.Since(began); took != time.Second || e.Held != 2 || e.Budget != 3 || e.RetryAfter != 0 {
					g.Errorf("after %v: %+v", took, e)
				}
				if !strings.Contains(err.Error(), "port budget to 10.9.9.9:80 used up: 2 of 3 held (custom)") {
					g.Errorf("text %q", err)
				}
				for _, resp := range hold {
					resp.Body.Close()
				}
			}, func(cfg *client.Config) { tc.change(&cfg.Upstreams[0].Policy) })
		})
	}
}

// A retry waits for the port, if it can.
func TestARetryWaitsForThePort(t *testing.T) {
	throughNAT(t, 2, once, func(g *gated) {
		if err := g.call(g.Context()); err != nil {
			g.Fatal(err)
		}
		began := time.Now()
		err := g.call(g.Context())
		e, _ := errors.AsType[*client.Error](err)
		if time.Since(began) != 0 || e == nil || e.Stopped != client.StoppedDeadline || e.Attempts != 1 {
			g.Errorf("with 4 minutes to wait: %v after %v", err, time.Since(began))
		}
		time.Sleep(4*time.Minute - 2*time.Second) // now it fits the call, but not the attempt
		if err := g.call(g.Context()); err != nil {
			g.Errorf("with seconds to wait: %v", err)
		}
	}, func(cfg *client.Config) {
		p := &cfg.Upstreams[0].Policy
		p.Timeout = &client.Timeout{Total: time.Minute, Attempt: time.Second}
		p.Retry = &client.Retry{MaxRetryAfter: 30 * time.Second}
		p.Conns.MaxWait = -1 // it is the attempt's time that a wait must fit
		p.Conns.Ports.Admit, p.Conns.Ports.Warn = 0.5, 0.5
	})
}
