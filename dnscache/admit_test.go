package dnscache_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAdmitSeesEachConnectOnce(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.3:80", "10.0.0.4:80"}, func(t *testing.T, w *world, n *wire) {
		refused := errors.New("not this one")
		var mu sync.Mutex
		var got []string
		n.d.Admit = func(_ context.Context, a netip.AddrPort) (func(net.Conn, error), error) {
			if a.Addr() == netip.MustParseAddr("10.0.0.1") {
				return nil, refused
			}
			if a.Addr() == netip.MustParseAddr("10.0.0.4") {
				return nil, nil
			}
			return func(c net.Conn, err error) {
				mu.Lock()
				defer mu.Unlock()
				outcome := "failed"
				switch {
				case c != nil && err == nil:
					outcome = "connected"
				case c != nil:
					outcome = "too late"
				}
				got = append(got, a.Addr().String()+" "+outcome)
			}, nil
		}
		n.BlackHole("10.0.0.2:80")
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
		n.connect(t, "api.example.com:80")
		synctest.Wait()
		slices.Sort(got)
		if want := []string{"10.0.0.2 failed", "10.0.0.3 connected"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		n.wantOrder(t, "10.0.0.2:80", "10.0.0.3:80")
		for _, a := range w.r.Explain("api.example.com").Addrs {
			if a.Addr.Addr() == netip.MustParseAddr("10.0.0.1") && a.LastError != nil {
				t.Errorf("a refusal of Admit cools the address: %v", a.LastError)
			}
		}
		if _, err := n.d.DialContext(t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err, refused) {
			t.Errorf("%v, want the refusal", err)
		}
		n.connect(t, "10.0.0.4:80")
	})
}

// An address for which Admit has no port, or no permission, says nothing against the answer of DNS.
func TestWhatAdmitRefusesAsksNothing(t *testing.T) {
	dialing(t, ipv4(), nil, func(t *testing.T, w *world, n *wire) {
		refused := errors.New("no port")
		n.d.Admit = func(context.Context, netip.AddrPort) (func(net.Conn, error), error) { return nil, refused }
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		w.lookup("api.example.com")
		w.asked()
		for range 10 {
			time.Sleep(10 * time.Second)
			if _, err := n.d.DialContext(t.Context(), "tcp", "api.example.com:80"); !errors.Is(err, refused) {
				t.Errorf("err = %v", err)
			}
		}
		w.wantCount("refused", 0)
	})
}
