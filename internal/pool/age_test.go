package pool_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// Busy connections retire one by one, and no request notices, though its body could not be sent twice.
func TestConnectionsRetireUnderLoad_go23427_conformanceB24a(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				time.Sleep(2 * time.Millisecond)
				ok(rw, r)
			})
			inWorld(t, plan{proto: proto, handler: slow, listen: true, config: pool.Config{MaxAge: 100 * time.Millisecond}}, func(w *world) {
				w.net.SetRTT(host, 100*time.Microsecond)
				stop := time.Now().Add(300 * time.Millisecond)
				var wg sync.WaitGroup
				for range 16 {
					wg.Go(func() {
						for time.Now().Before(stop) {
							answer, info, err := w.send("POST", "body", pool.Want{})
							if err != nil || answer != "ok" {
								w.Errorf("error %v, info %+v", err, info)
								return
							}
							if limit := 111 * time.Millisecond; info.Age > limit && proto != "h2" {
								w.Errorf("a connection of age %v was handed out", info.Age)
							}
						}
					})
				}
				wg.Wait()
				closed := w.told(pool.EventClosed)
				if least := map[string]int{"": 20, "tls": 20, "h2": 2}[proto]; len(closed) < least {
					w.Errorf("%d closed", len(closed))
				}
				var at = map[time.Time]int{}
				for _, e := range closed {
					if e.Reason != pool.ReasonAge {
						w.Errorf("closed %+v", e)
					}
					if e.Age < 85*time.Millisecond || e.Age > 115*time.Millisecond {
						w.Errorf("closed at the age of %v", e.Age)
					}
					at[e.Time]++
				}
				for when, n := range at {
					if n > 12 {
						w.Errorf("%d closed in one instant, %v", n, when)
					}
				}
			})
		})
	}
}

// From 95 % of its age a busy connection has a replacement dialled, so that no call waits for it.
func TestAReplacementIsDialledBeforeItIsNeeded(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, config: pool.Config{MaxAge: time.Minute}}, func(w *world) {
				w.net.SetRTT(host, time.Second)
				w.get()
				w.net.SetRTT(host, 100*time.Millisecond)
				for range 600 {
					time.Sleep(time.Second)
					if info := w.get(); info.Acquire > 0 || info.Setup[pool.Connect].Happened {
						w.Fatalf("a call waited: %+v", info)
					}
				}
				if n := w.dialed.Load(); n < 9 || n > 13 {
					w.Errorf("%d dials in ten minutes of MaxAge 1m", n)
				}
			})
		})
	}
}

// A stream may outlive the age limit; new requests go elsewhere.
func TestAnOldHTTP2ConnectionRetires(t *testing.T) {
	var finish chan struct{}
	long := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			rw.(http.Flusher).Flush()
			<-finish
		}
		io.WriteString(rw, "ok")
	})
	inWorld(t, plan{proto: "h2", handler: long, listen: true, config: pool.Config{MaxAge: time.Minute}}, func(w *world) {
		finish = make(chan struct{})
		resp, info, err := w.pool.Do(w.request(context.Background(), "PUT", ""), pool.Want{})
		if err != nil {
			w.Fatal(err)
		}
		for range 70 {
			time.Sleep(time.Second)
			w.get()
		}
		if st := w.sumsUp(); st.Retiring != 1 || st.Open != 2 {
			w.Errorf("stats %+v", st)
		}
		if e := w.told(pool.EventRetired); len(e) != 1 || e[0].Conn != info.Conn || e[0].Reason != pool.ReasonAge {
			w.Errorf("retired %+v", e)
		}
		close(finish)
		if b, err := io.ReadAll(resp.Body); string(b) != "ok" {
			w.Errorf("read %q, %v", b, err)
		}
		w.closedAs(pool.ReasonAge, 1)
	})
}

// Without a replacement, an HTTP/2 connection in use serves up to twice its age.
func TestAnHTTP2ConnectionOutlivesItsAgeWhenDialsFail(t *testing.T) {
	long := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		io.WriteString(rw, "ok")
	})
	inWorld(t, plan{proto: "h2", handler: long, config: pool.Config{MaxAge: time.Minute, MaxWait: time.Second}}, func(w *world) {
		resp, _, err := w.pool.Do(w.request(context.Background(), "PUT", ""), pool.Want{})
		if err != nil {
			w.Fatal(err)
		}
		w.net.BlackHole(host)
		for range 105 {
			time.Sleep(time.Second)
			w.get()
		}
		time.Sleep(30 * time.Second)
		if _, _, err := w.send("GET", "", pool.Want{}); err == nil {
			w.Error("a connection of more than twice its age was handed out")
		}
		resp.Body.Close()
		synctest.Wait()
	})
}

func TestAnIdleConnectionClosesAtItsAge(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			cfg := pool.Config{MaxAge: 10 * time.Second, IdleTimeout: time.Hour}
			inWorld(t, plan{proto: proto, config: cfg}, func(w *world) {
				w.get() // it was used, so it is replaced once; the replacement, never used, is not
				time.Sleep(time.Minute)
				w.closedAs(pool.ReasonAge, 2)
				if n := w.dialed.Load(); n != 2 {
					w.Errorf("%d dials, want 2", n)
				}
			})
		})
	}
}

// Who waits is not served with a connection whose time is over.
func TestAnOldConnectionIsNotHandedOver(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1, MaxAge: time.Second}}, func(w *world) {
		busy := w.open()
		var wg sync.WaitGroup
		var info pool.Info
		time.Sleep(2 * time.Second)
		wg.Go(func() { info = w.get() })
		synctest.Wait()
		io.ReadAll(busy.Body)
		wg.Wait()
		if info.Reused || info.Age != 0 {
			w.Errorf("info %+v", info)
		}
		w.closedAs(pool.ReasonAge, 1)
	})
}

func TestNoAgeLimit(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxAge: -1, IdleTimeout: time.Hour}}, func(w *world) {
		for range 100 {
			w.get()
			time.Sleep(time.Minute)
		}
		if st := w.sumsUp(); st.Created != 1 || st.OldestAge != 100*time.Minute {
			w.Errorf("stats %+v", st)
		}
	})
}
