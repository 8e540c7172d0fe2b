package dnscache_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// ipv4 is a Resolver that asks for one family: what failure does is easier to count.
func ipv4() *dnscache.Resolver { return &dnscache.Resolver{Family: dnscache.IPv4} }

func TestFailedRefreshKeepsTheAnswer_rsdnscache12(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(10, "192.0.2.1"), sortietest.ServFail(), sortietest.ServFail(), reply(10, "192.0.2.2"))
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		for range 4 {
			time.Sleep(2300 * time.Millisecond)
			w.want(w.lookup("api.example.com"), "192.0.2.1") // at 9.2 s the refresh fails, behind the answer
		}
		synctest.Wait()
		if got := w.eventKinds(); !slices.Equal(got, []dnscache.EventKind{dnscache.EventRefreshFailed}) {
			t.Errorf("events %v", got)
		}
		time.Sleep(1500 * time.Millisecond)
		w.want(w.lookup("api.example.com"), "192.0.2.1") // past its end, and the next try begins
		synctest.Wait()
		w.want(w.lookup("api.example.com"), "192.0.2.2")
		if s := w.r.Stats(); s.Stale == 0 || len(s.Failures) != 0 {
			t.Errorf("stale %d, failures %v", s.Stale, s.Failures)
		}
	})
}

func TestFailureIsCachedAndBacksOff_rsdnscache13(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Outage(sortietest.DNSReply{Drop: true})
		first := w.fails("api.example.com")
		if first.Kind != dnscache.Timeout || !first.Timeout() {
			t.Errorf("first: %v", first)
		}
		w.asked()
		start := time.Now()
		if e := w.fails("api.example.com"); e != first || e.RetryAt.Sub(start) != time.Second {
			t.Errorf("second: %v, retry in %v", e, e.RetryAt.Sub(start))
		}
		w.wantCount("within the second", 0)

		var gaps []time.Duration
		for range 7 {
			e := w.fails("api.example.com")
			gaps = append(gaps, time.Until(e.RetryAt))
			time.Sleep(time.Until(e.RetryAt) + time.Millisecond)
			w.fails("api.example.com")
		}
		var want []time.Duration
		for _, s := range []int{1, 2, 4, 8, 16, 30, 30} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if !slices.Equal(gaps, want) {
			t.Errorf("gaps %v, want %v", gaps, want)
		}
		w.dns.Recover()
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		time.Sleep(31 * time.Second)
		w.want(w.lookup("api.example.com"), "192.0.2.1")
	})
}

func TestServFailNeverHidesAGoodAnswer_coredns7956_coredns8003(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.lookup("api.example.com")
		start := time.Now()
		w.dns.Outage(sortietest.ServFail())
		at := func(s float64) { time.Sleep(time.Until(start.Add(time.Duration(s * float64(time.Second))))) }
		for _, s := range []float64{25, 25.5, 26.5, 28, 29, 35, 39} { // tries at 25, 26.5, 29 and 35; the next is due at 43
			at(s)
			w.want(w.lookup("api.example.com"), "192.0.2.1")
		}
		w.wantCount("tries", 1+4*2)
		w.dns.Recover()
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.2"))
		at(42)
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		w.wantCount("before the next try is due", 0)
		at(43.5)
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		synctest.Wait()
		w.want(w.lookup("api.example.com"), "192.0.2.2")
	})
}

func TestOldAnswerWaitsForTheNewOne_coredns4097(t *testing.T) {
	r := ipv4()
	r.IdleExpiry = time.Hour
	bubble(t, r, func(t *testing.T, w *world) {
		slow := reply(30, "192.0.2.2")
		slow.Delay = 20 * time.Millisecond
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), slow, reply(30, "192.0.2.3"))
		w.lookup("api.example.com")
		time.Sleep(10*time.Minute + 30*time.Second)
		var got dnscache.Result
		if d := took(func() { got = w.lookup("api.example.com") }); d != 20*time.Millisecond || got.Stale() {
			t.Errorf("took %v, stale %v", d, got.Stale())
		}
		w.want(got, "192.0.2.2")

		time.Sleep(33 * time.Second)
		if got = w.lookup("api.example.com"); !got.Stale() || got.TTL() != -3*time.Second {
			t.Errorf("stale %v, TTL %v", got.Stale(), got.TTL())
		}
		w.want(got, "192.0.2.2")
		synctest.Wait()
		w.want(w.lookup("api.example.com"), "192.0.2.3")
	})
}

func TestOldAnswerIsNotWaitedForLong(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration // of the caller, 0 none
		want    time.Duration
	}{
		{"without a deadline", 0, 500 * time.Millisecond},
		{"a quarter of the caller's time", 400 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ipv4()
			r.IdleExpiry = time.Hour
			bubble(t, r, func(t *testing.T, w *world) {
				w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.DNSReply{Drop: true})
				w.lookup("api.example.com")
				time.Sleep(10 * time.Minute)
				ctx := t.Context()
				if tc.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.timeout)
					defer cancel()
				}
				var got dnscache.Result
				var err error
				if d := took(func() { got, err = w.r.Lookup(ctx, "api.example.com") }); d != tc.want || err != nil || !got.Stale() {
					t.Errorf("took %v, want %v; %v, %v", d, tc.want, got, err)
				}
				time.Sleep(2 * time.Second) // the flight has failed, and the next try is not due
				if d := took(func() { w.lookup("api.example.com") }); d != 0 {
					t.Errorf("waited %v during back-off", d)
				}
			})
		})
	}
}

func TestStaleEnds_unbound1175(t *testing.T) {
	for _, tc := range []struct {
		name     string
		maxStale time.Duration // of the Dialer
		good     time.Duration // past the end
		bad      time.Duration
	}{
		{"after MaxStale", 0, 59 * time.Minute, 61 * time.Minute},
		{"after the Dialer's own", 5 * time.Minute, 4 * time.Minute, 6 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, ipv4(), func(t *testing.T, w *world) {
				w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
				if err := w.r.Pin(t.Context(), "api.example.com"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				w.dns.Outage(sortietest.DNSReply{Drop: true})
				end := time.Now().Add(10 * time.Second)
				d := &dnscache.Dialer{Resolver: w.r, MaxStale: tc.maxStale, Wire: func(context.Context, string, string) (net.Conn, error) {
					c, _ := net.Pipe()
					return c, nil
				}}
				time.Sleep(time.Until(end.Add(tc.good)))
				c, err := d.DialContext(t.Context(), "tcp", "api.example.com:80")
				if err != nil {
					t.Fatalf("before: %v", err)
				}
				c.Close()
				time.Sleep(time.Until(end.Add(tc.bad)))
				_, err = d.DialContext(t.Context(), "tcp", "api.example.com:80")
				if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.Timeout {
					t.Errorf("after: %v, want the resolver's timeout", err)
				}
			})
		})
	}
}

func TestFailedRefreshDoesNotFreezeTheRecord_envoy46402_envoy47061(t *testing.T) {
	r := ipv4()
	r.IdleExpiry = time.Hour
	bubble(t, r, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"), sortietest.ServFail(), sortietest.ServFail(), reply(30, "192.0.2.2"))
		w.lookup("api.example.com")
		time.Sleep(25 * time.Second)
		w.lookup("api.example.com")
		time.Sleep(10 * time.Minute)
		w.want(w.lookup("api.example.com"), "192.0.2.2")
	})
}

func TestRefreshErrorsStayInTheBackground_ziohttp3949(t *testing.T) {
	bubble(t, ipv4(), func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.lookup("api.example.com")
		w.dns.Outage(sortietest.DNSReply{Code: sortietest.DNSRefused})
		time.Sleep(28 * time.Second)
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		synctest.Wait()
		w.want(w.lookup("api.example.com"), "192.0.2.1")
		if s := w.r.Stats(); s.Replies["REFUSED"] != 2 || len(s.Failures) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLocalErrorsSayNothingAboutTheName_golang18588(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL,
	} {
		t.Run(errno.Error(), func(t *testing.T) {
			r := ipv4()
			var w *world
			broken := true
			r.DialDNS = func(ctx context.Context, network, address string) (net.Conn, error) {
				if broken {
					return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("socket: %w", errno)}
				}
				return w.dial(ctx, network, address)
			}
			bubble(t, r, func(t *testing.T, world *world) {
				w = world
				w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
				for range 2 {
					e := w.fails("api.example.com")
					dns, ok := errors.AsType[*net.DNSError](e)
					if e.Kind != dnscache.Local || !ok || dns.IsNotFound || !errors.Is(e, errno) || !e.RetryAt.IsZero() {
						t.Errorf("got %v of kind %v", e, e.Kind)
					}
				}
				broken = false
				w.want(w.lookup("api.example.com"), "192.0.2.1")
				broken = true
				time.Sleep(40 * time.Second)
				if got := w.lookup("api.example.com"); !got.Stale() {
					t.Error("want the stale answer")
				}
			})
		})
	}
}

func TestFamilyThatKeepsFailingIsAskedRarely(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(5, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", sortietest.ServFail())
		count := func() (n int) {
			for _, q := range w.asked() {
				if q == "api.example.com. AAAA" {
					n++
				}
			}
			return n / 2 // package net asks again at once
		}
		for range 60 {
			w.lookup("api.example.com")
			time.Sleep(time.Second)
		}
		if got := count(); got != 3 {
			t.Errorf("asked %d times in a minute, want 3", got)
		}
		w.dns.Script("api.example.com", "AAAA", reply(5, "2001:db8::1"))
		for range 4 * 60 {
			w.lookup("api.example.com")
			time.Sleep(time.Second)
		}
		if got := w.eventKinds(); !slices.Contains(got, dnscache.EventFamilyLost) || slices.Contains(got, dnscache.EventFamilyBack) {
			t.Errorf("events %v", got)
		}
		for range 10 {
			w.lookup("api.example.com")
			time.Sleep(time.Second)
		}
		w.want(w.lookup("api.example.com"), "192.0.2.1", "2001:db8::1")
		if got := w.eventKinds(); !slices.Contains(got, dnscache.EventFamilyBack) {
			t.Errorf("events %v", got)
		}
	})
}

func TestEmptyFamilyIsNotAskedEveryFewSeconds(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		w.dns.Script("api.example.com", "A", reply(300, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", sortietest.NoData()) // for 60 s
		for range 55 {
			if r := w.lookup("api.example.com"); r.Partial() {
				t.Error("an empty family makes the answer partial")
			}
			time.Sleep(time.Second)
		}
		w.wantAsked(pair("api.example.com.")...)
		time.Sleep(10 * time.Second)
		w.lookup("api.example.com")
		w.wantAsked("api.example.com. AAAA")
	})
}

func TestLateFamilyIsMerged(t *testing.T) {
	bubble(t, &dnscache.Resolver{}, func(t *testing.T, w *world) {
		late := reply(30, "2001:db8::1")
		late.Delay = 200 * time.Millisecond
		w.dns.Script("api.example.com", "A", reply(30, "192.0.2.1"))
		w.dns.Script("api.example.com", "AAAA", late)
		got := w.lookup("api.example.com")
		w.want(got, "192.0.2.1")
		if !got.Partial() {
			t.Error("not partial")
		}
		time.Sleep(160 * time.Millisecond)
		got = w.lookup("api.example.com")
		w.want(got, "192.0.2.1", "2001:db8::1")
		if got.Partial() {
			t.Error("still partial")
		}
		w.wantCount("both families", 2)
	})
}
