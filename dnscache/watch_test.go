package dnscache_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// ear is a watcher that writes down what it is told.
type ear struct {
	mu  sync.Mutex
	got []string
}

func (e *ear) hear(u dnscache.Update) {
	s := u.String()
	if u.Err != nil {
		s = "error"
	}
	for _, m := range []struct {
		set  bool
		mark string
	}{{u.Fresh, " fresh"}, {u.Fresh && u.Family != dnscache.IPv4, " " + u.Family.String()}, {u.Stale(), " stale"}, {u.Held(), " held"}, {u.Partial(), " partial"}} {
		if m.set {
			s += m.mark
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, s)
}

// heard waits until the bubble rests, and returns what was told since the last call.
func (e *ear) heard() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.got
	e.got = nil
	return out
}

func (e *ear) want(t *testing.T, want ...string) {
	t.Helper()
	if got := e.heard(); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

func TestWatchTellsEveryAnswerInOrder(t *testing.T) {
	r := ipv4()
	r.Mode = dnscache.Absolute
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), reply(30, "192.0.2.2"), reply(30, "192.0.2.2"),
			sortietest.ServFail(), sortietest.ServFail(), sortietest.NXDomain())
		e := new(ear)
		stop := w.r.Watch("api.example.com", e.hear)
		e.want(t, "192.0.2.1 fresh")
		time.Sleep(24 * time.Second) // a timer asks, though nobody reads
		e.want(t, "192.0.2.2 fresh")
		time.Sleep(24 * time.Second)
		e.want(t, "192.0.2.2 fresh") // the same once more: two answers in a row count
		time.Sleep(24 * time.Second)
		e.want(t) // a failure says nothing about addresses
		time.Sleep(6500 * time.Millisecond)
		e.want(t, "192.0.2.2 held", "192.0.2.2 stale held")
		time.Sleep(35 * time.Second)
		e.want(t, "error")
		stop()
		time.Sleep(time.Minute)
		e.want(t)
		if s := w.r.Stats(); s.Pinned != 0 {
			t.Errorf("%d pinned after stop", s.Pinned)
		}
	})
}

func TestWatchTellsOfTheLateFamily(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		late := reply(30, "2001:db8::1")
		late.Delay = 500 * time.Millisecond
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", late)
		e := new(ear)
		defer w.r.Watch("api.example.com", e.hear)()
		e.want(t, "192.0.2.1 fresh partial")
		time.Sleep(2 * time.Second)
		e.want(t, "192.0.2.1 2001:db8::1 fresh ipv6")
	})
}

func TestWatchTellsTheAnswerInHand(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1")
		w.lookup("api.example.com")
		e := new(ear)
		stop := w.r.Watch("api.example.com", e.hear)
		e.want(t, "192.0.2.1")
		w.r.Watch("api.example.com", func(dnscache.Update) { stop() }) // may be called from the function
		synctest.Wait()
		time.Sleep(time.Minute)
		e.want(t)
		w.r.Watch("192.0.2.9", e.hear)()
		w.r.Watch("no..name", e.hear)()
		e.want(t, "192.0.2.9", "error")
	})
}

func TestSlowWatcherHoldsUpNobody(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Respond = func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
			return reply(5, fmt.Sprintf("192.0.2.%d", q.Nth%250)), true
		}
		release := make(chan struct{})
		var got []string
		defer w.r.Watch("api.example.com", func(u dnscache.Update) {
			<-release
			got = append(got, u.String())
		})()
		e := new(ear)
		defer w.r.Watch("api.example.com", e.hear)()
		time.Sleep(10 * time.Minute)
		if n := len(e.heard()); n < 140 {
			t.Errorf("the other watcher heard %d answers", n)
		}
		close(release)
		synctest.Wait()
		if len(got) != 65 || !slices.IsSortedFunc(got[1:3], strings.Compare) {
			t.Errorf("%d updates: %q", len(got), got)
		}
	})
}

func TestPinWaitsForAllAndStays(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Host("a.example.com", 30, "192.0.2.1")
		err := w.r.Pin(t.Context(), "a.example.com", "b.example.com", "no..name")
		if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.NotFound {
			t.Errorf("%v", err)
		}
		if s := w.r.Stats(); s.Pinned != 2 {
			t.Errorf("%d pinned", s.Pinned)
		}
		w.dns.Host("b.example.com", 30, "192.0.2.2")
		time.Sleep(10 * time.Minute)
		w.asked()
		w.lookup("a.example.com")
		w.lookup("b.example.com")
		w.wantCount("pinned names", 0)
		w.r.Unpin("a.example.com", "b.example.com", "unknown.example.com", "no..name")
		w.asked()
		time.Sleep(2 * time.Minute)
		w.wantCount("after Unpin", 0)
	})
}

func TestPreferredFamilyByRoute(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		dnscache.Hook(w.r, dnscache.Hooks{
			ResolvConf: w.conf, Routed: func(a netip.Addr) bool { return a == netip.MustParseAddr("2001:db8::1") },
		})
		w.dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
		w.want(w.lookup("api.example.com"), "2001:db8::1", "192.0.2.1")
	})
}

func TestExplainTellsWhy(t *testing.T) {
	dialing(t, &dnscache.Resolver{}, []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		if x := w.r.Explain("redis"); x.Known || len(x.List) != 6 || x.List[0] != "hosts" {
			t.Errorf("before: %+v", x)
		}
		w.dns.Script("redis.b", "A", reply(30, "10.0.0.1", "10.0.0.2"))
		w.dns.Script("redis.b", "AAAA", sortietest.ServFail())
		n.connect(t, "redis:80")
		time.Sleep(35 * time.Second)
		w.dns.Outage(sortietest.ServFail())
		w.lookup("redis")
		synctest.Wait()
		x := w.r.Explain("redis")
		if !x.Known || x.Memo != "redis.b." || x.Wasted != 2 || x.Families[0].Stage != "soft" || x.Families[0].Failures != 1 ||
			x.Families[1].Stage != "cold" || x.Families[1].NextTry.IsZero() || len(x.Addrs) != 2 || x.Addrs[1].LastSuccess.IsZero() {
			t.Errorf("%+v", x)
		}
		text := x.String()
		for _, want := range []string{
			"redis: 10.0.0.1 10.0.0.2, from dns, stale, partial\n", "list   hosts redis.a. redis.b. redis.c. redis.d. redis. (auto, ndots 5)\n",
			"asked  redis.b. alone, for 35s\n", "wasted 2 questions", "soft, server answered SERVFAIL by", "TTL -5s", "1 failures",
			"10.0.0.1:80 failed 35s ago: ", "10.0.0.2:80 connected 35s ago\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		if x := w.r.Explain("192.0.2.1"); x.Result.Len() != 1 {
			t.Errorf("literal: %+v", x)
		}
		if x := w.r.Explain("no..name"); x.Err == nil {
			t.Errorf("bad name: %+v", x)
		}
		w.wantCount("the two walks, and both families twice", 4+1+4)
	})
}

func TestStatsCount(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1")
		w.lookup("api.example.com")
		for range 5 {
			w.lookup("api.example.com")
		}
		w.fails("missing.example")
		w.fails("missing.example")
		w.fails("no..name")
		s := w.r.Stats()
		if s.Names != 2 || s.Hits != 6 || s.Misses != 2 || s.Negative != 2 || s.Questions != 6 ||
			s.Replies["NOERROR"] != 1 || s.Replies["NXDOMAIN"] != 5 || s.Failures[dnscache.NotFound] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestSlowEventsAreDropped(t *testing.T) {
	release := make(chan struct{})
	r := ipv4()
	got := 0
	r.OnEvent = func(dnscache.Event) {
		<-release
		got++
	}
	bubble(t, r, func(t *testing.T, w *world) {
		release = make(chan struct{})
		w.lookup("localhost")
		for range 600 {
			w.r.NetworkChanged()
		}
		synctest.Wait()
		if n := w.r.Stats().DroppedEvents; n != 600-256-1 {
			t.Errorf("%d events dropped", n)
		}
		close(release)
		synctest.Wait()
		if got != 257 {
			t.Errorf("%d events", got)
		}
	})
}

func TestNamesOfThings(t *testing.T) {
	for _, s := range []fmt.Stringer{
		dnscache.EventClockStep, dnscache.EventRefreshFailed, dnscache.EventStaleServed, dnscache.EventHoldBegan, dnscache.EventHoldEnded,
		dnscache.EventFamilyLost, dnscache.EventFamilyBack, dnscache.EventConfigChanged, dnscache.NotFound, dnscache.Failure, dnscache.Timeout,
		dnscache.Local, dnscache.Closed, dnscache.SourceDNS, dnscache.SourceHosts, dnscache.SourceLiteral, dnscache.SourceSystem,
		dnscache.Auto, dnscache.Strict, dnscache.Absolute, dnscache.Both, dnscache.IPv4, dnscache.IPv6,
	} {
		if name := s.String(); name == "" || strings.ContainsAny(name, "( ") {
			t.Errorf("%T is called %q", s, name)
		}
	}
	var none dnscache.Result
	if none.Len() != 0 || none.String() != "" || none.TTL() != 0 || none.Stale() || none.Asked() != "" || len(none.Append(nil)) != 0 {
		t.Error("the zero Result is not empty")
	}
}

func TestHostsAndResolvConfMayBeMissing(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		if err := os.Remove(w.conf); err != nil {
			t.Fatal(err)
		}
		w.dns.Host("redis", 30, "192.0.2.1")
		w.lookup("redis")
		w.wantAsked("redis. A")
	})
}
