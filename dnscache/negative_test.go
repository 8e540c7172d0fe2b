package dnscache_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

func soa(code sortietest.DNSCode, ttl, minimum uint32) sortietest.DNSReply {
	return sortietest.DNSReply{Code: code, SOA: &sortietest.DNSAuthority{TTL: ttl, Minimum: minimum}}
}

func TestNegativeAnswersLiveShort_kubernetes74092_ncruces(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply sortietest.DNSReply
		life  time.Duration
	}{
		{"zone says 300 s", soa(sortietest.DNSNXDomain, 300, 300), 5 * time.Second},
		{"minimum is 1", soa(sortietest.DNSNXDomain, 86400, 1), time.Second},
		{"minimum is 0", soa(sortietest.DNSNXDomain, 86400, 0), time.Second},
		{"the record's TTL is less", soa(sortietest.DNSNXDomain, 3, 86400), 3 * time.Second},
		{"no address, 3 s", soa(sortietest.DNSSuccess, 3, 3), 3 * time.Second},
		{"no address, no start of authority", sortietest.DNSReply{}, time.Second},
		{"top bit set", soa(sortietest.DNSNXDomain, 0x80000000, 0xFFFFFFFF), 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, &dnscache.Resolver{Mode: dnscache.Absolute}, func(t *testing.T, w *world) {
				w.dns.Script("new.example.com", "", tc.reply)
				e := w.fails("new.example.com")
				dns, ok := errors.AsType[*net.DNSError](e)
				if e.Kind != dnscache.NotFound || !ok || !dns.IsNotFound || time.Until(e.RetryAt) != tc.life {
					t.Errorf("%v of kind %v, retry in %v; want NotFound and %v", e, e.Kind, time.Until(e.RetryAt), tc.life)
				}
				w.dns.Host("new.example.com", 30, "192.0.2.1")
				time.Sleep(tc.life - time.Millisecond)
				w.fails("new.example.com")
				w.wantCount("within its life", 2)
				time.Sleep(2 * time.Millisecond)
				w.want(w.lookup("new.example.com"), "192.0.2.1") // never stale
			})
		})
	}
}

func TestOneFamilyMayVanish(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.NXDomain())
		w.dns.Script("api.example.com", "AAAA", reply(300, "2001:db8::1"))
		w.lookup("api.example.com")
		w.asked()
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		got := w.lookup("api.example.com")
		w.want(got, "2001:db8::1")
		if got.Held() || got.Partial() {
			t.Errorf("held %v, partial %v", got.Held(), got.Partial())
		}
		w.wantAsked(pair("api.example.com.")...) // A denied, and so AAAA was asked as well
	})
}

func TestHoldKeepsAnswersThroughAnEmptyZone_coredns7805_coredns8273_kubernetes136171(t *testing.T) {
	bubble(t, &dnscache.Resolver{Mode: dnscache.Absolute}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
		w.lookup("api.example.com")
		w.asked()
		w.dns.Script("api.example.com", "", sortietest.NXDomain())
		time.Sleep(25 * time.Second)
		var gaps []time.Duration
		last := time.Now()
		var got dnscache.Result
		for range 28 {
			got = w.lookup("api.example.com")
			if n := len(w.asked()); n > 0 {
				gaps = append(gaps, time.Since(last).Round(time.Second))
				last = time.Now()
			}
			w.want(got, "192.0.2.1", "2001:db8::1")
			time.Sleep(time.Second + time.Microsecond)
		}
		if !got.Held() || !got.Stale() {
			t.Errorf("held %v, stale %v", got.Held(), got.Stale())
		}
		if want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("asked after %v, want %v", gaps, want)
		}
		time.Sleep(5 * time.Second)
		w.lookup("api.example.com") // 33 s: asks, behind the answer
		synctest.Wait()
		w.fails("api.example.com")
		kinds := w.eventKinds()
		kinds = slices.DeleteFunc(kinds, func(k dnscache.EventKind) bool { return k == dnscache.EventStaleServed })
		want := []dnscache.EventKind{dnscache.EventHoldBegan, dnscache.EventHoldBegan, dnscache.EventHoldEnded, dnscache.EventHoldEnded}
		if !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
	})
}

func TestHoldOfOneFamilyKeepsItsPace(t *testing.T) {
	bubble(t, &dnscache.Resolver{Mode: dnscache.Absolute}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1") // no AAAA
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.asked()
		w.dns.Script("api.example.com", "", soa(sortietest.DNSNXDomain, 1, 1))
		for range 28 {
			if got := w.lookup("api.example.com"); got.Partial() {
				t.Error("partial")
			}
			time.Sleep(time.Second + time.Microsecond)
		}
		w.wantCount("denied after 0, 2, 6 and 14 s", 8)
	})
}

func TestHoldEndsWithAnAddress(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.NoData(), reply(30, "192.0.2.2"))
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		if got := w.lookup("api.example.com"); !got.Held() || got.Stale() {
			t.Errorf("held %v, stale %v", got.Held(), got.Stale())
		}
		time.Sleep(3 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		got := w.lookup("api.example.com")
		w.want(got, "192.0.2.2")
		if got.Held() {
			t.Error("still held")
		}
	})
}

func TestHoldCanBeSwitchedOff(t *testing.T) {
	r := &dnscache.Resolver{Family: dnscache.IPv4, Mode: dnscache.Absolute, Hold: -1}
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.NXDomain())
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		w.fails("api.example.com")
	})
}

func TestHoldOutlastsFailures(t *testing.T) {
	r := ipv4()
	r.Mode = dnscache.Absolute
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.NXDomain())
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		w.dns.Outage(sortietest.ServFail())
		for range 60 {
			time.Sleep(time.Second)
			w.want(w.lookup("api.example.com"), "192.0.2.1") // stale rules apply
		}
		w.dns.Recover()
		time.Sleep(31 * time.Second)
		w.fails("api.example.com") // waits: a denial, and the one before lies long back
	})
}

func TestDeadAddressesEndAHold(t *testing.T) {
	r := &dnscache.Resolver{Family: dnscache.IPv4, Mode: dnscache.Absolute}
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.NXDomain())
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		synctest.Wait()
		refused := errors.New("refused")
		d := &dnscache.Dialer{Resolver: w.r, Wire: func(context.Context, string, string) (net.Conn, error) { return nil, refused }}
		if _, err := d.DialContext(t.Context(), "tcp", "api.example.com:80"); !errors.Is(err, refused) {
			t.Errorf("dial: %v", err)
		}
		if e := w.fails("api.example.com"); e.Kind != dnscache.NotFound {
			t.Errorf("kind %v", e.Kind)
		}
	})
}

func TestEmptiedZoneOfAPinnedNameIsNotPolledFast_mercari17(t *testing.T) {
	bubble(t, &dnscache.Resolver{Mode: dnscache.Absolute}, func(t *testing.T, w *world) {
		if err := w.r.Pin(t.Context(), "gone.example.com"); err == nil {
			t.Error("no error")
		}
		time.Sleep(10 * time.Minute)
		if n := len(w.asked()); n < 40 || n > 60 {
			t.Errorf("%d questions in 10 min, want two each 30 s", n)
		}
		w.dns.Host("gone.example.com", 30, "192.0.2.1")
		w.want(w.lookup("gone.example.com"), "192.0.2.1") // a reader does not wait for the timer
	})
}
