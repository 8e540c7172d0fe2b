package sortietest_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// far starts an upstream with a Delay before it, on n.
func far(t *testing.T, n *sortietest.Network, d *sortietest.Delay, steps ...sortietest.Step) *sortietest.Upstream {
	t.Helper()
	up := n.NewUpstream(t, "10.0.0.1:80", steps...)
	d.Network, d.Address, d.Target = n, "10.0.0.2:80", up.Addr()
	d.Start(t)
	return up
}

func TestDelayCostsARoundTripPerRequest(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: 150 * time.Millisecond}
		up := far(t, n, d, sortietest.OK("hello").After(20*time.Millisecond))
		c := up.Client()
		for range 3 {
			start := time.Now()
			wantAnswer(t, c, d.URL(), 200, "hello")
			wantTook(t, start, 170*time.Millisecond)
		}
		if s := d.Stats(); s.Conns != 1 || s.OpenConns != 1 {
			t.Errorf("%+v, want one connection", s)
		}
	})
}

func TestDelayConnect(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: 100 * time.Millisecond, Connect: 100 * time.Millisecond}
		c := far(t, n, d, sortietest.OK("hello")).Client()
		for _, want := range []time.Duration{200 * time.Millisecond, 100 * time.Millisecond} {
			start := time.Now()
			wantAnswer(t, c, d.URL(), 200, "hello")
			wantTook(t, start, want)
		}
	})
}

// Many pieces are on their way at once: a body of 800 KB is no later than its first byte.
func TestDelayDoesNotAddUp(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: time.Second}
		up := far(t, n, d, sortietest.OK(strings.Repeat("x", 800_000)))
		start := time.Now()
		if _, body, err := get(up.Client(), d.URL()); len(body) != 800_000 || err != nil {
			t.Errorf("read %d bytes, %v", len(body), err)
		}
		wantTook(t, start, time.Second)
	})
}

func TestDelayKeepsOrderAndSpacing(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: time.Hour}
		up := far(t, n, d, sortietest.OK("abc").Drip(1, time.Second))
		start := time.Now()
		wantAnswer(t, up.Client(), d.URL(), 200, "abc")
		wantTook(t, start, time.Hour+2*time.Second)
	})
}

func TestDelayPassesFaults(t *testing.T) {
	for _, test := range []struct {
		step sortietest.Step
		err  error
	}{
		{sortietest.Reset(), syscall.ECONNRESET},
		{sortietest.Hangup(), io.EOF},
		{sortietest.OK("hello").ResetAt(2), syscall.ECONNRESET},
		{sortietest.OK("hello").HangupAt(2), io.ErrUnexpectedEOF},
		{sortietest.Hang(), errTimeout},
	} {
		inMemory(t, func(t *testing.T, n *sortietest.Network) {
			d := &sortietest.Delay{RTT: time.Second}
			up := far(t, n, d, test.step)
			c := up.Client()
			c.Timeout = time.Minute
			_, _, err := get(c, d.URL())
			wantError(t, err, test.err)
			time.Sleep(time.Minute)
			if s := d.Stats(); s.OpenConns != 0 || up.Stats().InFlight != 0 {
				t.Errorf("%+v, %+v after %v", s, up.Stats(), test.err)
			}
		})
	}
}

func TestDelayBeforeARefusingTargetResets(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: time.Second}
		up := far(t, n, d, sortietest.OK("a"))
		up.Refuse()
		_, _, err := get(up.Client(), d.URL())
		wantError(t, err, syscall.ECONNRESET)
	})
}

func TestDelayPassesHalfClose(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		ln, err := n.Listen("10.0.0.3:7")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		d := &sortietest.Delay{Network: n, Target: "10.0.0.3:7", Address: "10.0.0.2:7", RTT: time.Second}
		d.Start(t)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all, _ := io.ReadAll(c)
			c.Write(append(all, "!"...))
			c.Close()
		}()
		c, err := n.DialContext(t.Context(), "tcp", d.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte("hello"))
		c.(interface{ CloseWrite() error }).CloseWrite()
		if all, err := io.ReadAll(c); string(all) != "hello!" || err != nil {
			t.Errorf("read %q, %v", all, err)
		}
	})
}

// A target which does not care whether anybody listens learns it from a reset.
func TestDelayTellsATargetThatTheClientHasGone(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		ln, err := n.Listen("10.0.0.3:7")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		d := &sortietest.Delay{Network: n, Target: "10.0.0.3:7", Address: "10.0.0.2:7", RTT: time.Second}
		d.Start(t)
		told := make(chan error)
		go func() {
			c, err := ln.Accept()
			for err == nil {
				_, err = c.Write([]byte("tick"))
				time.Sleep(time.Second)
			}
			c.Close()
			told <- err
		}()
		c, err := n.DialContext(t.Context(), "tcp", d.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.Read(make([]byte, 4))
		c.Close()
		wantError(t, <-told, syscall.ECONNRESET)
		synctest.Wait()
		if s := d.Stats(); s.OpenConns != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDelayCloseEndsWhatIsOnItsWay(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: time.Hour}
		up := far(t, n, d, sortietest.Endless())
		start := time.Now()
		time.AfterFunc(time.Minute, func() { d.Close(); d.Close() })
		if _, _, err := get(up.Client(), d.URL()); err == nil {
			t.Error("answer through a closed proxy")
		}
		wantTook(t, start, time.Minute)
		_, err := n.DialContext(t.Context(), "tcp", d.Addr())
		wantError(t, err, syscall.ECONNREFUSED)
	})
}

func TestDelayCloseEndsADialThatHangs(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		d := &sortietest.Delay{RTT: time.Second}
		up := far(t, n, d)
		up.BlackHole()
		time.AfterFunc(time.Minute, d.Close)
		if _, _, err := get(up.Client(), d.URL()); err == nil {
			t.Error("answer through a closed proxy")
		}
		synctest.Wait()
		if s := d.Stats(); s.Conns != 1 || s.OpenConns != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDelayOnSockets(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("hello"), sortietest.Reset(), sortietest.OK("hello").HangupAt(2))
	d := sortietest.NewDelay(t, up.Addr(), time.Millisecond)
	c := up.Client()
	wantAnswer(t, c, d.URL(), 200, "hello")
	_, _, err := do(c, http.MethodPost, d.URL(), "x")
	wantError(t, err, syscall.ECONNRESET)
	_, body, err := get(c, d.URL())
	wantError(t, err, io.ErrUnexpectedEOF)
	if body != "he" {
		t.Errorf("body %q", body)
	}
	if s := d.Stats(); s.Conns != 2 {
		t.Errorf("%+v, want two connections", s)
	}
}

func TestDelayRefusesNegativeTimes(t *testing.T) {
	if err := (&sortietest.Delay{RTT: -1}).Listen(); err == nil {
		t.Error("a delay that looks into the future")
	}
	d := &sortietest.Delay{Address: "nonsense"}
	if _, ok := errors.AsType[*net.OpError](d.Listen()); !ok {
		t.Error("listening on nonsense gave no error")
	}
}
