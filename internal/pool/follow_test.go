package pool_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// A zone is the DNS of one name: where dials go, and what the pool is told.
type zone struct {
	mu      sync.Mutex
	w       *world
	addrs   []netip.Addr
	next    int
	tell    func(pool.Answer)
	watched int
	stopped int
}

var errNoSuchName = errors.New("no such name")

// inZone runs a story in a bubble whose pool follows a name, with a server at each of the addresses.
func inZone(t *testing.T, p plan, addrs []string, story func(w *world, z *zone)) {
	t.Helper()
	z := &zone{}
	p.noServer, p.listen = true, true
	p.config.Dial, p.config.Watch = z.dial, z.watch
	inWorld(t, p, func(w *world) {
		z.w = w
		for _, addr := range addrs {
			z.serve(p, addr)
		}
		z.set(addrs[:1]...)
		story(w, z)
	})
}

func (z *zone) serve(p plan, addr string) {
	l, err := z.w.net.Listen(net.JoinHostPort(addr, "443"))
	if err != nil {
		z.w.Fatal(err)
	}
	if p.handler == nil {
		p.handler = http.HandlerFunc(ok)
	}
	s := &http.Server{Handler: p.handler, ErrorLog: quiet, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(p.proto == "")
	s.Protocols.SetUnencryptedHTTP2(p.proto == "h2c")
	z.w.Cleanup(func() { s.Close() })
	go s.Serve(l)
}

func (z *zone) set(addrs ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addrs = nil
	for _, a := range addrs {
		z.addrs = append(z.addrs, netip.MustParseAddr(a))
	}
}

func (z *zone) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	z.mu.Lock()
	if len(z.addrs) == 0 {
		z.mu.Unlock()
		return nil, errNoSuchName
	}
	addr := z.addrs[z.next%len(z.addrs)]
	z.next++
	z.mu.Unlock()
	return z.w.dial(ctx, network, netip.AddrPortFrom(addr, 443).String())
}

func (z *zone) watch(tell func(pool.Answer)) (stop func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.tell = tell
	z.watched++
	return func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		z.stopped++
	}
}

// answer sets the addresses and tells the pool, fresh for both families.
func (z *zone) answer(ttl time.Duration, addrs ...string) {
	z.set(addrs...)
	z.tell(pool.Answer{Addrs: z.addrs, TTL: ttl, Fresh4: len(addrs) > 0, Fresh6: len(addrs) > 0})
}

// left counts the connections that have left for DNS.
func (w *world) left() (n int) {
	synctest.Wait()
	return int(w.sumsUp().Closed[pool.ReasonDNSGone])
}

// paced checks that at most a fifth of the connections, or one, have begun to leave within any ten seconds.
func (w *world) paced() {
	w.Helper()
	var at []time.Time
	open, most := 0, 0
	seen := map[uint64]bool{}
	for _, e := range w.told(0) {
		switch {
		case e.Kind == pool.EventDialed && e.Err == nil:
			open++
			most = max(most, open)
		case e.Kind == pool.EventClosed:
			open--
		}
		if (e.Kind == pool.EventRetired || e.Kind == pool.EventClosed) && e.Reason == pool.ReasonDNSGone && !seen[e.Conn] {
			seen[e.Conn] = true
			at = append(at, e.Time)
		}
	}
	for i, from := range at {
		n := 0
		for _, t := range at[i:] {
			if t.Sub(from) < 10*time.Second {
				n++
			}
		}
		if n > max(1, most/5) {
			w.Errorf("%d of %d connections began to leave within 10 s of %v", n, most, from)
		}
	}
}

func TestTheWatchLastsFromTheFirstDialToTheEnd(t *testing.T) {
	for _, end := range []string{"Close", "Drain"} {
		t.Run(end, func(t *testing.T) {
			inZone(t, plan{}, []string{"10.0.0.1"}, func(w *world, z *zone) {
				time.Sleep(time.Minute)
				if z.watched != 0 {
					w.Error("watched before the first dial")
				}
				w.get()
				w.open()
				if z.watched != 1 || z.stopped != 0 {
					w.Errorf("watched %d, stopped %d", z.watched, z.stopped)
				}
				if end == "Drain" {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					w.pool.Drain(ctx)
				}
				w.pool.Close()
				if z.stopped != 1 {
					w.Errorf("stopped %d times", z.stopped)
				}
				z.answer(time.Minute, "10.0.0.2") // one that was on its way
			})
		})
	}
}

// A -> B: after two fresh answers and max(2*ttl, 30 s) all traffic is on B, and nobody notices.
func TestTrafficFollowsDNS_go23427_go54429_go79664_conformanceB24b(t *testing.T) {
	for _, proto := range []string{"", "h2c"} {
		for _, ttl := range []time.Duration{5 * time.Second, 20 * time.Second} {
			t.Run("proto="+proto+" ttl="+ttl.String(), func(t *testing.T) { trafficFollowsDNS(t, proto, ttl) })
		}
	}
}

func trafficFollowsDNS(t *testing.T, proto string, ttl time.Duration) {
	finish := make(chan struct{})
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			rw.(http.Flusher).Flush()
			<-finish
		}
		time.Sleep(250 * time.Millisecond)
		ok(rw, r)
	})
	cfg := pool.Config{MaxAge: -1}
	inZone(t, plan{proto: proto, handler: handler, config: cfg}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
		finish = make(chan struct{})
		long, info, err := w.pool.Do(w.request(context.Background(), "PUT", ""), pool.Want{})
		if err != nil {
			w.Fatal(err)
		}
		var wg sync.WaitGroup
		gap := ttl * 8 / 10
		began := time.Now()
		deadline := began.Add(2*gap + max(2*ttl, 30*time.Second)) // the first answer without A comes a gap after the start
		end := deadline.Add(time.Minute)
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					sent := time.Now()
					_, info, err := w.send("POST", "body", pool.Want{})
					if err != nil {
						w.Errorf("error %v, info %+v", err, info)
						return
					}
					if on := info.Remote().Addr().String(); sent.After(deadline) && on != "10.0.0.2" {
						w.Errorf("on %s, %v after the deadline", on, sent.Sub(deadline))
						return
					}
					if sent.Sub(began) > time.Second && info.Acquire > 0 {
						w.Errorf("a call waited %v", info.Acquire)
					}
				}
			})
		}
		z.answer(ttl, "10.0.0.1")
		for time.Now().Before(end) {
			time.Sleep(gap)
			z.answer(ttl, "10.0.0.2")
		}
		wg.Wait()
		w.paced()
		if st := w.sumsUp(); st.Retiring != 1 {
			w.Errorf("stats %+v", st)
		}
		if e := w.told(pool.EventGone); len(e) != 1 || e[0].Remote.Addr().String() != "10.0.0.1" {
			w.Errorf("gone %+v", e)
		}
		close(finish)
		if b, err := io.ReadAll(long.Body); string(b) != "ok" || info.Remote().Addr().String() != "10.0.0.1" {
			w.Errorf("the request in flight: %q, %v, on %v", b, err, info.Remote())
		}
		synctest.Wait()
		for r, n := range w.sumsUp().Closed {
			if n > 0 && pool.Reason(r) != pool.ReasonDNSGone && pool.Reason(r) != pool.ReasonIdleTimeout {
				w.Errorf("%d closed as %v", n, pool.Reason(r))
			}
		}
	})
}

// Idle connections leave evenly spaced, a fifth in ten seconds.
func TestIdleConnectionsLeaveAFewAtATime(t *testing.T) {
	cfg := pool.Config{MaxAge: -1, IdleTimeout: time.Hour}
	inZone(t, plan{config: cfg}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
		w.pool.Prewarm(context.Background(), 20)
		z.answer(time.Second, "10.0.0.2")
		time.Sleep(29 * time.Second)
		z.answer(time.Second, "10.0.0.2")
		time.Sleep(time.Second - 1)
		if n := w.left(); n != 0 {
			w.Fatalf("%d left before the time", n)
		}
		time.Sleep(time.Nanosecond)
		z.answer(time.Second, "10.0.0.2")
		for _, want := range []int{1, 2, 3, 4} {
			if n := w.left(); n != want {
				w.Fatalf("%d left, want %d", n, want)
			}
			time.Sleep(3400 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		if n := w.left(); n != 20 {
			w.Errorf("%d left", n)
		}
		w.paced()
		if info := w.get(); info.Acquire != 0 || !info.Remote().Addr().IsValid() || info.Remote().Addr().String() != "10.0.0.2" {
			w.Errorf("the last one was not replaced: %+v", info)
		}
	})
}

func TestListedAddressesGoFirst(t *testing.T) {
	inZone(t, plan{}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
		a := w.open()
		z.answer(time.Minute, "10.0.0.2")
		b := w.open()
		b.Body.Close()
		a.Body.Close() // used last
		if info := w.get(); info.Remote().Addr().String() != "10.0.0.2" {
			w.Errorf("on %v", info.Remote())
		}
		b = w.open()
		if info := w.get(); info.Remote().Addr().String() != "10.0.0.1" || !info.Reused {
			w.Errorf("dialled though a connection was free: %+v", info)
		}
		b.Body.Close()
	})
}

// A pool without a place for replacements lets busy connections go first.
func TestAFullPoolFollowsToo(t *testing.T) {
	cfg := pool.Config{MaxAge: -1, MaxConns: 4}
	slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(250 * time.Millisecond)
		ok(rw, r)
	})
	inZone(t, plan{config: cfg, handler: slow}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
		stop := time.Now().Add(2 * time.Minute)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(stop) {
					if _, _, err := w.send("POST", "body", pool.Want{}); err != nil {
						w.Error(err)
					}
				}
			})
		}
		time.Sleep(time.Second)
		for range 8 {
			z.answer(10*time.Second, "10.0.0.2")
			time.Sleep(10 * time.Second)
		}
		wg.Wait()
		if n, st := w.left(), w.sumsUp(); n != 4 || st.Created != 8 {
			w.Errorf("%d left, stats %+v", n, st)
		}
		w.paced()
	})
}

// A resolver that returns any 8 of 100 addresses moves nothing.
func TestRotatingAnswersMoveNothing_conformanceB24c(t *testing.T) {
	var all []string
	for i := range 100 {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
	}
	cfg := pool.Config{MaxAge: -1, IdleTimeout: 10 * time.Hour}
	inZone(t, plan{config: cfg}, all, func(w *world, z *zone) {
		rng := rand.New(rand.NewPCG(1, 2))
		some := func() (addrs []string) {
			for _, i := range rng.Perm(100)[:8] {
				addrs = append(addrs, all[i])
			}
			return addrs
		}
		z.set(all...)
		w.pool.Prewarm(context.Background(), 50)
		z.answer(10*time.Second, some()...)
		before := 0
		for range 30 {
			for range 7 {
				time.Sleep(8600 * time.Millisecond)
				z.answer(10*time.Second, some()...)
				w.get()
			}
			now := w.left()
			if now-before >= 10 {
				w.Errorf("%d of 50 left within a minute", now-before)
			}
			before = now
		}
	})
}

func TestWhatIsNotFreshMovesNothing_conformanceB24d(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")
	other := netip.MustParseAddr("10.0.0.2")
	for name, a := range map[string]pool.Answer{
		"failed or negative":        {},
		"stale or held":             {Addrs: []netip.Addr{other}},
		"fresh of the other family": {Addrs: []netip.Addr{v6}, Fresh6: true},
		"still listed":              {Addrs: []netip.Addr{v6, v4}, Fresh4: true, Fresh6: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := pool.Config{MaxAge: -1, IdleTimeout: 10 * time.Hour}
			inZone(t, plan{config: cfg}, []string{"10.0.0.1"}, func(w *world, z *zone) {
				w.pool.Prewarm(context.Background(), 5)
				z.answer(time.Minute, "10.0.0.1")
				for range 60 {
					time.Sleep(time.Minute)
					z.tell(a)
				}
				if n := w.left(); n != 0 || w.sumsUp().Open != 5 {
					w.Errorf("%d left", n)
				}
			})
		})
	}
}

// The name does not exist for a minute and every connection is lost. The first call after that finds one waiting.
func TestTheFirstAnswerAfterAnOutageIsDialledAtOnce_grpcgo1795_conformanceB24e(t *testing.T) {
	cfg := pool.Config{IdleTimeout: time.Hour}
	inZone(t, plan{config: cfg}, []string{"10.0.0.1"}, func(w *world, z *zone) {
		w.get()
		z.answer(5*time.Second, "10.0.0.1")
		z.answer(0)
		for _, nc := range w.net.Conns("10.0.0.1:443") {
			nc.Reset()
		}
		synctest.Wait()
		for range 60 {
			if _, _, err := w.send("GET", "", pool.Want{}); !errors.Is(err, errNoSuchName) {
				w.Fatalf("error %v", err)
			}
			time.Sleep(time.Second)
		}
		z.answer(5*time.Second, "10.0.0.1")
		synctest.Wait()
		if info := w.get(); info.Acquire != 0 || info.Setup[pool.Connect].Happened {
			w.Errorf("info %+v", info)
		}
	})
}

// Back in an answer: no longer gone, and for ten minutes nothing else is.
func TestAnAddressThatComesBackStays(t *testing.T) {
	cfg := pool.Config{MaxAge: -1, IdleTimeout: 10 * time.Hour}
	inZone(t, plan{config: cfg}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
		z.set("10.0.0.1", "10.0.0.2")
		w.pool.Prewarm(context.Background(), 20)
		for range 5 {
			z.answer(time.Second, "10.0.0.2")
			time.Sleep(10 * time.Second)
		}
		left := w.left()
		if left == 0 || left == 10 {
			w.Fatalf("%d left", left)
		}
		z.answer(time.Second, "10.0.0.1", "10.0.0.2")
		for range 59 {
			time.Sleep(10 * time.Second)
			z.answer(time.Second, "10.0.0.1")
		}
		if n := w.left(); n != left {
			w.Errorf("%d left while the name counts as rotating", n-left)
		}
		time.Sleep(20 * time.Second)
		z.answer(time.Second, "10.0.0.1")
		if n := w.left(); n != left+1 {
			w.Errorf("%d left after that, want 1", n-left)
		}
	})
}

// While its replacement cannot be dialled, the only connection stays.
func TestTheLastConnectionStaysUntilItIsReplaced(t *testing.T) {
	for _, proto := range []string{"", "h2c"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inZone(t, plan{proto: proto, config: pool.Config{MaxAge: -1}}, []string{"10.0.0.1", "10.0.0.2"}, func(w *world, z *zone) {
				w.get()
				w.net.BlackHole("10.0.0.2:443")
				for range 120 {
					z.answer(time.Second, "10.0.0.2")
					time.Sleep(time.Second)
					if info := w.get(); info.Acquire != 0 || info.Remote().Addr().String() != "10.0.0.1" {
						w.Fatalf("info %+v", info)
					}
				}
				w.net.Restore("10.0.0.2:443")
				for range 20 {
					time.Sleep(time.Second)
					if info := w.get(); info.Acquire != 0 {
						w.Fatalf("a call waited: %+v", info)
					}
				}
				if info := w.get(); info.Remote().Addr().String() != "10.0.0.2" || w.left() != 1 {
					w.Errorf("%d left, info %+v", w.left(), info)
				}
			})
		})
	}
}
