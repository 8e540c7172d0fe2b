package pool_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// Dials outlive the requests that were cancelled, but no more of them than the gate lets through.
func TestABlackHoleHoldsAtMostEightDials_go76784_conformanceB21(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.net.BlackHole(host)
		began := time.Now()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				_, info, err := w.sendIn(ctx, "POST", "body", pool.Want{})
				if e := w.asError(err); e.Kind != pool.Wait || !e.NeverSent || !errors.Is(err, context.DeadlineExceeded) {
					w.Errorf("error %v", err)
				}
				if info.Sends != 0 || info.Conn != 0 {
					w.Errorf("info %+v", info)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 10*time.Millisecond {
			w.Errorf("took %v", took)
		}
		if n := w.dials.Load(); n != 8 {
			w.Errorf("%d dials running, want 8", n)
		}
		if st := w.sumsUp(); st.Dialing != 8 || st.Waiting != 0 {
			w.Errorf("stats %+v", st)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n, ever := w.dials.Load(), w.dialed.Load(); n != 0 || ever != 8 {
			w.Errorf("%d dials running, %d ever", n, ever)
		}
		if st := w.sumsUp(); st.Dialing != 0 || st.Dials.Failed[pool.Connect] != 8 {
			w.Errorf("stats %+v", st)
		}
	})
}

// The caller may leave: the connection goes to the next one.
func TestADialIsDetachedFromItsCaller(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		w.net.SetRTT(host, 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, info, err := w.sendIn(ctx, "GET", "", pool.Want{})
		if err == nil || !info.Setup[pool.Connect].Happened || info.Setup[pool.Connect].Time != 10*time.Millisecond {
			w.Errorf("error %v, set-up %v", err, info.Setup)
		}
		if info.Acquire != 0 {
			w.Errorf("acquire %v: all of it was a dial of its own", info.Acquire)
		}
		time.Sleep(50 * time.Millisecond)
		later := w.get()
		if later.Reused || later.Setup[pool.Connect].Happened {
			w.Errorf("info %+v", later)
		}
		if later.Acquire != 40*time.Millisecond {
			w.Errorf("acquire %v, want the rest of the dial", later.Acquire)
		}
		if n := w.dialed.Load(); n != 1 {
			w.Errorf("%d dials", n)
		}
	})
}

// A dial in flight is not waited for when another connection comes back first.
func TestAConnectionThatComesBackIsFasterThanADial(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		first := w.open()
		w.net.SetRTT(host, time.Second)
		var wg sync.WaitGroup
		var info pool.Info
		wg.Go(func() { info = w.get() })
		time.Sleep(100 * time.Millisecond)
		first.Body.Close()
		wg.Wait()
		if !info.Reused || info.Setup[pool.Connect].Time != 100*time.Millisecond {
			w.Errorf("info %+v", info)
		}
		time.Sleep(time.Second)
		if st := w.sumsUp(); st.Idle != 2 {
			w.Errorf("%d idle, want 2: the dial's result lies idle", st.Idle)
		}
	})
}

func TestARefusedDialIsToldToTheOneWhoWaits(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		body := &counted{}
		req := w.request(context.Background(), "POST", "")
		req.Body, req.ContentLength = body, 4
		_, info, err := w.pool.Do(req, pool.Want{})
		e := w.asError(err)
		if e.Kind != pool.Dial || e.Step != pool.Connect || !e.NeverSent || !info.NeverSent || !errors.Is(err, syscall.ECONNREFUSED) {
			w.Errorf("error %+v", e)
		}
		if body.closes != 1 || body.reads != 0 {
			w.Errorf("body: %+v", body)
		}
	})
}

// With no connection left there is nothing else to wait for: everybody hears of it, at once.
func TestAFailedDialEndsTheWaitOfAll(t *testing.T) {
	inWorld(t, plan{noServer: true, config: pool.Config{DialLimit: 1}}, func(w *world) {
		w.net.SetRTT(host, 10*time.Millisecond)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_, _, err := w.send("GET", "", pool.Want{})
				if e := w.asError(err); e.Kind != pool.Dial {
					w.Errorf("error %v", err)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		// Those who came after the dial began wait for the next.
		if took := time.Since(began); took > 100*time.Millisecond {
			w.Errorf("took %v", took)
		}
	})
}

// Who comes while a dial runs may hope for the next.
func TestAFailedDialIsNotToldToNewcomers(t *testing.T) {
	inWorld(t, plan{noServer: true, config: pool.Config{DialLimit: 1}}, func(w *world) {
		w.net.SetRTT(host, 100*time.Millisecond)
		failed := make(chan time.Duration, 2)
		began := time.Now()
		for range 2 {
			go func() {
				w.send("GET", "", pool.Want{})
				failed <- time.Since(began)
			}()
			time.Sleep(50 * time.Millisecond)
		}
		if at := <-failed; at != 100*time.Millisecond {
			w.Errorf("the first heard after %v", at)
		}
		if at := <-failed; at < 225*time.Millisecond || at > 250*time.Millisecond {
			w.Errorf("the newcomer heard after %v, want a back-off and a dial more", at)
		}
	})
}

func TestAFailedDialIsToldToOneWhileConnectionsAreOpen(t *testing.T) {
	down := errors.New("down")
	var broken atomic.Bool
	var w *world
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if broken.Load() {
			return nil, down
		}
		return w.net.DialContext(ctx, network, address)
	}
	inWorld(t, plan{config: pool.Config{Dial: dial, DialLimit: 1}}, func(world *world) {
		w = world
		busy := w.open()
		broken.Store(true)
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, _, err := w.send("GET", "", pool.Want{})
				errs <- err
			}()
		}
		if err := <-errs; !errors.Is(err, down) {
			w.Errorf("error %v", err)
		}
		synctest.Wait()
		if len(errs) != 0 {
			w.Error("others were told too")
		}
		busy.Body.Close()
		for range 2 {
			if err := <-errs; err != nil {
				w.Errorf("error %v", err)
			}
		}
	})
}

func TestDialsBackOffAfterFailures(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		began := time.Now()
		for range 10 {
			w.send("GET", "", pool.Want{})
		}
		// Nine waits of U(1/2, 1) times 50, 100, 200, 400, 800, 1000 ms, and so on.
		if took := time.Since(began); took < 2775*time.Millisecond || took > 5550*time.Millisecond {
			w.Errorf("ten dials took %v", took)
		}
		w.serve(plan{})
		w.get()
		if st := w.sumsUp(); st.Dials.Failed[pool.Connect] != 10 || st.Dials.OK != 1 {
			w.Errorf("dials %+v", st.Dials)
		}
	})
}

// Dials that fail together are one failure: the next may follow soon.
func TestDialsThatFailTogetherCountOnce(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.net.SetRTT(host, 10*time.Millisecond)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { w.send("GET", "", pool.Want{}) })
		}
		wg.Wait()
		began := time.Now()
		w.send("GET", "", pool.Want{})
		if took := time.Since(began); took > 60*time.Millisecond {
			w.Errorf("the next dial ended after %v", took)
		}
	})
}

// Where HTTP/2 is possible the first dial goes alone: with luck it has room for all.
func TestTheFirstDialScoutsTheProtocol_go13957(t *testing.T) {
	for _, proto := range []string{"h2", "h2c"} {
		t.Run(proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				w.net.SetRTT(host, 20*time.Millisecond)
				var wg sync.WaitGroup
				for range 60 {
					wg.Go(func() { w.get() })
				}
				wg.Wait()
				if n := w.dialed.Load(); n != 1 {
					w.Errorf("%d dials, want 1", n)
				}
			})
		})
	}
}

func TestASlowScoutIsNotWaitedForLonger(t *testing.T) {
	inWorld(t, plan{proto: "h2", noServer: true}, func(w *world) {
		w.net.BlackHole(host)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for range 20 {
			go w.sendIn(ctx, "GET", "", pool.Want{})
		}
		time.Sleep(299 * time.Millisecond)
		if n := w.dials.Load(); n != 1 {
			w.Errorf("%d dials, want the scout alone", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := w.dials.Load(); n != 8 {
			w.Errorf("%d dials, want 8", n)
		}
		<-ctx.Done()
	})
}

func TestTheStepsOfADialAreTimed(t *testing.T) {
	var w *world
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		trace := httptrace.ContextClientTrace(ctx)
		trace.DNSStart(httptrace.DNSStartInfo{Host: "api.shop.example"})
		time.Sleep(7 * time.Millisecond)
		trace.DNSDone(httptrace.DNSDoneInfo{})
		return w.net.DialContext(ctx, network, address)
	}
	inWorld(t, plan{proto: "tls", listen: true, config: pool.Config{Dial: dial}}, func(world *world) {
		w = world
		w.net.SetRTT(host, 20*time.Millisecond)
		info := w.get()
		want := [3]pool.Step{
			pool.DNS:     {Happened: true, Time: 7 * time.Millisecond},
			pool.Connect: {Happened: true, Time: 20 * time.Millisecond},
			pool.TLS:     {Happened: true, Time: 20 * time.Millisecond},
		}
		if info.Setup != want || info.Acquire != 0 {
			w.Errorf("set-up %v, acquire %v", info.Setup, info.Acquire)
		}
		if info.InHand != 47*time.Millisecond {
			w.Errorf("in hand after %v", info.InHand)
		}
		if d := w.told(pool.EventDialed); len(d) != 1 || d[0].Setup != want || d[0].Err != nil || d[0].Conn != info.Conn {
			w.Errorf("events %+v", d)
		}
	})
}

func TestAFailedHandshakeNamesItsStep(t *testing.T) {
	inWorld(t, plan{proto: "tls", transport: pool.TransportConfig{ServerName: "other.example"}}, func(w *world) {
		_, info, err := w.send("GET", "", pool.Want{})
		e := w.asError(err)
		if e.Kind != pool.Dial || e.Step != pool.TLS || !info.Setup[pool.TLS].Happened || !e.NeverSent {
			w.Errorf("error %+v, set-up %v", e, info.Setup)
		}
		if st := w.sumsUp(); st.Dials.Failed[pool.TLS] != 1 || st.Open != 0 {
			w.Errorf("stats %+v", st)
		}
	})
}

func TestAFailedLookupNamesItsStep(t *testing.T) {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		trace := httptrace.ContextClientTrace(ctx)
		err := &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		trace.DNSStart(httptrace.DNSStartInfo{Host: address})
		trace.DNSDone(httptrace.DNSDoneInfo{Err: err})
		return nil, err
	}
	inWorld(t, plan{config: pool.Config{Dial: dial}}, func(w *world) {
		_, _, err := w.send("GET", "", pool.Want{})
		e := w.asError(err)
		if _, ok := errors.AsType[*net.DNSError](err); !ok || e.Step != pool.DNS {
			w.Errorf("error %+v", e)
		}
	})
}

func TestADialThatHangsFailsAtItsTimeout(t *testing.T) {
	for _, proto := range []string{"", "tls"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, noServer: true, config: pool.Config{DialTimeout: time.Second}}, func(w *world) {
				if proto == "" {
					w.net.BlackHole(host)
				} else { // connects, and says nothing
					l, err := w.net.Listen(host)
					if err != nil {
						w.Fatal(err)
					}
					defer l.Close()
				}
				began := time.Now()
				_, _, err := w.send("GET", "", pool.Want{})
				e := w.asError(err)
				if e.Kind != pool.Dial || !e.Timeout() || time.Since(began) != time.Second {
					w.Errorf("error %v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// A server that accepts and hangs up does not make the pool dial in circles.
func TestConnectionsDeadOnArrivalAreNotDialledInCircles(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		l, err := w.net.Listen(host)
		if err != nil {
			w.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				nc.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		calls := int32(0)
		for ; ctx.Err() == nil; calls++ {
			_, info, err := w.sendIn(ctx, "POST", "body", pool.Want{})
			if e := w.asError(err); e.Kind == pool.Send && info.Sends != 1 {
				w.Errorf("info %+v", info)
			}
		}
		if n := w.dialed.Load() - calls; n > 100 {
			w.Errorf("%d dials in 3 s that no call asked for", n)
		}
	})
}
