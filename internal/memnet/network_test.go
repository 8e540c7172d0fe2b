package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
)

func listen(t *testing.T, n *memnet.Network, address string) net.Listener {
	t.Helper()
	ln, err := n.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func dial(t *testing.T, n *memnet.Network, address string) *memnet.Conn {
	t.Helper()
	c, err := n.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*memnet.Conn)
}

func TestDialWhereNobodyListensIsRefused(t *testing.T) {
	n := memnet.New()
	_, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
	wantOpError(t, err, "dial", syscall.ECONNREFUSED)
	if want := "dial tcp 10.0.0.1:80: connect: connection refused"; err.Error() != want {
		t.Errorf("error reads %q, want %q, as from a kernel", err, want)
	}

	listen(t, n, "10.0.0.1:80").Close()
	_, err = n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
	wantOpError(t, err, "dial", syscall.ECONNREFUSED)
}

func TestAddressIsFreeAgainAfterClose(t *testing.T) {
	n := memnet.New()
	ln := listen(t, n, "10.0.0.1:80")
	_, err := n.Listen("10.0.0.1:80")
	wantOpError(t, err, "listen", syscall.EADDRINUSE)
	ln.Close()
	wantOpError(t, ln.Close(), "close", net.ErrClosed)
	_, err = ln.Accept()
	wantOpError(t, err, "accept", net.ErrClosed)
	listen(t, n, "10.0.0.1:80")
}

func TestCloseWakesAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := listen(t, memnet.New(), "10.0.0.1:80")
		accepted := make(chan error)
		go func() {
			_, err := ln.Accept()
			accepted <- err
		}()
		synctest.Wait()
		ln.Close()
		wantOpError(t, <-accepted, "accept", net.ErrClosed)
	})
}

func TestAddressesAndNames(t *testing.T) {
	n := memnet.New()
	a, b := listen(t, n, ":0"), listen(t, n, "localhost:0")
	if a.Addr().String() == b.Addr().String() {
		t.Errorf("port 0 gave %v twice", a.Addr())
	}
	listen(t, n, "catalog.example:80")
	listen(t, n, "search.example:80")
	listen(t, n, "[2001:db8::1]:80")
	c1, c2, c3 := dial(t, n, "catalog.example:80"), dial(t, n, "catalog.example:80"), dial(t, n, "search.example:80")
	if c1.RemoteAddr().String() != c2.RemoteAddr().String() || c1.RemoteAddr().String() == c3.RemoteAddr().String() {
		t.Errorf("a name's address changes, or two names share one: %v %v %v", c1.RemoteAddr(), c2.RemoteAddr(), c3.RemoteAddr())
	}
	if c1.LocalAddr().String() == c2.LocalAddr().String() {
		t.Errorf("two connections come from %v", c1.LocalAddr())
	}
	if got := dial(t, n, "[2001:db8::1]:80").RemoteAddr().String(); got != "[2001:db8::1]:80" {
		t.Errorf("a literal address became %v", got)
	}
	if got := dial(t, n, a.Addr().String()).RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.1" {
		t.Errorf("the empty host became %v", got)
	}
}

func TestBadAddresses(t *testing.T) {
	n := memnet.New()
	for _, test := range []struct{ network, address string }{
		{"udp", "10.0.0.1:80"},
		{"tcp", "10.0.0.1"},
		{"tcp", "10.0.0.1:http"},
		{"tcp", "10.0.0.1:65536"},
		{"tcp4", "[2001:db8::1]:80"},
		{"tcp6", "10.0.0.1:80"},
	} {
		_, err := n.DialContext(t.Context(), test.network, test.address)
		if oe, ok := err.(*net.OpError); !ok || oe.Op != "dial" {
			t.Errorf("%s %s: %v", test.network, test.address, err)
		}
	}
	if _, err := n.Listen("10.0.0.1"); err == nil {
		t.Error("listening without a port succeeded")
	}
	n.BlackHole("nonsense")
	n.Restore("nonsense")
	n.SetRTT("nonsense", time.Second)
	if n.Conns("nonsense") != nil {
		t.Error("connections to an address that is none")
	}
}

func TestBlackHoleHangsUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		listen(t, n, "10.0.0.1:80")
		n.BlackHole("10.0.0.1:80")
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := n.DialContext(ctx, "tcp", "10.0.0.1:80")
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %#v, want a timeout", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("hung for %v", d)
		}
	})
}

func TestCancelledDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.BlackHole("10.0.0.1:80")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := n.DialContext(ctx, "tcp", "10.0.0.1:80")
		wantOpError(t, err, "dial", context.Canceled)
		if ne, ok := err.(net.Error); !ok || ne.Timeout() {
			t.Errorf("a cancelled dial is called a timeout: %v", err)
		}
	})
}

func TestRestoreLetsHangingDialsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		listen(t, n, "10.0.0.1:80")
		n.BlackHole("10.0.0.1:80")
		time.AfterFunc(time.Minute, func() { n.Restore("10.0.0.1:80") })
		start := time.Now()
		dial(t, n, "10.0.0.1:80")
		if d := time.Since(start); d != time.Minute {
			t.Errorf("dialled after %v", d)
		}
	})
}

func TestDialTakesARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		listen(t, n, "10.0.0.1:80")
		n.SetRTT("10.0.0.1:80", 150*time.Millisecond)
		start := time.Now()
		dial(t, n, "10.0.0.1:80")
		if d := time.Since(start); d != 150*time.Millisecond {
			t.Errorf("dial took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "10.0.0.1:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial of 150ms within 100ms: %v", err)
		}
	})
}

func TestFullBacklogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		ln := listen(t, n, "10.0.0.1:80")
		for range 128 {
			dial(t, n, "10.0.0.1:80")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "10.0.0.1:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial beyond the backlog: %v", err)
		}
		if got := len(n.Conns("10.0.0.1:80")); got != 128 {
			t.Errorf("%d connections, want 128", got)
		}
		time.AfterFunc(time.Second, func() {
			c, _ := ln.Accept()
			t.Cleanup(func() { c.Close() })
		})
		dial(t, n, "10.0.0.1:80")
	})
}

func TestListenerCloseResetsTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		ln := listen(t, n, "10.0.0.1:80")
		c := dial(t, n, "10.0.0.1:80")
		ln.Close()
		_, err := c.Read(make([]byte, 1))
		wantOpError(t, err, "read", syscall.ECONNRESET)
	})
}

func TestListenerCloseWakesDialsBehindAFullBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		ln := listen(t, n, "10.0.0.1:80")
		for range 128 {
			dial(t, n, "10.0.0.1:80")
		}
		time.AfterFunc(time.Second, func() { ln.Close() })
		c, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err == nil { // it came into the backlog while that was being emptied
			_, err = c.Read(make([]byte, 1))
			wantOpError(t, err, "read", syscall.ECONNRESET)
			c.Close()
			return
		}
		wantOpError(t, err, "dial", syscall.ECONNREFUSED)
	})
}

func TestConnsNamesWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		ln := listen(t, n, "10.0.0.1:80")
		listen(t, n, "10.0.0.2:80")
		c := dial(t, n, "10.0.0.1:80")
		dial(t, n, "10.0.0.2:80")
		if conns := n.Conns("10.0.0.1:80"); len(conns) != 1 || conns[0] != c {
			t.Fatalf("connections %v, want the one dialled", conns)
		}
		server, _ := ln.Accept()
		n.Conns("10.0.0.1:80")[0].Reset()
		wantNoRead(t, server, syscall.ECONNRESET)
		server.Close()
		c.Close()
		if conns := n.Conns("10.0.0.1:80"); len(conns) != 0 {
			t.Errorf("%d connections after close", len(conns))
		}
	})
}

// A dial and a close of the listener at the same moment end in a refusal or a reset, never in a connection that
// nobody will ever accept or close.
func TestDialWhileListenerCloses(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New()
			ln := listen(t, n, "10.0.0.1:80")
			go ln.Close()
			c, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
			if err != nil {
				wantOpError(t, err, "dial", syscall.ECONNREFUSED)
				return
			}
			defer c.Close()
			if _, err := c.Read(make([]byte, 1)); err == io.EOF || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read %v, want a reset", err)
			}
		})
	}
}

func TestDialsAreCountedWhateverBecomesOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		n.BlackHole("10.0.0.1:80")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n.DialContext(ctx, "tcp", "10.0.0.1:80")
		n.Restore("10.0.0.1:80")
		listen(t, n, "10.0.0.1:80")
		dial(t, n, "10.0.0.1:80")
		if a, b, c := n.Dials("10.0.0.1:80"), n.Dials("10.0.0.2:80"), n.Dials("nonsense"); a != 3 || b != 0 || c != 0 {
			t.Errorf("%d, %d, %d dials, want 3, 0, 0", a, b, c)
		}
	})
}
