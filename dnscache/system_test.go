package dnscache_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
)

// system runs a story about a Resolver that asks the platform, which answer stands for.
func system(t *testing.T, answer func(nth int) ([]netip.Addr, error), story func(t *testing.T, w *world, asked func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := &dnscache.Resolver{System: true, Jitter: -1}
		dnscache.Hook(r, dnscache.Hooks{
			Routed: func(netip.Addr) bool { return true },
			SystemLookup: func(_ context.Context, name string) ([]netip.Addr, error) {
				n++
				return answer(n)
			},
		})
		defer r.Close()
		story(t, &world{t: t, r: r}, func() int {
			synctest.Wait()
			return n
		})
	})
}

func TestSystemAsksOnceForBothFamilies(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	system(t, func(int) ([]netip.Addr, error) { return append([]netip.Addr(nil), addrs...), nil },
		func(t *testing.T, w *world, asked func() int) {
			r := w.lookup("printer.local")
			w.want(r, "2001:db8::1", "192.0.2.1")
			if r.Source() != dnscache.SourceSystem || r.TTL() != 30*time.Second || r.Partial() {
				t.Errorf("from %v, TTL %v, partial %v", r.Source(), r.TTL(), r.Partial())
			}
			time.Sleep(25 * time.Second)
			w.lookup("printer.local")
			if n := asked(); n != 2 {
				t.Errorf("asked %d times, want 2", n)
			}
			if r := w.lookup("printer.local"); r.TTL() != 30*time.Second {
				t.Errorf("TTL %v after the refresh", r.TTL())
			}
		})
}

func TestSystemDenialsLiveOneSecond(t *testing.T) {
	system(t, func(n int) ([]netip.Addr, error) {
		if n == 1 {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}, func(t *testing.T, w *world, asked func() int) {
		if e := w.fails("printer.local"); e.Kind != dnscache.NotFound {
			t.Errorf("kind %v", e.Kind)
		}
		w.fails("printer.local")
		time.Sleep(1001 * time.Millisecond)
		if r := w.lookup("printer.local"); r.Partial() || asked() != 2 {
			t.Errorf("partial %v, asked %d times", r.Partial(), asked())
		}
	})
}

func TestSystemFailureKeepsTheAnswer(t *testing.T) {
	system(t, func(n int) ([]netip.Addr, error) {
		if n > 1 {
			return nil, &net.DNSError{Err: "try again", IsTemporary: true}
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}, func(t *testing.T, w *world, asked func() int) {
		w.lookup("printer.local")
		time.Sleep(40 * time.Second)
		if r := w.lookup("printer.local"); !r.Stale() {
			t.Error("not stale")
		}
	})
}
