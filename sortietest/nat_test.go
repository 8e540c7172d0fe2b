package sortietest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func TestNATForwards(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("a"))
	nat := sortietest.NewNAT(t, up.Addr(), 4, time.Hour)
	c := newKeepAlive(t)
	for range 3 {
		wantAnswer(t, c, nat.URL(), 200, "a")
	}
	if s := nat.Stats(); s.Conns != 1 || s.OpenConns != 1 || s.MostHeld != 1 || s.Dropped != 0 {
		t.Errorf("%+v, want one connection for three requests", s)
	}
}

func newKeepAlive(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// A story in memory, where minutes take no time: a port is kept after its connection has ended, and without one a connect hangs.
func TestNATKeepsPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := sortietest.NewNetwork()
		up := network.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		nat := &sortietest.NAT{Target: up.Addr(), Ports: 3, Hold: 4 * time.Minute, Network: network, Address: "10.9.9.9:80"}
		nat.Start(t)
		dial := func(patience time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return network.DialContext(ctx, "tcp", nat.Addr())
		}
		var open []net.Conn
		for range 3 {
			c, err := dial(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			synctest.Wait()
		}
		if _, err := dial(time.Hour); err == nil {
			t.Fatal("a fourth connection through three ports")
		}
		open[0].Close()
		synctest.Wait()
		if s := nat.Stats(); s.OpenConns != 2 || s.Cooling != 1 || s.Dropped != 1 {
			t.Errorf("after a close: %+v", s)
		}
		if _, err := dial(4*time.Minute - time.Second); err == nil {
			t.Fatal("a port was given out while it was kept")
		}
		c, err := dial(2 * time.Second) // which goes on hanging until the port is free
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := nat.Stats(); s.Conns != 4 || s.OpenConns != 3 || s.Cooling != 0 || s.MostHeld != 3 {
			t.Errorf("at the end: %+v", s)
		}
		for _, c := range append(open, c) {
			c.Close()
		}
	})
}

// Where connects overlap, none gets through that there is no port for.
func TestNATOnSocketsDropsWhatDoesNotFit(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("a"))
	const ports = 16
	nat := sortietest.NewNAT(t, up.Addr(), ports, time.Hour)
	var answered, hung atomic.Int32
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 * ports {
		wg.Go(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", nat.Addr())
			if err != nil {
				hung.Add(1)
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if n, _ := c.Read(make([]byte, 1)); n == 1 && answered.Add(1) == ports {
				cancel()
			}
			<-ctx.Done()
		})
	}
	wg.Wait()
	s := nat.Stats()
	if answered.Load() != ports || s.Conns != ports || s.MostHeld != ports {
		t.Errorf("%d answers, %+v, want %d of each", answered.Load(), s, ports)
	}
	if least := 2*ports - runtime.NumCPU(); runtime.GOOS == "linux" && int(hung.Load()) < least { // for each processor one can slip in
		t.Errorf("%d connects hung, want %d, or at least %d", hung.Load(), 2*ports, least)
	}
}

// One after another not a single one slips in, and what the kernel dropped is counted.
func TestNATOnSocketsIsExact(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems answer a SYN before anybody can object")
	}
	up := sortietest.NewUpstream(t)
	nat := sortietest.NewNAT(t, up.Addr(), 3, 0)
	dial := func(patience time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return new(net.Dialer).DialContext(ctx, "tcp", nat.Addr())
	}
	var open []net.Conn
	for range 3 {
		c, err := dial(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	_, err := dial(50 * time.Millisecond)
	wantError(t, err, errTimeout)
	if s := nat.Stats(); s.Conns != 3 || s.MostHeld != 3 || s.Dropped == 0 {
		t.Errorf("%+v", s)
	}
	open[0].Close()
	c, err := dial(10 * time.Second) // its port comes back; a SYN that was too early is sent again after a second
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestNATResets(t *testing.T) {
	refusing := sortietest.NewUpstream(t)
	refusing.Refuse()
	nat := sortietest.NewNAT(t, refusing.Addr(), 1, 0)
	_, _, err := get(newKeepAlive(t), nat.URL())
	wantError(t, err, syscall.ECONNRESET)

	up := sortietest.NewUpstream(t, sortietest.Reset())
	nat = sortietest.NewNAT(t, up.Addr(), 1, 0)
	_, _, err = get(newKeepAlive(t), nat.URL())
	wantError(t, err, syscall.ECONNRESET)
}

func TestNATReportsMistakes(t *testing.T) {
	for part, nat := range map[string]*sortietest.NAT{
		"Ports":   {Target: "127.0.0.1:1"},
		"Hold":    {Target: "127.0.0.1:1", Ports: 1, Hold: -1},
		"address": {Target: "127.0.0.1:1", Ports: 1, Address: "nonsense"},
	} {
		var tb fakeTB
		nat.Start(&tb)
		if tb.wantOne(t, part); !tb.fatal || nat.Addr() != "" {
			t.Errorf("%s: started all the same", part)
		}
		nat.Close()
		tb.end()
	}
	nat := sortietest.NewNAT(t, "127.0.0.1:1", 1, 0)
	if err := nat.Listen(); err == nil {
		t.Error("started twice")
	}
	nat.Close()
	nat.Close()
}
