package dnscache_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// wire is a network in memory that notes what is dialled, and a Dialer on it.
type wire struct {
	*sortietest.Network
	d *dnscache.Dialer

	mu      sync.Mutex
	dialled []string
	open    int
}

// dialing tells a story about a Dialer. Listeners at good answer, other addresses refuse, and black holes are silent.
func dialing(t *testing.T, r *dnscache.Resolver, good []string, story func(t *testing.T, w *world, n *wire)) {
	t.Helper()
	bubble(t, r, func(t *testing.T, w *world) {
		n := &wire{Network: sortietest.NewNetwork()}
		n.d = &dnscache.Dialer{Resolver: r, Wire: n.dial}
		for _, address := range good {
			ln, err := n.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
		}
		story(t, w, n)
	})
}

func (n *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	c, err := n.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
	return &counted{Conn: c, n: n}, nil
}

// counted notes its close.
type counted struct {
	net.Conn
	n    *wire
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		c.n.open--
	})
	return c.Conn.Close()
}

// order returns what was dialled since the last call.
func (n *wire) order() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.dialled
	n.dialled = nil
	return out
}

func (n *wire) wantOrder(t *testing.T, want ...string) {
	t.Helper()
	if got := n.order(); !slices.Equal(got, want) {
		t.Errorf("dialled %v, want %v", got, want)
	}
}

// connect must succeed; it returns the address that won and how long it took.
func (n *wire) connect(t *testing.T, address string) (string, time.Duration) {
	t.Helper()
	var c net.Conn
	var err error
	d := took(func() { c, err = n.d.DialContext(t.Context(), "tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.RemoteAddr().String(), d
}

func TestRacePassesBlackHoles_tailscale2519_incus2753(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.3:80"}, func(t *testing.T, w *world, n *wire) {
		n.BlackHole("10.0.0.1:80")
		n.BlackHole("10.0.0.2:80")
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
		if got, d := n.connect(t, "api.example.com:80"); got != "10.0.0.3:80" || d != 500*time.Millisecond {
			t.Errorf("%s after %v, want the good one after 500 ms", got, d)
		}
		n.wantOrder(t, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
		if left := ours(); n.open != 0 || len(left) > 0 {
			t.Errorf("%d connections open, goroutines left: %v", n.open, left)
		}

		if _, d := n.connect(t, "api.example.com:80"); d != 0 {
			t.Errorf("took %v: the black holes were not last", d)
		}
		n.wantOrder(t, "10.0.0.3:80")

		time.Sleep(61 * time.Second) // the turn is the third: .3, .1, .2 and then .1, .2, .3
		n.connect(t, "api.example.com:80")
		n.connect(t, "api.example.com:80")
		if got := n.order(); !slices.Contains(got, "10.0.0.1:80") {
			t.Errorf("dialled %v: the cooled addresses are never tried again", got)
		}
	})
}

func TestRefusedAddressCostsNoWait(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		if got, d := n.connect(t, "api.example.com:80"); got != "10.0.0.2:80" || d != 0 {
			t.Errorf("%s after %v, want the good one at once", got, d)
		}
	})
}

func TestAllAddressesCoolIsPlainOrder(t *testing.T) {
	dialing(t, ipv4(), nil, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		for range 3 {
			_, err := n.d.DialContext(t.Context(), "tcp", "api.example.com:80")
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v", err)
			}
		}
		n.wantOrder(t, "10.0.0.1:80", "10.0.0.2:80", "10.0.0.2:80", "10.0.0.1:80", "10.0.0.1:80", "10.0.0.2:80")
	})
}

func TestCoolDownDoublesAndSuccessClearsIt(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		cool := func() time.Duration {
			for _, a := range w.r.Explain("api.example.com").Addrs {
				if a.Addr == netip.MustParseAddrPort("10.0.0.1:80") {
					return time.Until(a.CoolUntil)
				}
			}
			return 0
		}
		w.lookup("api.example.com")
		n.d.Failed(netip.MustParseAddrPort("[::ffff:10.0.0.1]:80")) // a handshake failed there
		var got []time.Duration
		for range 4 {
			got = append(got, cool())
			time.Sleep(cool() + time.Millisecond)
			n.d.Failed(netip.MustParseAddrPort("10.0.0.1:80"))
		}
		if want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute}; !slices.Equal(got, want) {
			t.Errorf("cool for %v, want %v", got, want)
		}
		ln, err := n.Listen("10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		time.Sleep(61 * time.Second)
		for range 2 {
			n.connect(t, "api.example.com:80")
		}
		if cool() > 0 {
			t.Error("still cool after a success")
		}
	})
}

func TestRotationSpreadsDials_k6(t *testing.T) {
	good := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}
	dialing(t, ipv4(), good, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
		var got []string
		for range 6 {
			addr, _ := n.connect(t, "api.example.com:80")
			got = append(got, addr)
		}
		if want := append(slices.Clone(good), good...); !slices.Equal(got, want) {
			t.Errorf("connected to %v, want %v", got, want)
		}
	})
}

func TestFamiliesInterleaveAndTheWinnerLeads(t *testing.T) {
	dialing(t, &dnscache.Resolver{}, []string{"[2001:db8::2]:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Host("api.example.com", 300, "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2")
		n.connect(t, "api.example.com:80")
		n.wantOrder(t, "10.0.0.1:80", "[2001:db8::1]:80", "10.0.0.2:80", "[2001:db8::2]:80")
		w.want(w.lookup("api.example.com"), "2001:db8::1", "2001:db8::2", "10.0.0.1", "10.0.0.2")
		if _, err := n.d.DialContext(t.Context(), "tcp4", "api.example.com:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("tcp4: %v", err)
		}
		for _, a := range n.order() {
			if strings.HasPrefix(a, "[") {
				t.Errorf("tcp4 dialled %s", a)
			}
		}
	})
}

func TestDelayFollowsConnectTimes(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.1:80", "10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		n.SetRTT("10.0.0.1:80", 200*time.Millisecond)
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1"))
		n.connect(t, "api.example.com:80") // the name's connect time is 200 ms now
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.2", "10.0.0.9"))
		w.r.NetworkChanged()
		w.lookup("api.example.com")
		synctest.Wait()
		n.BlackHole("10.0.0.9:80")
		if got, d := n.connect(t, "api.example.com:80"); got != "10.0.0.2:80" || d != 400*time.Millisecond {
			t.Errorf("%s after %v, want the second after twice the connect time", got, d)
		}
	})
	dialing(t, ipv4(), []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		n.d.Delay = 40 * time.Millisecond
		n.BlackHole("10.0.0.1:80")
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		if _, d := n.connect(t, "api.example.com:80"); d != 40*time.Millisecond {
			t.Errorf("took %v, want the Dialer's own delay", d)
		}
	})
}

func TestParallelBoundsConnects(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.5:80"}, func(t *testing.T, w *world, n *wire) {
		for _, a := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"} {
			n.BlackHole(a)
		}
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"))
		// The first gives up after 2 s and makes room for the fourth, the second at 2.25 s for the fifth.
		if _, d := n.connect(t, "api.example.com:80"); d != 2250*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestAllFailAsksDNSOnceMore(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1"), reply(300, "10.0.0.1", "10.0.0.2"))
		w.lookup("api.example.com")
		time.Sleep(500 * time.Millisecond)
		if _, err := n.d.DialContext(t.Context(), "tcp", "api.example.com:80"); err == nil {
			t.Error("connected")
		}
		w.wantCount("the record is younger than 1 s", 1)
		time.Sleep(time.Second)
		n.order()
		if got, _ := n.connect(t, "api.example.com:80"); got != "10.0.0.2:80" {
			t.Errorf("connected to %s", got)
		}
		n.wantOrder(t, "10.0.0.1:80", "10.0.0.2:80") // what was tried is not tried again
		w.wantCount("forced", 1)
	})
}

func TestServerThatIsDownIsNotLookedUpOverAndOver(t *testing.T) {
	dialing(t, ipv4(), nil, func(t *testing.T, w *world, n *wire) {
		ln, err := n.Listen("10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1"))
		n.connect(t, "api.example.com:80")
		ln.Close()
		w.asked()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			n.d.DialContext(t.Context(), "tcp", "api.example.com:80")
		}
		w.wantCount("10 s of dials", 1)
	})
}

func TestDialErrors(t *testing.T) {
	dialing(t, &dnscache.Resolver{}, nil, func(t *testing.T, w *world, n *wire) {
		w.dns.Host("api.example.com", 300, "10.0.0.1", "10.0.0.2", "2001:db8::1")
		_, err := n.d.DialContext(t.Context(), "tcp", "api.example.com:80")
		op, ok := errors.AsType[*net.OpError](err)
		if !ok || op.Op != "dial" || op.Addr.String() != "10.0.0.1:80" || !errors.Is(err, syscall.ECONNREFUSED) ||
			!contains(err, "the first of 3 addresses of api.example.com.") {
			t.Errorf("%v", err)
		}
		_, err = n.d.DialContext(t.Context(), "tcp", "missing.example:80")
		if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.NotFound {
			t.Errorf("missing name: %v", err)
		}
		w.asked()
		for _, address := range []string{"api.example.com", "api.example.com:0", "api.example.com:65536", "api.example.com:no", "a b:80", ":80"} {
			if _, err := n.d.DialContext(t.Context(), "tcp", address); err == nil {
				t.Errorf("%q: no error", address)
			}
		}
		if _, err := n.d.DialContext(t.Context(), "udp", "api.example.com:80"); err == nil {
			t.Error("udp: no error")
		}
		if _, err := n.d.DialContext(t.Context(), "tcp6", "10.0.0.1:80"); err == nil {
			t.Error("tcp6 to an IPv4 address: no error")
		}
		w.wantCount("bad input", 0)
	})
}

func TestDialEndsWithItsContextOrTimeout(t *testing.T) {
	dialing(t, ipv4(), nil, func(t *testing.T, w *world, n *wire) {
		for _, a := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.5:80"} {
			n.BlackHole(a)
		}
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var err error
		if d := took(func() { _, err = n.d.DialContext(ctx, "tcp", "api.example.com:80") }); d != 100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, d)
		}
		n.d.Timeout = time.Second
		d := took(func() { _, err = n.d.DialContext(t.Context(), "tcp", "api.example.com:80") })
		if nerr, ok := err.(net.Error); d != time.Second || !ok || !nerr.Timeout() {
			t.Errorf("%v after %v", err, d)
		}
		stop, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, giveUp)
		if d := took(func() { _, err = n.d.DialContext(stop, "tcp", "api.example.com:80") }); d != 10*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("%v after %v", err, d)
		}
		time.AfterFunc(10*time.Millisecond, func() { w.r.Close() })
		if d := took(func() { _, err = n.d.DialContext(t.Context(), "tcp", "api.example.com:80") }); d != 10*time.Millisecond || !errors.Is(err, dnscache.ErrClosed) {
			t.Errorf("%v after %v", err, d)
		}
	})
}

func TestLateWinnerIsClosedAndReported(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.1:80", "10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		both := make(chan error, 2)
		n.d.Admit = func(context.Context, netip.AddrPort) (func(net.Conn, error), error) {
			return func(c net.Conn, err error) { both <- err }, nil
		}
		n.d.Wire = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "10.0.0.1:80" {
				time.Sleep(300 * time.Millisecond) // deaf to its context
			} else {
				time.Sleep(10 * time.Millisecond)
			}
			return n.dial(context.Background(), network, address)
		}
		n.connect(t, "api.example.com:80")
		if err := <-both; err != nil {
			t.Errorf("the winner was told %v", err)
		}
		if err := <-both; err == nil {
			t.Error("the loser was told nothing")
		}
		synctest.Wait()
		if n.open != 0 {
			t.Errorf("%d connections open", n.open)
		}
	})
}

func TestTraceHooksAreCalledAsByNetDialer(t *testing.T) {
	dialing(t, ipv4(), []string{"10.0.0.2:80"}, func(t *testing.T, w *world, n *wire) {
		w.dns.Script("api.example.com", "A", reply(300, "10.0.0.1", "10.0.0.2"))
		var mu sync.Mutex
		var got []string
		note := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, s)
		}
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			DNSStart:     func(i httptrace.DNSStartInfo) { note("dns " + i.Host) },
			DNSDone:      func(i httptrace.DNSDoneInfo) { note("dns done " + i.Addrs[1].String()) },
			ConnectStart: func(network, addr string) { note("connect " + network + " " + addr) },
			ConnectDone: func(_, addr string, err error) {
				note("connect done " + addr + " " + map[bool]string{true: "ok", false: "bad"}[err == nil])
			},
		})
		c, err := n.d.DialContext(ctx, "tcp", "api.example.com:80")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if want := []string{
			"dns api.example.com", "dns done 10.0.0.2", "connect tcp 10.0.0.1:80", "connect done 10.0.0.1:80 bad",
			"connect tcp 10.0.0.2:80", "connect done 10.0.0.2:80 ok",
		}; !slices.Equal(got, want) {
			t.Errorf("called %q, want %q", got, want)
		}
	})
}

func TestDialerMistakes(t *testing.T) {
	d := &dnscache.Dialer{Parallel: 5, Timeout: -1, Delay: -1, MaxStale: -1}
	for _, field := range []string{"Resolver", "Parallel", "Timeout", "Delay", "MaxStale"} {
		if !contains(d.Validate(), "dnscache: Dialer."+field+": ") {
			t.Errorf("nothing about %s in %v", field, d.Validate())
		}
	}
	if _, err := d.DialContext(t.Context(), "tcp", "api.example.com:80"); err == nil {
		t.Error("an invalid Dialer dials")
	}
	d.Failed(netip.AddrPort{})
}

// Where IPv6 is switched off the kernel has no address to connect from. What IPv4 said of the service says more than that.
func TestAFailureOfOursDoesNotHideTheServices(t *testing.T) {
	r := &dnscache.Resolver{Mode: dnscache.Absolute}
	dialing(t, r, nil, func(t *testing.T, w *world, n *wire) {
		w.dns.Host("api.example.com", 60, "2001:db8::1", "10.0.0.1")
		n.d.Wire = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "[") {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EADDRNOTAVAIL}
			}
			return n.dial(ctx, network, address)
		}
		for range 3 {
			if _, err := n.d.DialContext(t.Context(), "tcp", "api.example.com:80"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v, want that the connection was refused", err)
			}
		}
	})
}
