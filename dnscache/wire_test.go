package dnscache_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

func TestTTLIsTheSmallestOfTheChain_rfc8767(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply sortietest.DNSReply
		ttl   time.Duration
	}{
		{"plain", reply(42, "192.0.2.1"), 42 * time.Second},
		{"all bits set", reply(0xFFFFFFFF, "192.0.2.1"), 5 * time.Minute},
		{"top bit set", reply(0x80000000, "192.0.2.1"), 5 * time.Minute},
		{"too long", reply(86400, "192.0.2.1"), 5 * time.Minute},
		{"too short", reply(1, "192.0.2.1"), 5 * time.Second},
		{"zero", reply(0, "192.0.2.1"), time.Second},
		{"alias 300, address 7", sortietest.DNSReply{Records: []sortietest.DNSRecord{
			{Owner: "api.example.com", TTL: 300, CNAME: "lb.example.net"}, {Owner: "LB.example.net", TTL: 7, Addr: "192.0.2.1"},
		}}, 7 * time.Second},
		{"alias 6, address 300", sortietest.DNSReply{Records: []sortietest.DNSRecord{
			{Owner: "lb.example.net", TTL: 300, Addr: "192.0.2.1"}, {Owner: "api.example.com", TTL: 6, CNAME: "lb.example.net"},
		}}, 6 * time.Second},
		{"alias elsewhere does not count", sortietest.DNSReply{TTL: 60, Addrs: []string{"192.0.2.1"}, Records: []sortietest.DNSRecord{
			{Owner: "other.example.com", TTL: 6, CNAME: "lb.example.net"},
		}}, 60 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, ipv4(), func(t *testing.T, w *world) {
				w.dns.Script("api.example.com", "A", tc.reply)
				r := w.lookup("api.example.com")
				w.want(r, "192.0.2.1")
				if r.TTL() != tc.ttl {
					t.Errorf("TTL %v, want %v", r.TTL(), tc.ttl)
				}
			})
		})
	}
}

func TestForeignOwnersAreNeverUsed(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		foreign := sortietest.DNSRecord{Owner: "evil.example.net", TTL: 30, Addr: "192.0.2.66"}
		w.dns.Script("mixed.example.com", "A", sortietest.DNSReply{
			TTL: 30, Addrs: []string{"192.0.2.1"}, Records: []sortietest.DNSRecord{foreign},
		})
		w.dns.Script("only.example.com", "A", sortietest.DNSReply{Records: []sortietest.DNSRecord{foreign}})
		w.want(w.lookup("mixed.example.com"), "192.0.2.1")
		if e := w.fails("only.example.com"); e.Kind != dnscache.Failure {
			t.Errorf("kind %v", e.Kind)
		}
	})
}

func TestAliasLoopIsAFailure(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("loop.example.com", "A", sortietest.DNSReply{Records: []sortietest.DNSRecord{
			{Owner: "loop.example.com", TTL: 30, CNAME: "b.example.com"}, {Owner: "b.example.com", TTL: 30, CNAME: "loop.example.com"},
		}})
		if e := w.fails("loop.example.com"); e.Kind != dnscache.Failure && e.Kind != dnscache.NotFound {
			t.Errorf("%v", e)
		}
	})
}

func TestForgedRepliesAreIgnored(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "", sortietest.DNSReply{
			TTL: 30, Addrs: []string{"192.0.2.1", "2001:db8::1"}, Forge: true,
		})
		r := w.lookup("api.example.com")
		w.want(r, "192.0.2.1", "2001:db8::1")
		if r.TTL() != 30*time.Second {
			t.Errorf("TTL %v", r.TTL())
		}
	})
}

func TestTruncatedReplyIsAskedOverTCP(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", sortietest.DNSReply{Truncate: true, TTL: 77, Addrs: []string{"192.0.2.1"}})
		r := w.lookup("api.example.com")
		w.want(r, "192.0.2.1")
		if r.TTL() != 77*time.Second {
			t.Errorf("TTL %v, want that of the reply over TCP", r.TTL())
		}
		var networks []string
		for _, q := range w.dns.Questions() {
			networks = append(networks, q.Network)
		}
		if !slices.Equal(networks, []string{"udp", "tcp"}) {
			t.Errorf("asked over %v", networks)
		}
		if s := w.r.Stats(); s.Questions != 2 || s.Replies["NOERROR"] != 1 {
			t.Errorf("%d questions, replies %v", s.Questions, s.Replies)
		}
	})
}

func TestMalformedReplyIsNeverKept(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.DNSReply{Raw: []byte("garbage that is long enough")})
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		time.Sleep(3 * time.Second)
		w.want(w.lookup("api.example.com"), "192.0.2.1")
	})
}

func TestServersAreAskedInTurn(t *testing.T) {
	var mu sync.Mutex
	var dialled []string
	r := ipv4()
	for _, s := range []string{"192.0.2.51:53", "192.0.2.52:53", "192.0.2.53:5353"} {
		r.Servers = append(r.Servers, netip.MustParseAddrPort(s))
	}
	var dns *sortietest.DNS
	r.DialDNS = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialled = append(dialled, strings.TrimPrefix(address, "192.0.2."))
		mu.Unlock()
		return dns.DialContext(ctx, network, address)
	}
	bubble(t, r, func(t *testing.T, w *world) {
		dns = w.dns
		w.dns.Script("short", "A", sortietest.ServFail())
		w.fails("short") // one label, and no suffix in front of these servers
		w.wantAsked(slices.Repeat([]string{"short. A"}, 6)...)
		if want := []string{"51:53", "52:53", "53:5353", "51:53", "52:53", "53:5353"}; !slices.Equal(dialled, want) {
			t.Errorf("dialled %v, want %v", dialled, want)
		}
	})
}

func TestThirdServerIsReachedPastTwoDeadOnes(t *testing.T) {
	var dead, good *sortietest.DNS
	r := ipv4()
	for _, s := range []string{"192.0.2.51:53", "192.0.2.52:53", "192.0.2.53:53"} {
		r.Servers = append(r.Servers, netip.MustParseAddrPort(s))
	}
	r.DialDNS = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "192.0.2.53:53" {
			return good.DialContext(ctx, network, address)
		}
		return dead.DialContext(ctx, network, address)
	}
	bubble(t, r, func(t *testing.T, w *world) {
		dead, good = new(sortietest.DNS), w.dns
		dead.Outage(sortietest.DNSReply{Drop: true})
		good.Host("api.example.com", 30, "192.0.2.1")
		if d := took(func() { w.lookup("api.example.com") }); d != 2*time.Second {
			t.Errorf("took %v, want a second for each dead server", d)
		}
	})
}

func TestSingleRequestAsksOneFamilyAfterTheOther(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.configure("options single-request\n")
		slow := reply(30, "192.0.2.1", "2001:db8::1")
		slow.Delay = 10 * time.Millisecond
		w.dns.Script("api.example.com", "", slow)
		if d := took(func() { w.lookup("api.example.com") }); d != 20*time.Millisecond {
			t.Errorf("took %v, want twice 10 ms", d)
		}
	})
}

func TestDeadlineOfAServerIsCut(t *testing.T) {
	r := ipv4()
	r.QueryTimeout = 300 * time.Millisecond
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		if d := took(func() { w.fails("api.example.com") }); d != 600*time.Millisecond {
			t.Errorf("took %v, want two tries of 300 ms", d)
		}
		if s := w.r.Stats(); s.Timeouts != 2 {
			t.Errorf("%d timeouts", s.Timeouts)
		}
	})
}

func TestLookupTimeoutEndsTheWhole(t *testing.T) {
	bubble(t, &dnscache.Resolver{LookupTimeout: 1500 * time.Millisecond}, func(t *testing.T, w *world) {
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		if d := took(func() { w.fails("api.example.com") }); d != 1500*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestCallerWhoLeavesLosesNothing_rsdnscache(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		slow := reply(30, "192.0.2.1", "2001:db8::1")
		slow.Delay = 60 * time.Millisecond
		w.dns.Script("api.example.com", "", slow)
		var errs []error
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			var err error
			if d := took(func() { _, err = w.r.Lookup(ctx, "api.example.com") }); d > 30*time.Millisecond {
				t.Errorf("held for %v", d)
			}
			errs = append(errs, err)
			cancel()
			time.Sleep(time.Millisecond)
		}
		if errs[0] != context.DeadlineExceeded || errs[2] != nil || errs[4] != nil {
			t.Errorf("errors %v", errs)
		}
		w.wantCount("five callers", 2)
	})
}

func TestTwoResolversShareNothing_rsdnscache(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		dns := new(sortietest.DNS)
		dns.Host("api.example.com", 30, "192.0.2.2")
		other := &dnscache.Resolver{DialDNS: dns.DialContext}
		defer other.Close()
		w.dns.Host("api.example.com", 30, "192.0.2.1")
		var wg sync.WaitGroup
		wg.Go(func() { w.want(w.lookup("api.example.com"), "192.0.2.1") })
		r, err := other.Lookup(t.Context(), "api.example.com")
		if err != nil {
			t.Fatal(err)
		}
		w.want(r, "192.0.2.2")
		wg.Wait()
	})
}

func TestAnswerCannotBeSpoilt_rsdnscache(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1", "192.0.2.2"))
		r := w.lookup("api.example.com")
		got := r.Append(nil)
		got[0] = netip.MustParseAddr("203.0.113.1")
		got = r.Append(got[:0])
		got = append(got, netip.MustParseAddr("203.0.113.2"))
		_ = got
		w.want(w.lookup("api.example.com"), "192.0.2.1", "192.0.2.2")
	})
}

func TestServerOrderIsKeptAndAddressesBounded(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		var addrs []string
		for i := range 200 {
			addrs = append(addrs, netip.AddrFrom4([4]byte{192, 0, 2, byte(199 - i)}).String())
		}
		w.dns.Script("many.example.com", "A", sortietest.DNSReply{TTL: 30, Addrs: addrs})
		w.want(w.lookup("many.example.com"), addrs[:128]...)
		if x := w.r.Explain("many.example.com"); x.Families[0].Dropped != 72 {
			t.Errorf("%d addresses too many, want 72", x.Families[0].Dropped)
		}
	})
}

func TestRefreshesOfManyNamesSpread(t *testing.T) {
	const names = 1000
	r := ipv4()
	r.Jitter = 0.1
	bubble(t, r, func(t *testing.T, w *world) {
		slow := reply(60, "192.0.2.1")
		slow.Delay = 50 * time.Millisecond
		var mu sync.Mutex
		running, most := 0, 0
		w.dns.Respond = func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.AfterFunc(slow.Delay-time.Millisecond, func() { // before the next may begin
				mu.Lock()
				running--
				mu.Unlock()
			})
			return slow, true
		}
		var all []string
		for i := range names {
			all = append(all, "host"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))+".example.com")
		}
		if err := w.r.Pin(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		if most > 256 {
			t.Errorf("%d first lookups at a time, want at most 256", most)
		}
		w.asked()
		mu.Lock()
		most = 0
		mu.Unlock()
		time.Sleep(60 * time.Second)
		synctest.Wait()
		var times []time.Time
		for _, q := range w.dns.Questions()[:names] {
			times = append(times, q.Time)
		}
		if spread := times[names-1].Sub(times[0]); spread < 5*time.Second || most > 64 {
			t.Errorf("refreshes spread over %v, %d at a time; want about 6 s and at most 64", spread, most)
		}
	})
}
