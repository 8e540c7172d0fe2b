package pool_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestTheLifeOfAConnectionInEvents(t *testing.T) {
	inWorld(t, plan{listen: true}, func(w *world) {
		w.net.SetRTT(host, 10*time.Millisecond)
		w.get()
		time.Sleep(time.Second)
		w.get()
		time.Sleep(time.Minute)
		var told []string
		events := w.told(0)
		for i, e := range events {
			if e.Seq != uint64(i+1) {
				w.Errorf("event %d has number %d", i+1, e.Seq)
			}
			told = append(told, fmt.Sprintf("%s %d", e.Kind, e.Conn))
		}
		want := "dialed 1, wait ended 1, acquired 1, acquired 1, closed 1"
		if got := strings.Join(told, ", "); got != want {
			w.Fatalf("told %s, want %s", got, want)
		}
		if e := events[2]; e.Reused || e.Wait != 0 || e.Proto != "HTTP/1.1" || !e.Remote.IsValid() {
			w.Errorf("acquired %+v", e)
		}
		if e := events[3]; !e.Reused || e.IdleTime != time.Second || e.Age != 1010*time.Millisecond {
			w.Errorf("acquired %+v", e)
		}
		e := events[4]
		if e.Reason != pool.ReasonIdleTimeout || e.Requests != 2 || e.IdleTime != 30*time.Second || e.BytesIn == 0 || e.BytesOut == 0 {
			w.Errorf("closed %+v", e)
		}
	})
}

// Events of one connection are in order, and there is one for each thing that Stats counts.
func TestEventsAgreeWithStats(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, listen: true, config: pool.Config{MaxConns: 3, MaxStreams: 2, MaxAge: 50 * time.Millisecond}}, func(w *world) {
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						for j := range 40 {
							timeout := time.Minute
							if (i+j)%7 == 0 {
								timeout = time.Millisecond / 2
							}
							ctx, cancel := context.WithTimeout(context.Background(), timeout)
							w.sendIn(ctx, "GET", "", pool.Want{})
							cancel()
							time.Sleep(time.Duration(j%5) * time.Millisecond)
						}
					})
				}
				wg.Wait()
				w.pool.Close()
				st := w.sumsUp()
				if n := uint64(len(w.told(pool.EventAcquired))); n != st.AcquiredNew+st.AcquiredReused {
					w.Errorf("%d acquired told, %d + %d counted", n, st.AcquiredNew, st.AcquiredReused)
				}
				if n := uint64(len(w.told(pool.EventWaitEnded))); n != st.Waits.Count {
					w.Errorf("%d waits told, %d counted", n, st.Waits.Count)
				}
				if n := uint64(len(w.told(pool.EventClosed))); n != st.Created {
					w.Errorf("%d closed told, %d created", n, st.Created)
				}
				state := map[uint64]pool.EventKind{}
				for _, e := range w.told(0) {
					if e.Conn == 0 {
						continue
					}
					was, known := state[e.Conn]
					if known == (e.Kind == pool.EventDialed) || was == pool.EventClosed {
						w.Errorf("%s after %s of connection %d", e.Kind, was, e.Conn)
					}
					state[e.Conn] = e.Kind
				}
			})
		})
	}
}

// A listener may call the pool.
func TestAListenerMayCallThePool(t *testing.T) {
	var w *world
	busy := false
	listener := func(e pool.Event) {
		if e.Kind == pool.EventClosed && !busy {
			busy = true
			w.pool.Stats()
			w.get()
		}
	}
	inWorld(t, plan{config: pool.Config{OnEvent: listener, IdleTimeout: time.Second}}, func(world *world) {
		w = world
		w.get()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if st := w.sumsUp(); st.Idle != 1 || st.Created != 2 {
			w.Errorf("stats %+v", st)
		}
	})
}

// A listener that does not return holds up nobody for long, and events do not pile up for ever.
func TestAListenerThatHangsLosesEvents(t *testing.T) {
	var release chan struct{}
	var once sync.Once
	seen := 0
	listener := func(pool.Event) {
		once.Do(func() { <-release })
		seen++
	}
	inWorld(t, plan{config: pool.Config{OnEvent: listener}}, func(w *world) {
		release = make(chan struct{})
		var wg sync.WaitGroup
		for range 5 { // whoever causes the first event delivers it, and hangs
			wg.Go(func() { w.get() })
		}
		synctest.Wait()
		for range 5000 {
			w.get()
		}
		if st := w.sumsUp(); st.EventsLost == 0 || st.EventsLost > 1500 {
			w.Errorf("%d events lost", st.EventsLost)
		}
		close(release)
		wg.Wait()
		synctest.Wait()
		if seen < 4000 {
			w.Errorf("%d events seen", seen)
		}
	})
}

func TestTracesOfTheCallerAreCalled(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				for i := range 3 {
					var told []string
					var mu sync.Mutex
					tell := func(what string) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, what)
					}
					ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
						GetConn: func(hostPort string) { tell("get " + hostPort) },
						GotConn: func(info httptrace.GotConnInfo) {
							if info.Conn == nil || info.Reused != (i > 0) || info.WasIdle != (i > 0) || i > 0 && info.IdleTime != time.Second {
								w.Errorf("got %+v", info)
							}
							tell("got")
						},
						ConnectStart:         func(string, string) { tell("connect") },
						DNSStart:             func(httptrace.DNSStartInfo) { tell("dns") },
						TLSHandshakeDone:     func(tls.ConnectionState, error) { tell("tls") },
						WroteRequest:         func(httptrace.WroteRequestInfo) { tell("wrote") },
						GotFirstResponseByte: func() { tell("first byte") },
					})
					if _, _, err := w.sendIn(ctx, "GET", "", pool.Want{}); err != nil {
						w.Error(err)
					}
					synctest.Wait()
					want := "get " + host + ", got, wrote, first byte" // the dial is the pool's
					late := "get " + host + ", got, first byte, wrote" // HTTP/2 tells from two goroutines
					if got := strings.Join(told, ", "); got != want && got != late {
						w.Errorf("told %q, want %q", got, want)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// When things happened: the facts a report is made of.
func TestTheTimesOfARequest(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				w.get()
				w.net.SetRTT(host, 100*time.Millisecond)
				w.pool.CloseIdle()
				w.get()
				for _, own := range []bool{false, true} {
					time.Sleep(time.Second)
					began := time.Now()
					pr, pw := io.Pipe()
					go func() {
						time.Sleep(2 * time.Second)
						io.WriteString(pw, "body")
						pw.Close()
					}()
					ctx, cancel := context.WithCancel(context.Background())
					req := w.request(ctx, "POST", "")
					req.Body, req.ContentLength = pr, -1
					resp, info, err := w.pool.Do(req, pool.Want{OwnContext: own})
					if err != nil {
						w.Fatal(err)
					}
					io.ReadAll(resp.Body)
					cancel()
					if info.Start != began || info.InHand != 0 || info.IdleTime != time.Second {
						w.Errorf("info %+v", info)
					}
					if wrote, headers := info.Wrote, info.Headers; wrote != 2*time.Second || headers != 2100*time.Millisecond {
						w.Errorf("wrote after %v, headers after %v", wrote, headers)
					}
					if info.BytesWritten < 4 || info.Sends != 1 || info.NeverSent || !info.Reused {
						w.Errorf("info %+v", info)
					}
				}
			})
		})
	}
}
