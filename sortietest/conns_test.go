package sortietest_test

import (
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func TestRefuseAndRestoreInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		refuseAndRestore(t, n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a")))
	})
}

func TestRefuseAndRestoreOnSockets(t *testing.T) {
	refuseAndRestore(t, sortietest.NewUpstream(t, sortietest.OK("a")))
}

func refuseAndRestore(t *testing.T, up *sortietest.Upstream) {
	t.Helper()
	c := up.Client()
	wantAnswer(t, c, up.URL(), 200, "a")
	for range 2 {
		up.Refuse()
		up.Refuse()
		if open := up.Stats().OpenConns; open != 0 {
			t.Errorf("%d connections open", open)
		}
		c.CloseIdleConnections() // or the client might find its connection broken before it dials
		_, _, err := get(c, up.URL())
		wantError(t, err, syscall.ECONNREFUSED)
		up.Restore()
		up.Restore()
		wantAnswer(t, c, up.URL(), 200, "a")
	}
}

func TestRefuseResetsRequestsUnderWay(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Hang())
		time.AfterFunc(time.Minute, up.Refuse)
		_, _, err := get(up.Client(), up.URL())
		wantError(t, err, syscall.ECONNRESET)
	})
}

func TestBlackHoleInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		c := up.Client()
		c.Timeout = time.Minute
		wantAnswer(t, c, up.URL(), 200, "a")
		up.BlackHole()
		up.BlackHole()
		for range 2 { // the open connection first, then a dial
			start := time.Now()
			_, _, err := get(c, up.URL())
			wantError(t, err, errTimeout)
			wantTook(t, start, time.Minute)
		}
		if seen := up.Stats().Requests; seen != 1 {
			t.Errorf("%d requests came through", seen)
		}
		up.Restore()
		wantAnswer(t, c, up.URL(), 200, "a")
	})
}

func TestBlackHoleEndsWithTheUpstream(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		up.BlackHole()
		time.AfterFunc(time.Hour, func() { up.Close() })
		_, _, err := get(up.Client(), up.URL())
		wantError(t, err, syscall.ECONNREFUSED)
	})
}

func TestRefuseEndsABlackHole(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		up.BlackHole()
		up.Refuse()
		_, _, err := get(up.Client(), up.URL())
		wantError(t, err, syscall.ECONNREFUSED)
		up.BlackHole()
		up.Restore()
		wantAnswer(t, up.Client(), up.URL(), 200, "a")
	})
}

func TestResetConns(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Hang())
		time.AfterFunc(time.Minute, up.ResetConns)
		_, _, err := get(up.Client(), up.URL())
		wantError(t, err, syscall.ECONNRESET)
		up.Play(sortietest.OK("a"))
		wantAnswer(t, up.Client(), up.URL(), 200, "a")
	})
}

func TestCloseIdleSparesRunningRequests(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"), sortietest.OK("b").After(time.Minute))
		wantAnswer(t, up.Client(), up.URL(), 200, "a")
		time.AfterFunc(time.Second, up.CloseIdle)
		wantAnswer(t, up.Client(), up.URL(), 200, "b")
		if s := up.Stats(); s.Conns != 2 || s.OpenConns != 1 {
			t.Errorf("%+v, want the first connection closed", s)
		}
	})
}

func TestRequestsPerConn(t *testing.T) {
	for _, secure := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *sortietest.Network) {
			up := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", TLS: secure, RequestsPerConn: 2}
			up.Start(t)
			c := up.Client()
			for i := range 6 {
				wantAnswer(t, c, up.URL(), 200, "")
				synctest.Wait()
				if open := up.Stats().OpenConns; open != (i+1)%2 {
					t.Errorf("after request %d, %d connections are open", i+1, open)
				}
			}
			if conns := up.Stats().Conns; conns != 3 {
				t.Errorf("%d connections for six requests", conns)
			}
		})
	}
}

// The connection ends in the moment a request arrives on it: a POST is lost, and a GET net/http sends again.
func TestStaleReuse(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *sortietest.Network) {
			up := &sortietest.Upstream{
				Network: n, Address: "10.0.0.1:80", HTTP2: h2, RequestsPerConn: 1, StaleReuse: true,
			}
			up.Start(t)
			c := up.Client()
			wantAnswer(t, c, up.URL(), 200, "")
			synctest.Wait()
			if open := up.Stats().OpenConns; open != 1 {
				t.Errorf("%d connections open", open)
			}
			if _, _, err := do(c, "POST", up.URL(), "x"); err == nil {
				t.Error("POST on the stale connection succeeded")
			}
			if open := up.Stats().OpenConns; open != 0 {
				t.Errorf("%d connections open after the race", open)
			}
			if !h2 {
				wantAnswer(t, c, up.URL(), 200, "")
				wantAnswer(t, c, up.URL(), 200, "")
				if s := up.Stats(); s.Requests != 3 || s.Conns != 3 {
					t.Errorf("%d requests, %d connections, want 3 and 3", s.Requests, s.Conns)
				}
			}
		})
	}
}

// The surprise the package documentation warns of: a lone fault on a connection that was used before goes by unseen.
func TestNetHTTPSendsAGetAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"), sortietest.Reset(), sortietest.OK("b"))
		c := up.Client()
		wantAnswer(t, c, up.URL(), 200, "a")
		wantAnswer(t, c, up.URL(), 200, "b")
		if seen := up.Stats().Requests; seen != 3 {
			t.Errorf("%d requests, want the reset one too", seen)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", IdleTimeout: 5 * time.Second}
		up.Start(t)
		wantAnswer(t, up.Client(), up.URL(), 200, "")
		time.Sleep(5*time.Second - time.Nanosecond)
		if open := up.Stats().OpenConns; open != 1 {
			t.Errorf("%d connections open before the timeout", open)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if open := up.Stats().OpenConns; open != 0 {
			t.Errorf("%d connections open after the timeout", open)
		}
	})
}

// Whatever is going on, Close ends it. That nothing is left running, the bubble checks.
func TestCloseEndsEverything(t *testing.T) {
	handle := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, test := range []struct {
		name    string
		step    sortietest.Step
		sending bool // the client is, all the time
	}{
		{name: "hang", step: sortietest.Hang()},
		{name: "hang unread", step: sortietest.Hang().Unread(), sending: true},
		{name: "hang in body", step: sortietest.OK("hello").HangAt(2)},
		{name: "after", step: sortietest.OK("").After(time.Hour)},
		{name: "after unread", step: sortietest.OK("").After(time.Hour).Unread(), sending: true},
		{name: "upload", step: sortietest.OK(""), sending: true},
		{name: "stall", step: sortietest.OK("hello").Stall(2, time.Hour)},
		{name: "endless", step: sortietest.Endless()},
		{name: "drip", step: sortietest.Endless().Drip(1, time.Hour)},
		{name: "handle", step: sortietest.Handle(http.HandlerFunc(handle)), sending: true},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *sortietest.Network) {
					up := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", TLS: secure, HTTP2: secure}
					up.Steps = []sortietest.Step{test.step}
					up.Start(t)
					body := io.Reader(http.NoBody)
					if test.sending {
						body = ticks{}
					}
					var caller sync.WaitGroup
					caller.Go(func() { postAndNeverRead(t, up, body) })
					time.Sleep(time.Minute)
					closeTwice(t, up)
					caller.Wait()
				})
			})
		}
	}
}

// ticks is a body that gives a byte each second, for ever.
type ticks struct{}

// Read runs in a bubble.
func (ticks) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	return copy(b, "x"), nil
}

// postAndNeverRead sends a request, and leaves its answer unread until long after Close.
func postAndNeverRead(t *testing.T, up *sortietest.Upstream, body io.Reader) {
	t.Helper()
	resp, err := up.Client().Post(up.URL(), "text/plain", body)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	time.Sleep(time.Hour)
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a whole answer")
	}
}

func closeTwice(t *testing.T, up *sortietest.Upstream) {
	t.Helper()
	if s := up.Stats(); s.InFlight != 1 {
		t.Errorf("%+v, want a request in flight", s)
	}
	start := time.Now()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := up.Close(); err != nil {
				t.Error(err)
			}
			if s := up.Stats(); s.InFlight != 0 || s.OpenConns != 0 {
				t.Errorf("%+v after Close", s)
			}
		})
	}
	both.Wait()
	if d := time.Since(start); d > time.Second { // net/http may say farewell for half of one
		t.Errorf("Close took %v", d)
	}
}

func TestClosedUpstreamRefuses(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		up.Close()
		up.Close()
		up.Restore()
		up.BlackHole()
		_, _, err := get(up.Client(), up.URL())
		wantError(t, err, syscall.ECONNREFUSED)
		n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("b"))
		wantAnswer(t, up.Client(), up.URL(), 200, "b")
	})
}

func TestMaxStreams(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", HTTP2: true, MaxStreams: 2}
		up.Steps = []sortietest.Step{sortietest.OK("").After(time.Second)}
		up.Start(t)
		c := up.Client()
		wantAnswer(t, c, up.URL(), 200, "") // the client learns the limit
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { wantAnswer(t, c, up.URL(), 200, "") })
		}
		wg.Wait()
		if s := up.Stats(); s.Conns < 3 {
			t.Errorf("%d connections for six requests, two at a time on each", s.Conns)
		}
	})
}
