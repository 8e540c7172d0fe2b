package dnscache_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

func TestChangedResolvConfMakesEverythingDue(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"))
		w.dns.Host("redis.b", 300, "192.0.2.7")
		w.lookup("api.example.com")
		w.lookup("redis")
		w.fails("missing.example.com")
		w.asked()
		time.Sleep(time.Second)
		w.configure("search x b c d\noptions ndots:5\n")
		w.dns.Outage(sortietest.DNSReply{Drop: true}) // the new server is dead
		time.Sleep(35 * time.Second)                  // the table's tick looks

		got := w.lookup("api.example.com")
		w.want(got, "192.0.2.1")
		if !got.Stale() {
			t.Error("not stale")
		}
		w.want(w.lookup("redis"), "192.0.2.7")
		time.Sleep(3 * time.Second)
		w.wantCount("both are asked", 2*2) // each twice, since nobody answers: redis under its first suffix, x

		w.dns.Recover()
		time.Sleep(4 * time.Second)
		w.lookup("redis")
		w.wantAsked("redis.x. A", "redis.b. A") // the memo is gone
		if got := w.eventKinds(); !slices.Contains(got, dnscache.EventConfigChanged) {
			t.Errorf("events %v", got)
		}
	})
}

func TestChangeDropsDenialsAndFailures(t *testing.T) {
	bubble(t, &dnscache.Resolver{Mode: dnscache.Absolute}, func(t *testing.T, w *world) {
		w.dns.Outage(sortietest.ServFail())
		w.fails("a.example.com")
		w.dns.Recover()
		w.fails("b.example.com")
		w.asked()
		w.dns.Host("a.example.com", 30, "192.0.2.1")
		w.dns.Host("b.example.com", 30, "192.0.2.2")
		w.fails("a.example.com")
		w.fails("b.example.com")
		w.wantCount("remembered", 0)
		w.r.NetworkChanged()
		w.lookup("a.example.com")
		w.lookup("b.example.com")
	})
}

func TestChangeIsRepeatedForPackageNet(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"))
		w.lookup("api.example.com")
		w.r.NetworkChanged()
		w.lookup("api.example.com")
		w.wantCount("first and after the change", 2)
		time.Sleep(5 * time.Second)
		w.lookup("api.example.com")
		w.wantCount("a hit", 0)
		time.Sleep(1500 * time.Millisecond) // package net reads the file again within 5 s
		w.lookup("api.example.com")
		w.wantCount("once more", 1)
	})
}

func TestClockSetBackChangesNothing(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"))
		w.lookup("api.example.com")
		w.wall.Store(-int64(time.Hour))
		time.Sleep(2 * time.Minute)
		if got := w.lookup("api.example.com"); got.Stale() || got.TTL() != 3*time.Minute {
			t.Errorf("stale %v, TTL %v", got.Stale(), got.TTL())
		}
		w.wantCount("all", 1)
	})
}

func TestSleepAgesRecords(t *testing.T) {
	sleep := func(w *world) { w.wall.Add(int64(2 * time.Hour)) } // timers stand still meanwhile
	t.Run("noticed by the tick", func(t *testing.T) {
		bubble(t, ipv4(), func(t *testing.T, w *world) {
			w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"))
			w.lookup("api.example.com")
			w.dns.Outage(sortietest.ServFail())
			sleep(w)
			time.Sleep(31 * time.Second)
			w.fails("api.example.com") // beyond MaxStale: a miss
			if got := w.eventKinds(); !slices.Contains(got, dnscache.EventClockStep) {
				t.Errorf("events %v", got)
			}
		})
	})
	t.Run("noticed by the dialer at once", func(t *testing.T) {
		bubble(t, ipv4(), func(t *testing.T, w *world) {
			w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"), reply(300, "192.0.2.2"))
			w.lookup("api.example.com")
			sleep(w)
			var dialled string
			d := &dnscache.Dialer{Resolver: w.r, Wire: func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = address
				c, _ := net.Pipe()
				return c, nil
			}}
			c, err := d.DialContext(t.Context(), "tcp", "api.example.com:80")
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if dialled != "192.0.2.2:80" {
				t.Errorf("dialled %s, want the new address", dialled)
			}
		})
	})
}

func TestIdleNamesCostNothing_mercari17(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		for i := range 1000 {
			name := fmt.Sprintf("host%d.example.com", i)
			w.dns.Host(name, 30, "192.0.2.1", "2001:db8::1")
			w.lookup(name)
		}
		w.asked()
		if s := w.r.Stats(); s.Names != 1000 {
			t.Errorf("%d names", s.Names)
		}
		time.Sleep(10 * time.Minute)
		w.wantCount("while idle", 0)
		if s := w.r.Stats(); s.Names != 0 || s.Flights != 0 {
			t.Errorf("%+v", s)
		}
		if left := ours(); len(left) > 0 {
			t.Errorf("%d goroutines of the cache are left, the first is\n%s", len(left), left[0])
		}
	})
}

func TestNamesInUseStay(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Host("used.example.com", 30, "192.0.2.1")
		w.dns.Host("pinned.example.com", 30, "192.0.2.2")
		if err := w.r.Pin(t.Context(), "pinned.example.com"); err != nil {
			t.Fatal(err)
		}
		for range 15 {
			w.lookup("used.example.com")
			time.Sleep(time.Minute)
		}
		if s := w.r.Stats(); s.Names != 2 || s.Pinned != 1 {
			t.Errorf("%d names, %d pinned", s.Names, s.Pinned)
		}
		w.r.Unpin("pinned.example.com")
		time.Sleep(7 * time.Minute)
		if s := w.r.Stats(); s.Names != 0 {
			t.Errorf("%d names", s.Names)
		}
	})
}

func TestTableIsBounded(t *testing.T) {
	r := ipv4()
	r.MaxNames = 100
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Respond = func(sortietest.DNSQuestion) (sortietest.DNSReply, bool) { return reply(300, "192.0.2.1"), true }
		var hot []string
		for i := range 10 {
			hot = append(hot, fmt.Sprintf("hot%d.example.com", i))
		}
		if err := w.r.Pin(t.Context(), hot...); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			time.Sleep(time.Millisecond)
			w.lookup(fmt.Sprintf("host%d.example.com", i))
		}
		s := w.r.Stats()
		if s.Names != 100 || s.Evictions != 910 || s.Pinned != 10 {
			t.Errorf("%d names, %d evictions, %d pinned", s.Names, s.Evictions, s.Pinned)
		}
		w.asked()
		for _, name := range hot {
			w.lookup(name)
		}
		w.wantCount("pinned names", 0)
	})
}

func TestFullTableAnswersAllTheSame(t *testing.T) {
	r := ipv4()
	r.MaxNames = 1
	bubble(t, r, func(t *testing.T, w *world) {
		slow := reply(300, "192.0.2.1")
		slow.Delay = 20 * time.Millisecond
		w.dns.Script("api.example.com", "A", slow)
		w.dns.Host("pinned.example.com", 300, "192.0.2.2")
		if err := w.r.Pin(t.Context(), "pinned.example.com"); err != nil {
			t.Fatal(err)
		}
		w.asked()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { w.want(w.lookup("api.example.com"), "192.0.2.1") })
		}
		wg.Wait()
		w.wantCount("20 callers at a time", 1)
		w.lookup("api.example.com")
		w.wantCount("not kept", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := w.r.Lookup(ctx, "api.example.com"); err != context.DeadlineExceeded {
			t.Errorf("a caller who left got %v", err)
		}
		if err := w.r.Pin(t.Context(), "second.example.com"); err == nil {
			t.Error("there is room for a second pin")
		}
		time.Sleep(time.Second)
	})
}

func TestClose(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Host("api.example.com", 30, "192.0.2.1")
		w.lookup("api.example.com")
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		done := make(chan error)
		go func() {
			_, err := w.r.Lookup(context.Background(), "slow.example.com")
			done <- err
		}()
		synctest.Wait()
		if d := took(func() { w.r.Close() }); d != 0 {
			t.Errorf("Close took %v: it waited for package net's deadline", d)
		}
		if err := <-done; !errors.Is(err, dnscache.ErrClosed) {
			t.Errorf("the lookup in progress got %v", err)
		}
		for _, name := range []string{"api.example.com", "slow.example.com", "192.0.2.1"} {
			if e := w.fails(name); e.Kind != dnscache.Closed || !errors.Is(e, dnscache.ErrClosed) {
				t.Errorf("%s: %v", name, e)
			}
		}
		if _, err := w.r.DialContext(t.Context(), "tcp", "api.example.com:80"); !errors.Is(err, dnscache.ErrClosed) {
			t.Errorf("dial: %v", err)
		}
		if err := w.r.Pin(t.Context(), "api.example.com"); !errors.Is(err, dnscache.ErrClosed) {
			t.Errorf("pin: %v", err)
		}
		told := 0
		w.r.Watch("api.example.com", func(u dnscache.Update) {
			told++
			if !errors.Is(u.Err, dnscache.ErrClosed) {
				t.Errorf("watch: %v", u.Err)
			}
		})()
		w.r.Unpin("api.example.com")
		w.r.NetworkChanged()
		if err := w.r.Close(); err != nil || told != 1 {
			t.Errorf("%v, told %d times", err, told)
		}
	})
}

func TestCloseBeforeUse(t *testing.T) {
	var r dnscache.Resolver
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Lookup(t.Context(), "localhost"); !errors.Is(err, dnscache.ErrClosed) {
		t.Error(err)
	}
}

func TestInvalidResolverSaysAllItsMistakes(t *testing.T) {
	r := &dnscache.Resolver{
		Mode: 7, Family: 9, Servers: []netip.AddrPort{{}}, MinTTL: time.Hour, MaxStale: -2, Hold: 2 * time.Hour,
		QueryTimeout: time.Minute, Jitter: 1, MaxNames: -1,
	}
	err := r.Validate()
	for _, field := range []string{"Mode", "Family", "Servers[0]", "MinTTL", "MaxStale", "Hold", "QueryTimeout", "Jitter", "MaxNames"} {
		if !contains(err, "dnscache: Resolver."+field+": ") {
			t.Errorf("nothing about %s in %v", field, err)
		}
	}
	if _, lookupErr := r.Lookup(t.Context(), "api.example.com"); !contains(lookupErr, "Resolver.Mode") {
		t.Errorf("Lookup: %v", lookupErr)
	}
	if x := r.Explain("api.example.com"); !contains(x.Err, "Resolver.Mode") {
		t.Errorf("Explain: %v", x.Err)
	}
	r.NetworkChanged()
	if s := r.Stats(); s.Names != 0 {
		t.Errorf("%+v", s)
	}
	if err := new(dnscache.Resolver).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	sys := &dnscache.Resolver{System: true, Mode: dnscache.Strict, MinTTL: time.Second, DialDNS: (&net.Dialer{}).DialContext}
	for _, field := range []string{"Mode", "MinTTL", "DialDNS"} {
		if !contains(sys.Validate(), "Resolver."+field+": has no effect with System") {
			t.Errorf("nothing about %s in %v", field, sys.Validate())
		}
	}
	none := &dnscache.Resolver{MaxStale: -1, Hold: -1, Jitter: -1}
	if err := none.Validate(); err != nil {
		t.Error(err)
	}
}
