package pool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestOneConnectionServesOneCallAfterAnother(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2", "h2c"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				first := w.get()
				if first.Reused || first.Conn == 0 || first.Sends != 1 || first.NeverSent {
					w.Errorf("first call: %+v", first)
				}
				for range 5 {
					if info := w.get(); !info.Reused || info.Conn != first.Conn {
						w.Errorf("later call: %+v", info)
					}
				}
				if n := w.conns.Load(); n != 1 {
					w.Errorf("%d connections, want 1", n)
				}
				if st := w.sumsUp(); st.AcquiredNew != 1 || st.AcquiredReused != 5 {
					w.Errorf("acquired %d new, %d reused", st.AcquiredNew, st.AcquiredReused)
				}
			})
		})
	}
}

// What comes back saves a dial: workers never own more connections than they are.
func TestFiftyWorkersOwnAtMostFiftyConnections_conformanceB21(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Millisecond)
				ok(rw, r)
			})
			inWorld(t, plan{proto: proto, handler: slow}, func(w *world) {
				w.net.SetRTT(host, 2*time.Millisecond)
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						for range 40 {
							w.get()
						}
					})
				}
				wg.Wait()
				n := w.conns.Load()
				if n > 50 || proto == "h2" && n > 1 {
					w.Errorf("%d connections", n)
				}
				if st := w.sumsUp(); st.AcquiredNew+st.AcquiredReused != 2000 {
					w.Errorf("acquired %d", st.AcquiredNew+st.AcquiredReused)
				}
			})
		})
	}
}

func TestTheLatestUsedConnectionIsUsedNext(t *testing.T) {
	inWorld(t, plan{config: pool.Config{IdleTimeout: 10 * time.Second}}, func(w *world) {
		a, b := w.open(), w.open()
		io.Copy(io.Discard, a.Body)
		io.Copy(io.Discard, b.Body)
		last := w.get().Conn
		for range 30 {
			time.Sleep(time.Second)
			if got := w.get().Conn; got != last {
				w.Fatalf("connection %d, want %d", got, last)
			}
		}
		w.closedAs(pool.ReasonIdleTimeout, 1) // the surplus one aged out
	})
}

func TestTheErrorOfAWaitSaysWhatItWaitedFor_conformanceC46(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1}}, func(w *world) {
		unread := w.open()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, info, err := w.sendIn(ctx, "GET", "", pool.Want{})
		e := w.asError(err)
		want := "waiting for a connection to api.shop.example:443 (1 open, 1 busy, 0 dialing): context deadline exceeded"
		if err.Error() != want {
			w.Errorf("error %q, want %q", err, want)
		}
		if e.Kind != pool.Wait || !e.NeverSent || !info.NeverSent || !e.Timeout() || e.Waited != 300*time.Millisecond {
			w.Errorf("error %+v", e)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			w.Error("the context's error is not found")
		}
		unread.Body.Close()
	})
}

func TestAWaitHasALimitOfItsOwn(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1, MaxWait: 2 * time.Second}}, func(w *world) {
		unread := w.open()
		_, info, err := w.send("GET", "", pool.Want{})
		if e := w.asError(err); !errors.Is(err, pool.ErrMaxWait) || !e.Timeout() || e.Waited != 2*time.Second {
			w.Errorf("error %+v", e)
		}
		if info.Acquire != 2*time.Second {
			w.Errorf("acquire %v", info.Acquire)
		}
		unread.Body.Close()
	})
}

func TestALineThatIsFullRefusesAtOnce(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1, MaxWaiters: 2}}, func(w *world) {
		unread := w.open()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { w.get() })
		}
		synctest.Wait()
		began := time.Now()
		_, _, err := w.send("GET", "", pool.Want{})
		if e := w.asError(err); e.Kind != pool.Full || !e.NeverSent || !errors.Is(err, pool.ErrFull) || time.Since(began) != 0 {
			w.Errorf("error %v after %v", err, time.Since(began))
		}
		io.Copy(io.Discard, unread.Body)
		wg.Wait()
	})
}

func TestWaitersAreServedInTheOrderTheyCame(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1}}, func(w *world) {
		unread := w.open()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				w.send("GET", "", pool.Want{OnConn: func(pool.Info) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return nil
				}})
			})
			synctest.Wait()
		}
		io.Copy(io.Discard, unread.Body)
		wg.Wait()
		for i, got := range order {
			if got != i {
				w.Fatalf("served in the order %v", order)
			}
		}
		if st := w.sumsUp(); st.Waits.Count != 6 || st.Waits.Longest != 0 {
			w.Errorf("waits %+v", st.Waits)
		}
	})
}

// A wait that is given up leaves no slot behind, wherever in the line it was, and whoever was served at that moment.
func TestCancelledWaitsLeakNoSlot_go34941_65705(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			var release chan struct{} // must be made in the bubble
			hold := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == "PUT" {
					<-release
				}
				ok(rw, r)
			})
			inWorld(t, plan{proto: proto, handler: hold, config: pool.Config{MaxConns: 2, MaxStreams: 1}}, func(w *world) {
				release = make(chan struct{})
				var holders, wg sync.WaitGroup
				for range 2 {
					holders.Go(func() { w.send("PUT", "", pool.Want{}) })
				}
				synctest.Wait()
				var served atomic.Int32
				for i := range 1000 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%40)*time.Millisecond)
						defer cancel()
						if _, _, err := w.sendIn(ctx, "GET", "", pool.Want{}); err == nil {
							served.Add(1)
						}
					})
				}
				time.Sleep(20 * time.Millisecond) // some are still in line
				close(release)
				wg.Wait()
				holders.Wait()
				if st := w.sumsUp(); st.Waiting != 0 || st.Streams != 0 || st.Open == 0 && served.Load() == 0 {
					w.Errorf("stats %+v, served %d", st, served.Load())
				}
				for range 10 {
					w.get()
				}
			})
		})
	}
}

func TestARetryBehindOneAddressGetsAnotherConnection(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				first := w.get()
				_, info, err := w.send("GET", "", pool.Want{Avoid: first.Conn})
				if err != nil || info.Conn == first.Conn {
					w.Errorf("connection %d again (%v)", info.Conn, err)
				}
				if next := w.get(); next.Conn == 0 {
					w.Error("no connection")
				}
				if n := w.conns.Load(); n != 2 {
					w.Errorf("%d connections, want 2", n)
				}
			})
		})
	}
}

func TestAvoidingTheOnlyConnectionOfAFullPoolReplacesIt(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 2}}, func(w *world) {
		busy := w.open()
		idle := w.get().Conn
		_, info, err := w.send("GET", "", pool.Want{Avoid: idle})
		if err != nil || info.Conn == idle || info.Conn == 0 {
			w.Errorf("connection %d, error %v", info.Conn, err)
		}
		busy.Body.Close()
	})
}

func TestOnConnSeesTheConnectionBeforeAnythingIsWritten(t *testing.T) {
	echo := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.Header.Get("Deadline")) })
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, handler: echo}, func(w *world) {
				req := w.request(context.Background(), "GET", "")
				resp, _, err := w.pool.Do(req, pool.Want{OnConn: func(info pool.Info) error {
					if info.Conn == 0 || info.Sends != 0 || info.InHand < 0 {
						w.Errorf("info %+v", info)
					}
					req.Header.Set("Deadline", "5")
					return nil
				}})
				if err != nil {
					w.Fatal(err)
				}
				if b, _ := io.ReadAll(resp.Body); string(b) != "5" {
					w.Errorf("server saw %q", b)
				}
			})
		})
	}
}

func TestAnErrorOfOnConnGivesTheConnectionBack(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, config: pool.Config{MaxConns: 1, MaxStreams: 1}}, func(w *world) {
				no := errors.New("no")
				body := &counted{Reader: strings.NewReader("body")}
				req := w.request(context.Background(), "POST", "")
				req.Body, req.ContentLength = body, 4
				_, info, err := w.pool.Do(req, pool.Want{OnConn: func(pool.Info) error { return no }})
				if err != no || !info.NeverSent || info.Sends != 0 {
					w.Errorf("error %v, info %+v", err, info)
				}
				if body.reads != 0 || body.closes != 1 {
					w.Errorf("body: %d reads, %d closes", body.reads, body.closes)
				}
				if info := w.get(); info.Reused || w.conns.Load() != 1 {
					w.Errorf("%d connections, reused %v", w.conns.Load(), info.Reused)
				}
			})
		})
	}
}

// counted counts what is done to a body.
type counted struct {
	io.Reader
	reads, closes int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

func (c *counted) Close() error {
	c.closes++
	return nil
}
