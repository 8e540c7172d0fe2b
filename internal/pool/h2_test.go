package pool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

// One connection serves as many as it has streams for; one more is dialled only for those who wait.
func TestAnotherHTTP2ConnectionComesOnlyWhenAllAreFull(t *testing.T) {
	wait := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		ok(rw, r)
	})
	inWorld(t, plan{proto: "h2", handler: wait, config: pool.Config{MaxStreams: 10}}, func(w *world) {
		w.get()
		var wg sync.WaitGroup
		for range 25 {
			wg.Go(func() { w.get() })
		}
		synctest.Wait()
		if st := w.sumsUp(); st.Open != 3 || st.Streams != 25 || st.Waiting != 0 {
			w.Errorf("stats %+v", st)
		}
		wg.Wait()
		if n := w.dialed.Load(); n != 3 {
			w.Errorf("%d dials", n)
		}
	})
}

// The server's limit counts where it is lower than ours; it is met at the next Reserve.
func TestTheServersStreamLimitIsRespected_go34941(t *testing.T) {
	var running, most atomic.Int32
	wait := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Second)
		running.Add(-1)
		ok(rw, r)
	})
	few := func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5} }
	inWorld(t, plan{proto: "h2", handler: wait, server: few, config: pool.Config{MaxConns: 2}}, func(w *world) {
		w.get()
		most.Store(0)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() { w.get() })
		}
		synctest.Wait()
		if st := w.sumsUp(); st.Open != 2 || st.Waiting != 30 {
			w.Errorf("stats %+v", st)
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took != 4*time.Second {
			w.Errorf("40 calls of 1 s on 2x5 streams took %v", took)
		}
		if n := most.Load(); n != 10 {
			w.Errorf("%d streams at a time", n)
		}
	})
}

// A peer that has vanished is found by the ping; the requests on it fail with a typed error, and later ones find a new
// connection.
func TestALostPeerIsNoticed_go36026_clientgo374_conformanceC47(t *testing.T) {
	p := plan{proto: "h2", listen: true, transport: pool.TransportConfig{PingAfter: 15 * time.Second, PingTimeout: 5 * time.Second}}
	inWorld(t, p, func(w *world) {
		w.get()
		began := time.Now()
		w.net.Conns(host)[0].Drop()
		_, info, err := w.send("POST", "body", pool.Want{})
		if e := w.asError(err); e.Kind != pool.Send || e.NeverSent || info.Sends != 1 {
			w.Errorf("error %+v", e)
		}
		if took := time.Since(began); took != 20*time.Second {
			w.Errorf("noticed after %v, want 15 s + 5 s", took)
		}
		w.get()
		w.closedAs(pool.ReasonError, 1)
		if e := w.told(pool.EventClosed)[0]; e.Detail != "ping_lost" || e.Err == nil {
			w.Errorf("event %+v", e)
		}
	})
}

// A request that ran out of time without a sign of life makes its connection suspect: others do not follow it there.
func TestASilentConnectionIsSuspect(t *testing.T) {
	p := plan{proto: "h2", transport: pool.TransportConfig{PingAfter: 15 * time.Second, PingTimeout: 5 * time.Second}}
	inWorld(t, p, func(w *world) {
		first := w.get()
		w.net.Conns(host)[0].Drop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _, err := w.sendIn(ctx, "GET", "", pool.Want{})
		if !errors.Is(err, context.DeadlineExceeded) {
			w.Fatalf("error %v", err)
		}
		began := time.Now()
		if next := w.get(); next.Conn == first.Conn || time.Since(began) != 0 {
			w.Errorf("connection %d after %v", next.Conn, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		w.closedAs(pool.ReasonError, 1)
	})
}

// A slow answer is no silence: the server's answer to a ping clears the connection. net/http sends one with the first reset
// (and no more until something else is heard, for the sake of gRPC), and after PingAfter.
func TestASlowServerIsSuspectForAMoment(t *testing.T) {
	slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			<-r.Context().Done()
		}
		ok(rw, r)
	})
	p := plan{proto: "h2", handler: slow, transport: pool.TransportConfig{PingAfter: 15 * time.Second, PingTimeout: 5 * time.Second}}
	inWorld(t, p, func(w *world) {
		runOut := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			w.sendIn(ctx, "PUT", "", pool.Want{})
			synctest.Wait()
		}
		first := w.get()
		for range 5 {
			runOut()
			if next := w.get(); next.Conn != first.Conn {
				w.Error("a slow answer cost the connection")
			}
		}
		runOut()
		runOut()
		second := w.get()
		if second.Conn == first.Conn {
			w.Error("not suspect after two silent requests in a row")
		}
		time.Sleep(16 * time.Second)
		if _, info, err := w.send("GET", "", pool.Want{Avoid: second.Conn}); err != nil || info.Conn != first.Conn {
			w.Errorf("connection %d, error %v: the ping was answered", info.Conn, err)
		}
	})
}

func TestAnUpgradeGoesToAnHTTP1Sibling(t *testing.T) {
	echo := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.Proto) })
	inWorld(t, plan{proto: "h2", handler: echo}, func(w *world) {
		answer, info, err := w.send("GET", "", pool.Want{HTTP1: true})
		if err != nil || answer != "HTTP/1.1" || info.Proto() != "HTTP/1.1" {
			w.Errorf("answer %q, info %+v, error %v", answer, info, err)
		}
		answer, info, err = w.send("GET", "", pool.Want{})
		if err != nil || answer != "HTTP/2.0" || info.Proto() != "HTTP/2.0" {
			w.Errorf("answer %q, info %+v, error %v", answer, info, err)
		}
		if st := w.sumsUp(); st.Open != 2 || st.Idle != 2 {
			w.Errorf("stats %+v: the sibling counts", st)
		}
	})
}

// A server that speaks HTTP/2 on one connection and HTTP/1 on the next, as a load balancer over mixed backends does.
func TestProtocolsMayDifferFromConnectionToConnection(t *testing.T) {
	inWorld(t, plan{proto: "h2", config: pool.Config{MaxStreams: 1}}, func(w *world) {
		a := w.open()
		w.server.Protocols.SetHTTP2(false)
		w.server.TLSConfig.NextProtos = []string{"http/1.1"}
		b := w.open()
		a.Body.Close()
		b.Body.Close()
		for range 5 {
			w.get()
		}
		if st := w.sumsUp(); st.Open > 2 {
			w.Errorf("stats %+v", st)
		}
	})
}

// The state hook wakes the waiters when a server raises its limit.
func TestARaisedStreamLimitServesTheWaiters(t *testing.T) {
	inWorld(t, plan{proto: "h2c", noServer: true, config: pool.Config{MaxConns: 1}}, func(w *world) {
		w.play(func(nc *memnet.Conn) {
			p, ok := greet(nc, 1)
			for n := 0; ok; n++ {
				var stream uint32
				if stream, ok = p.next(); !ok {
					return
				}
				if n == 1 { // held back; room for another instead
					time.Sleep(time.Second)
					p.send(frameSettings, 0, 0, []byte{0, 3, 0, 0, 0, 2})
					held := stream
					if stream, ok = p.next(); !ok {
						return
					}
					p.answer(stream)
					p.answer(held)
					continue
				}
				p.answer(stream)
			}
		})
		w.get()
		synctest.Wait()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { w.get() })
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			w.Errorf("took %v", took)
		}
	})
}
