package pool_test

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

func TestIdleConnectionsCloseAtTheLimit(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, listen: true}, func(w *world) {
				w.get()
				time.Sleep(29 * time.Second)
				w.get()
				time.Sleep(29 * time.Second)
				w.closedAs(pool.ReasonIdleTimeout, 0)
				time.Sleep(2 * time.Second)
				w.closedAs(pool.ReasonIdleTimeout, 1)
				if e := w.told(pool.EventClosed)[0]; e.IdleTime != 30*time.Second || e.Requests != 2 || e.Age != 59*time.Second {
					w.Errorf("event %+v", e)
				}
			})
		})
	}
}

func TestMoreThanMaxIdleAreNotKept(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxIdle: 2}}, func(w *world) {
		var bodies []io.ReadCloser
		for range 5 {
			bodies = append(bodies, w.open().Body)
		}
		for _, b := range bodies {
			b.Close()
		}
		w.closedAs(pool.ReasonIdleLimit, 3)
	})
}

// The server says how long it keeps an idle connection; a second is left for its clock. .NET reads that too
// (dotnet/runtime#73245), net/http does not.
func TestTheServersKeepAliveTimeoutIsHonoured(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		timeout := 5
		w.play(func(nc *memnet.Conn) {
			br := bufio.NewReader(nc)
			for {
				if _, ok := hears(br); !ok {
					return
				}
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=%d, max=100\r\nContent-Length: 2\r\n\r\nok", timeout)
			}
		})
		w.get()
		time.Sleep(3900 * time.Millisecond)
		if !w.get().Reused {
			w.Error("closed too early")
		}
		if st := w.sumsUp(); st.IdleLimit != 4*time.Second || st.LimitFrom != pool.LimitKeepAlive {
			w.Errorf("idle limit %v, %v", st.IdleLimit, st.LimitFrom)
		}
		time.Sleep(4 * time.Second)
		w.closedAs(pool.ReasonIdleTimeout, 1)
		timeout = 1 // not worth keeping
		w.get()
		if w.get().Reused {
			w.Error("kept for less than a second")
		}
		timeout = 60
		w.get()
		if st := w.sumsUp(); st.IdleLimit != 30*time.Second || st.LimitFrom != pool.LimitConfigured {
			w.Errorf("idle limit %v, %v", st.IdleLimit, st.LimitFrom)
		}
	})
}

// A server without the header is found out: Node closes after 5 s.
func TestTheServersIdleLimitIsLearnt(t *testing.T) {
	for _, proto := range []string{"", "tls"} {
		t.Run("proto="+proto, func(t *testing.T) {
			p := plan{proto: proto, server: idleTimeout(5 * time.Second)}
			inWorld(t, p, func(w *world) {
				for range 2 {
					w.get()
					time.Sleep(6 * time.Second)
				}
				w.closedAs(pool.ReasonServer, 2)
				if st := w.sumsUp(); st.IdleLimit != 4500*time.Millisecond || st.LimitFrom != pool.LimitLearnt {
					w.Errorf("idle limit %v, %v", st.IdleLimit, st.LimitFrom)
				}
				w.get()
				time.Sleep(6 * time.Second)
				if st := w.sumsUp(); st.Closed[pool.ReasonIdleTimeout] != 1 {
					w.Errorf("the third was not closed by us: %v", st.Closed)
				}
				time.Sleep(10 * time.Minute)
				if st := w.sumsUp(); st.IdleLimit != 30*time.Second {
					w.Errorf("idle limit %v: the lesson is to be forgotten", st.IdleLimit)
				}
			})
		})
	}
}

// A server that restarts closes connections at idle times that have nothing in common.
func TestARestartTeachesNothing(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		a.Body.Close()
		time.Sleep(4 * time.Second)
		b.Body.Close()
		time.Sleep(6 * time.Second)
		c.Body.Close()
		time.Sleep(10 * time.Millisecond)
		for _, nc := range w.net.Conns(host) {
			nc.Reset()
		}
		w.closedAs(pool.ReasonError, 3)
		if st := w.sumsUp(); st.LimitFrom != pool.LimitConfigured {
			w.Errorf("idle limit %v, %v", st.IdleLimit, st.LimitFrom)
		}
	})
}

// While idle, GOAWAY shows in nothing but that no request is admitted.
func TestAnIdleConnectionWithGoAwayIsFoundOut(t *testing.T) {
	bye := func(w *world) func(nc *memnet.Conn) {
		return func(nc *memnet.Conn) {
			p, ok := greet(nc, 0)
			for ok {
				var stream uint32
				if stream, ok = p.next(); !ok {
					return
				}
				p.answer(stream)
				if w.conns.Load() == 1 {
					go func() {
						time.Sleep(time.Second)
						p.goAway(stream, codeNone)
					}()
				}
			}
		}
	}
	t.Run("by the next request", func(t *testing.T) {
		inWorld(t, plan{proto: "h2c", noServer: true}, func(w *world) {
			w.play(bye(w))
			w.get()
			time.Sleep(2 * time.Second)
			answer, info, err := w.send("POST", "body", pool.Want{})
			if err != nil || answer != "ok" || info.Sends != 1 || info.Reused {
				w.Errorf("error %v, info %+v", err, info)
			}
			w.closedAs(pool.ReasonGoAway, 1)
		})
	})
	t.Run("by the sweeper", func(t *testing.T) {
		inWorld(t, plan{proto: "h2c", noServer: true, config: pool.Config{IdleTimeout: time.Hour, MaxAge: 10 * time.Second}}, func(w *world) {
			w.play(bye(w))
			first := w.get()
			if _, info, err := w.send("GET", "", pool.Want{Avoid: first.Conn}); err != nil || info.Conn == first.Conn {
				w.Fatalf("connection %d, error %v", info.Conn, err)
			}
			for st := w.sumsUp(); st.Closed == ([len(st.Closed)]uint64{}); st = w.sumsUp() {
				time.Sleep(time.Second)
			}
			// Whichever of the two the timer was set for, it looked at both.
			if st := w.sumsUp(); st.Closed[pool.ReasonGoAway] != 1 {
				w.Errorf("closed %v", st.Closed)
			}
		})
	})
}

func TestCloseIdle(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		busy := w.open()
		w.get()
		w.pool.CloseIdle()
		w.closedAs(pool.ReasonShutdown, 1)
		busy.Body.Close()
		w.get()
	})
}
