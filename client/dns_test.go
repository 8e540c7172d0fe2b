package client_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// named returns a client whose upstream "up" has its base at a name, and the server that answers for it.
func named(t *testing.T, lab *lab, base string, change ...func(*client.Config)) (*client.Client, *sortietest.DNS) {
	t.Helper()
	dns := &sortietest.DNS{}
	res := &dnscache.Resolver{DialDNS: dns.DialContext, Servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}}
	t.Cleanup(func() { res.Close() })
	return lab.client(client.Policy{}, append([]func(*client.Config){func(cfg *client.Config) {
		cfg.Resolver = res
		cfg.Upstreams[0].External = []string{base}
	}}, change...)...), dns
}

func TestDNSIsOffTheHotPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Conns = &client.Conns{IdleTimeout: time.Second}
		})
		dns.Host("up.internal", 60, "10.0.0.1")
		dns.Script("up.internal", "A", sortietest.DNSReply{Addrs: []string{"10.0.0.1"}, TTL: 60, Delay: 40 * time.Millisecond})
		first := get(t, c, up)
		readAll(t, first)
		if d, _ := client.ReportOf(first).Account.Get(metrics.PhaseDNS); d != 40*time.Millisecond {
			t.Errorf("the first call looked nothing up: %v", client.ReportOf(first))
		}
		asked := len(dns.Questions())
		for range 10 {
			time.Sleep(2 * time.Second) // each call needs a new connection
			resp := get(t, c, up)
			readAll(t, resp)
			r := client.ReportOf(resp)
			if d, _ := r.Account.Get(metrics.PhaseDNS); d != 0 || r.Attempts[0].Conn.Reused {
				t.Errorf("dns took %v: %v", d, r)
			}
		}
		if got := len(dns.Questions()); got != asked || asked != 2 {
			t.Errorf("%d questions for the first call, %d after ten more", asked, got)
		}
	})
}

func TestADeadResolverFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Conns = &client.Conns{IdleTimeout: time.Second}
		})
		dns.Host("up.internal", 10, "10.0.0.1")
		readAll(t, get(t, c, up))
		dns.Outage(sortietest.DNSReply{Drop: true})
		for range 30 {
			time.Sleep(5 * time.Second)
			readAll(t, get(t, c, up))
		}
		// Without TLS nobody would notice a new owner of the address, so it ends after five minutes.
		time.Sleep(10 * time.Minute)
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonDNS {
			t.Errorf("err = %v", err)
		}
	})
}

func TestANameThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, _ := named(t, lab, "http://no.such.internal")
		_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		var dnsErr *net.DNSError
		if client.ReasonOf(err) != client.ReasonDNS || !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || !client.NeverSent(err) {
			t.Errorf("err = %v", err)
		}
	})
}

// httplb waited for the resolver, 2 s, whatever the caller's deadline.
func TestThePendingLookupIsNamed_httplb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c, dns := named(t, lab, "http://up.internal")
		dns.Outage(sortietest.DNSReply{Delay: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
		if client.ReasonOf(err) != client.ReasonDeadline || time.Since(start) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if !strings.Contains(err.Error(), "up.internal:80") || !strings.Contains(err.Error(), "dns") {
			t.Errorf("the text does not name the lookup: %v", err)
		}
	})
}

func TestANameThatResolvesToAClosedAddressIsDenied(t *testing.T) {
	for name, tc := range map[string]struct {
		address string
		guard   *client.Guard
		reason  client.Reason
	}{
		"metadata":           {"169.254.169.254", nil, client.ReasonDenied},
		"loopback, no guard": {"127.0.0.1", nil, client.ReasonConnectRefused},
		"loopback, guarded":  {"127.0.0.1", &client.Guard{}, client.ReasonDenied},
		"private, guarded":   {"10.0.0.1", &client.Guard{}, client.ReasonDenied},
		"public, guarded":    {"192.0.32.7", &client.Guard{}, client.ReasonConnectRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) { cfg.Guard = tc.guard })
				dns.Host("up.internal", 60, tc.address)
				_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
				if got := client.ReasonOf(err); got != tc.reason || tc.reason == client.ReasonDenied && !errors.Is(err, client.ErrDenied) {
					t.Errorf("%v, want %v: %v", got, tc.reason, err)
				}
			})
		})
	}
}

func TestRebindingGainsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("192.0.32.7:80", answers("hello"))
		lab.serve("169.254.169.254:80", answers("secret"))
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Conns = &client.Conns{IdleTimeout: time.Second}
		})
		dns.Host("up.internal", 5, "192.0.32.7")
		readAll(t, get(t, c, up))
		dns.Host("up.internal", 5, "169.254.169.254")
		time.Sleep(time.Minute)
		if resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonDenied {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestTooManyFilesIsNoMissingName_go18588(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		res := &dnscache.Resolver{Servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")},
			DialDNS: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
			}}
		defer res.Close()
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Resolver, cfg.Upstreams[0].External = res, []string{"http://up.internal"}
		})
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonLocalResource {
			t.Errorf("err = %v", err)
		}
	})
}
