package sortietest_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func TestURLOfLiterals(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		for address, want := range map[string]string{
			"10.0.0.1:80":        "http://10.0.0.1",
			"10.0.0.1:8080":      "http://10.0.0.1:8080",
			"10.0.0.1:443":       "http://10.0.0.1:443",
			"[2001:db8::1]:80":   "http://[2001:db8::1]",
			"[2001:db8::1]:8080": "http://[2001:db8::1]:8080",
		} {
			up := n.NewUpstream(t, address, sortietest.OK("a"))
			if up.URL() != want || up.Addr() != address {
				t.Errorf("%s: URL %s, Addr %s, want %s", address, up.URL(), up.Addr(), want)
			}
			wantAnswer(t, up.Client(), up.URL(), 200, "a")
		}
	})
}

func TestNetworkDistance(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		n.SetRTT("10.0.0.1:80", 150*time.Millisecond)
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		c := up.Client()
		for _, want := range []time.Duration{300 * time.Millisecond, 150 * time.Millisecond} {
			start := time.Now()
			wantAnswer(t, c, up.URL(), 200, "a")
			wantTook(t, start, want)
		}
	})
}

func TestNetworkBlackHole(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		n.BlackHole("10.0.0.9:80")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.DialContext(ctx, "tcp", "10.0.0.9:80")
		wantError(t, err, errTimeout)
		n.Restore("10.0.0.9:80")
		_, err = n.DialContext(ctx, "tcp", "10.0.0.9:80")
		wantError(t, err, errTimeout) // the context's, which has ended
		_, err = n.DialContext(t.Context(), "tcp", "10.0.0.9:80")
		wantError(t, err, syscall.ECONNREFUSED)
		if dials := n.Dials("10.0.0.9:80"); dials != 3 {
			t.Errorf("%d dials counted of three", dials)
		}
	})
}

func TestNetworkListen(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		ln, err := n.Listen("10.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		c, err := n.DialContext(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, port, _ := net.SplitHostPort(c.RemoteAddr().String()); port == "0" {
			t.Error("port 0 is still 0")
		}
	})
}
