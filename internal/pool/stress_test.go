package pool_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// mood is a server that does what the request's headers ask for, in time.
func mood(rw http.ResponseWriter, r *http.Request) {
	sleep := func(name string) {
		ms, _ := strconv.Atoi(r.Header.Get(name))
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	if r.Header.Get("Read") != "" {
		io.Copy(io.Discard, r.Body)
	}
	sleep("Before")
	switch r.Header.Get("End") {
	case "abort":
		panic(http.ErrAbortHandler)
	case "close":
		rw.Header().Set("Connection", "close")
	case "bare":
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	size, _ := strconv.Atoi(r.Header.Get("Size"))
	io.WriteString(rw, strings.Repeat("x", size/2))
	rw.(http.Flusher).Flush()
	sleep("Between")
	io.WriteString(rw, strings.Repeat("x", size-size/2))
}

// Workers do everything a caller may do, the network everything it can, and the sums stay right. When all have ended nothing
// is left: no stream, no waiter, no slot, no goroutine, no unclosed body.
func TestWhateverHappensNothingIsLost(t *testing.T) {
	seeds := 3
	if testing.Short() {
		seeds = 2
	}
	for _, proto := range []string{"", "tls", "h2", "h2c"} {
		for seed := range seeds {
			t.Run("proto="+proto+" seed="+strconv.Itoa(seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 1))
				pick := func(values ...int) int { return values[rng.IntN(len(values))] }
				p := plan{
					proto: proto, handler: http.HandlerFunc(mood), listen: rng.IntN(2) == 0,
					server: func(s *http.Server) {
						s.IdleTimeout = time.Duration(pick(0, 300, 2000)) * time.Millisecond
						s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: pick(0, 2, 10)}
					},
					group: pool.GroupConfig{MaxOpen: pick(0, 3), MaxDials: pick(0, 2)},
					transport: pool.TransportConfig{
						PingAfter: time.Duration(pick(0, 1)) * time.Second, PingTimeout: time.Second,
					},
					config: pool.Config{
						MaxConns: pick(1, 2, 5, 20), MaxIdle: pick(0, 1, 3), MinIdle: pick(0, 2), MaxStreams: pick(1, 3, 100),
						MaxWaiters: pick(3, 100), DialLimit: pick(1, 3), MaxWait: time.Duration(pick(-1, 100, 2000)) * time.Millisecond,
						DialTimeout: time.Second, IdleTimeout: time.Duration(pick(50, 1000, 30000)) * time.Millisecond,
						MaxAge: time.Duration(pick(-1, 100, 3000)) * time.Millisecond, DrainBytes: int64(pick(-1, 0, 4096)),
					},
				}
				inWorld(t, p, func(w *world) { w.storm(rng) })
			})
		}
	}
}

func (w *world) storm(rng *rand.Rand) {
	var wg, weather sync.WaitGroup
	calm := make(chan struct{})
	sky := rand.New(rand.NewPCG(rng.Uint64(), 2))
	weather.Go(func() {
		for {
			select {
			case <-calm:
				return
			case <-time.After(time.Duration(sky.IntN(200)) * time.Millisecond):
			}
			w.strike(sky)
			w.sumsUp()
		}
	})
	for range 10 {
		r := rand.New(rand.NewPCG(rng.Uint64(), 3))
		wg.Go(func() {
			for range 30 {
				w.errand(r)
			}
		})
	}
	wg.Wait()
	close(calm)
	weather.Wait()
	w.net.Restore(host)
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if st := w.sumsUp(); st.Waiting != 0 || st.Streams != 0 || st.Active != 0 {
		w.Errorf("afterwards: %+v", st)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.pool.Drain(ctx); err != nil {
		w.Errorf("drain: %v, %+v", err, w.pool.Stats())
	}
}

// strike is what the network does.
func (w *world) strike(r *rand.Rand) {
	conns := w.net.Conns(host)
	switch r.IntN(6) {
	case 0:
		w.net.BlackHole(host)
	case 1, 2:
		w.net.Restore(host)
	case 3:
		w.pool.CloseIdle()
	case 4:
		if len(conns) > 0 {
			conns[r.IntN(len(conns))].Reset()
		}
	case 5:
		w.net.SetRTT(host, time.Duration(r.IntN(20))*time.Millisecond)
	}
}

// errand is what one caller does.
func (w *world) errand(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(300)+1)*time.Millisecond)
	defer cancel()
	body := lend(strings.Repeat("b", r.IntN(10000)))
	req := w.request(ctx, "POST", "")
	if r.IntN(2) == 0 {
		req.Body, req.ContentLength = body, -1
	} else {
		body = nil
	}
	set := func(name string, values ...string) { req.Header.Set(name, values[r.IntN(len(values))]) }
	set("Before", "0", "0", "1", "30", "500")
	set("Between", "0", "0", "10", "500")
	set("Size", "0", "10", "5000", "100000")
	set("End", "", "", "", "", "abort", "close", "bare")
	set("Read", "", "yes")
	want := pool.Want{Idempotent: r.IntN(2) == 0, OwnContext: r.IntN(2) == 0, Avoid: uint64(r.IntN(3))}
	want.HTTP1 = r.IntN(10) == 0
	if r.IntN(10) == 0 {
		want.OnConn = func(pool.Info) error { return io.ErrNoProgress }
	}
	resp, info, err := w.pool.Do(req, want)
	if (resp == nil) == (err == nil) {
		w.Errorf("response %v, error %v", resp, err)
	}
	if err == nil {
		w.consume(resp, r, cancel)
	} else if err != io.ErrNoProgress {
		if e := w.asError(err); e.NeverSent != info.NeverSent || e.Sends != int(info.Sends) || info.Sends > 2 {
			w.Errorf("error %+v, info %+v", e, info)
		}
	}
	if info.Acquire < 0 {
		w.Errorf("acquire %v, set-up %v", info.Acquire, info.Setup)
	}
	synctestSettle()
	if body != nil && body.closes.Load() != 1 {
		w.Errorf("request body closed %d times, error %v", body.closes.Load(), err)
	}
}

// consume does to a body what callers do.
func (w *world) consume(resp *http.Response, r *rand.Rand, cancel func()) {
	switch r.IntN(5) {
	case 0: // close unread
	case 1:
		io.ReadFull(resp.Body, make([]byte, 5))
	case 2:
		cancel()
	case 3:
		go io.Copy(io.Discard, resp.Body)
	default:
		io.Copy(io.Discard, resp.Body)
	}
	resp.Body.Close()
}

// synctestSettle lets net/http finish what it does with a request behind the caller's back.
func synctestSettle() { time.Sleep(100 * time.Millisecond) }
