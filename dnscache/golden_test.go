package dnscache_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// The numbers of questions that reach the wire. Package net asks ten for the first of these names.

func TestGoldenAutoAsksTheNameAsItStands(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", reply(60, "2001:db8::1"))
		w.want(w.lookup("api.example.com"), "192.0.2.1", "2001:db8::1")
		w.wantAsked(pair("api.example.com.")...)

		for range 1000 {
			w.lookup("api.example.com")
		}
		w.wantCount("1,000 reads in one life", 0)

		time.Sleep(25 * time.Second) // A is due at 24 s, AAAA at 48 s
		w.lookup("api.example.com")
		w.wantAsked("api.example.com. A")

		time.Sleep(25 * time.Second) // both are due
		w.lookup("api.example.com")
		w.wantAsked(pair("api.example.com.")...)
	})
}

func TestGoldenStrictWalksOnceAndRemembersTheWinner(t *testing.T) {
	bubble(t, &dnscache.Resolver{Mode: dnscache.Strict}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
		walk := pair("api.example.com.a.", "api.example.com.b.", "api.example.com.c.", "api.example.com.d.", "api.example.com.")
		w.lookup("api.example.com")
		w.wantAsked(walk...)

		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		w.wantAsked(pair("api.example.com.")...)

		time.Sleep(5 * time.Minute) // the memo is over
		w.lookup("api.example.com")
		w.wantAsked(walk...)
	})
}

func TestGoldenShortNameUnderTheSecondSuffix(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("redis.b", 30, "192.0.2.1", "2001:db8::1")
		if r := w.lookup("redis"); r.Asked() != "redis.b." {
			t.Errorf("answered by %q", r.Asked())
		}
		w.wantAsked(pair("redis.a.", "redis.b.")...)
		time.Sleep(25 * time.Second)
		w.lookup("redis")
		w.wantAsked(pair("redis.b.")...)
	})
}

func TestGoldenKubernetesNames(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.configure("search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n")
		w.dns.Host("redis.prod.svc.cluster.local", 30, "10.0.0.1")
		w.dns.Host("catalog.shop.svc.cluster.local", 30, "10.0.0.2")
		w.lookup("redis.prod.svc")
		w.wantAsked(pair("redis.prod.svc.", "redis.prod.svc.shop.svc.cluster.local.",
			"redis.prod.svc.svc.cluster.local.", "redis.prod.svc.cluster.local.")...)
		w.lookup("catalog.shop.svc.cluster.local")
		w.wantAsked(pair("catalog.shop.svc.cluster.local.")...)
		time.Sleep(61 * time.Second) // A is stale, the empty AAAA over
		w.lookup("redis.prod.svc")
		w.wantAsked(pair("redis.prod.svc.cluster.local.")...)
	})
}

func TestGoldenMissingName(t *testing.T) {
	for _, tc := range []struct {
		mode dnscache.Mode
		want int
	}{{dnscache.Auto, 10}, {dnscache.Absolute, 2}} {
		t.Run(tc.mode.String(), func(t *testing.T) {
			bubble(t, &dnscache.Resolver{Mode: tc.mode}, func(t *testing.T, w *world) {
				if e := w.fails("no.such.example"); e.Kind != dnscache.NotFound {
					t.Errorf("kind %v", e.Kind)
				}
				w.wantCount("first", tc.want)
				time.Sleep(4 * time.Second)
				w.fails("no.such.example")
				w.wantCount("within the negative life", 0)
			})
		})
	}
}

func TestGoldenOneFamilyHostsAndLiteral(t *testing.T) {
	bubble(t, &dnscache.Resolver{Family: dnscache.IPv4}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		w.wantAsked("api.example.com. A")
		if r := w.lookup("localhost"); r.Source() != dnscache.SourceHosts {
			t.Errorf("localhost from %v", r.Source())
		}
		w.want(w.lookup("192.0.2.7"), "192.0.2.7")
		w.wantCount("hosts and literal", 0)
	})
}

func TestGoldenHundredCallersShareOneLookup(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "", sortietest.DNSReply{
			TTL: 30, Addrs: []string{"192.0.2.1", "2001:db8::1"}, Delay: 20 * time.Millisecond,
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { w.lookup("api.example.com") })
		}
		wg.Wait()
		w.wantCount("100 callers", 2)
		if s := w.r.Stats(); s.Misses != 100 || s.Coalesced != 99 || s.Hits != 0 {
			t.Errorf("%d misses, %d coalesced, %d hits", s.Misses, s.Coalesced, s.Hits)
		}
	})
}

func TestGoldenFamilyThatFails(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", sortietest.ServFail())
		if r := w.lookup("api.example.com"); !r.Partial() {
			t.Error("not partial")
		}
		w.wantCount("AAAA answers SERVFAIL", 3)
	})
}

func TestGoldenFamilyThatIsDropped_golang17448(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", sortietest.DNSReply{Drop: true})
		var r dnscache.Result
		if d := took(func() { r = w.lookup("api.example.com") }); d != 50*time.Millisecond || !r.Partial() {
			t.Errorf("answered after %v, partial %v; want 50 ms and true", d, r.Partial())
		}
		time.Sleep(3 * time.Second)
		w.wantCount("AAAA dropped", 3)
	})
}

func TestGoldenBlackHole(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		var e *dnscache.Error
		if d := took(func() { e = w.fails("api.example.com") }); d != 2*time.Second || e.Kind != dnscache.Timeout {
			t.Errorf("%v after %v, want a timeout after 2 s", e, d)
		}
		w.wantCount("cold", 4)
	})
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
		w.lookup("api.example.com")
		w.asked()
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		time.Sleep(25 * time.Second)
		for range 2 { // rounds of the ladder
			if d := took(func() { w.lookup("api.example.com") }); d != 0 {
				t.Errorf("waited %v with a good record", d)
			}
			time.Sleep(2500 * time.Millisecond)
			w.wantCount("a round", 4)
			time.Sleep(2 * time.Second)
		}
	})
}

func TestGoldenDeadFirstServerRests(t *testing.T) {
	servers := twoServers(t)
	bubble(t, servers.resolver(), func(t *testing.T, w *world) {
		servers.world(w)
		if d := took(func() { w.lookup("one.example.com") }); d != time.Second {
			t.Errorf("first lookup took %v, want 1 s", d)
		}
		synctest.Wait()
		if got := servers.counts(); !slices.Equal(got, []int{2, 2}) {
			t.Errorf("questions by server %v, want 2 and 2", got)
		}
		if got := w.r.Stats().Resting; len(got) != 1 {
			t.Errorf("resting %v", got)
		}
		time.Sleep(9 * time.Second)
		if d := took(func() { w.lookup("two.example.com") }); d != 0 {
			t.Errorf("second lookup took %v, want none", d)
		}
		if got := servers.counts(); !slices.Equal(got, []int{2, 4}) {
			t.Errorf("questions by server %v, want 2 and 4", got)
		}
	})
}
