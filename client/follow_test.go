package client_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// callFor keeps an upstream's connection in use: a call every 200 ms, which must succeed. It returns the last answer.
func callFor(t *testing.T, c *client.Client, d time.Duration) (answer string) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		answer = readAll(t, get(t, c, up))
	}
	return answer
}

// The name moves from A to B. A busy connection to A, which would live for ever, is left although it never is idle for long.
func TestANameEndpointFollowsDNS_go23427(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("A"))
		lab.serve("10.0.0.2:80", answers("B"))
		c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
			cfg.Upstreams[0].Policy.Conns = &client.Conns{MaxAge: -1}
		})
		dns.Host("up.internal", 10, "10.0.0.1")
		if got := callFor(t, c, time.Minute); got != "A" {
			t.Fatalf("on %s", got)
		}
		dns.Host("up.internal", 10, "10.0.0.2")
		if got := callFor(t, c, 25*time.Second); got != "A" {
			t.Errorf("on %s before the time", got)
		}
		if got := callFor(t, c, 30*time.Second); got != "B" {
			t.Errorf("still on %s", got)
		}
		c.Close() // ends the watch
		asked := len(dns.Questions())
		time.Sleep(time.Hour)
		if n := len(dns.Questions()) - asked; n > 4 {
			t.Errorf("%d questions after Close", n)
		}
	})
}

func TestDNSInTroubleMovesNothing_conformanceB24d(t *testing.T) {
	for name, reply := range map[string]sortietest.DNSReply{
		"silent": {Drop: true}, "SERVFAIL": sortietest.ServFail(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", answers("A"))
				c, dns := named(t, lab, "http://up.internal", func(cfg *client.Config) {
					cfg.Upstreams[0].Policy.Conns = &client.Conns{MaxAge: -1}
				})
				dns.Host("up.internal", 10, "10.0.0.1")
				callFor(t, c, time.Second)
				dns.Outage(reply)
				callFor(t, c, 3*time.Minute)
				if n := lab.Dials("10.0.0.1:80"); n != 1 {
					t.Errorf("%d dials", n)
				}
			})
		})
	}
}

// The name does not exist for a minute, and the server closes every connection. The first call after that succeeds.
func TestTheFirstCallAfterDNSIsBackSucceeds_grpcgo1795_conformanceB24e(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("A"))
		c, dns := named(t, lab, "http://up.internal")
		dns.Host("up.internal", 5, "10.0.0.1")
		callFor(t, c, time.Second)
		dns.Outage(sortietest.NXDomain())
		time.Sleep(50 * time.Second)
		for _, nc := range lab.Conns("10.0.0.1:80") {
			nc.Reset()
		}
		for range 10 {
			_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
			if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
				t.Fatalf("err = %v", err)
			}
			time.Sleep(time.Second)
		}
		dns.Recover()
		time.Sleep(5 * time.Second) // the longest life of a denial
		resp := get(t, c, up)
		if r := client.ReportOf(resp); readAll(t, resp) != "A" || len(r.Attempts) != 1 {
			t.Errorf("report %v", r)
		}
	})
}
