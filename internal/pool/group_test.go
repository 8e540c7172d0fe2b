package pool_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// many makes n endpoints with a server each, in one group.
func (w *world) many(n int, cfg pool.Config) []*pool.Pool {
	pools := make([]*pool.Pool, n)
	for i := range pools {
		cfg.Host = fmt.Sprintf("host%d.example:80", i)
		l, err := w.net.Listen(cfg.Host)
		if err != nil {
			w.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(ok), ErrorLog: quiet}
		w.Cleanup(func() { s.Close() })
		go s.Serve(l)
		pools[i] = w.newPool(plan{config: cfg})
	}
	return pools
}

func (w *world) getOn(p *pool.Pool) (*http.Response, error) {
	resp, _, err := p.Do(w.request(context.Background(), "GET", ""), pool.Want{})
	return resp, err
}

// At the bound a dial closes the connection that has been idle longest, wherever that is.
func TestADialAtTheBoundClosesTheLongestIdle(t *testing.T) {
	inWorld(t, plan{group: pool.GroupConfig{MaxOpen: 3}}, func(w *world) {
		pools := w.many(5, pool.Config{})
		for i := range pools {
			resp, err := w.getOn(pools[i])
			if err != nil {
				w.Fatal(err)
			}
			resp.Body.Close()
			time.Sleep(time.Second)
		}
		for i, p := range pools {
			want := 0
			if i < 2 {
				want = 1 // evicted
			}
			if st := p.Stats(); st.Closed[pool.ReasonIdleLimit] != uint64(want) || st.Open != 1-want {
				w.Errorf("pool %d: %+v", i, st)
			}
		}
	})
}

// With nothing idle a dial waits, and what becomes idle anywhere is closed for it.
func TestADialWaitsWhileAllSocketsAreBusy(t *testing.T) {
	inWorld(t, plan{group: pool.GroupConfig{MaxOpen: 2}}, func(w *world) {
		pools := w.many(3, pool.Config{})
		a, err := w.getOn(pools[0])
		if err != nil {
			w.Fatal(err)
		}
		b, err := w.getOn(pools[1])
		if err != nil {
			w.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			c, err := w.getOn(pools[2])
			if err != nil {
				w.Error(err)
				return
			}
			io.ReadAll(c.Body)
		})
		time.Sleep(time.Second)
		if st := pools[2].Stats(); st.Dialing != 1 || st.Open != 0 {
			w.Errorf("stats %+v", st)
		}
		io.ReadAll(a.Body)
		wg.Wait()
		if st := pools[0].Stats(); st.Closed[pool.ReasonIdleLimit] != 1 {
			w.Errorf("stats %+v", st)
		}
		b.Body.Close()
		if st := pools[1].Stats(); st.Idle != 1 {
			w.Errorf("stats %+v: nobody is in line any more", st)
		}
	})
}

func TestADialThatFindsNoPlaceIsNoFailureOfItsEndpoint(t *testing.T) {
	inWorld(t, plan{group: pool.GroupConfig{MaxOpen: 1}, config: pool.Config{MaxWait: 30 * time.Second, DialTimeout: time.Second}}, func(w *world) {
		pools := w.many(1, pool.Config{})
		busy, err := w.getOn(pools[0])
		if err != nil {
			w.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { busy.Body.Close() })
		w.get()
		if took := time.Since(began); took != 10*time.Second {
			w.Errorf("took %v", took)
		}
		if st := w.sumsUp(); st.Dials.Failed != [4]uint64{} {
			w.Errorf("dials %+v", st.Dials)
		}
	})
}

func TestDialsAreBoundedAcrossEndpoints(t *testing.T) {
	inWorld(t, plan{group: pool.GroupConfig{MaxDials: 10}}, func(w *world) {
		pools := w.many(20, pool.Config{})
		for i := range pools {
			w.net.SetRTT(fmt.Sprintf("host%d.example:80", i), 500*time.Millisecond)
		}
		var wg sync.WaitGroup
		for _, p := range pools {
			for range 3 {
				wg.Go(func() {
					resp, err := w.getOn(p)
					if err != nil {
						w.Error(err)
						return
					}
					resp.Body.Close()
				})
			}
		}
		wg.Wait()
		if n := w.most.Load(); n > 10 {
			w.Errorf("%d dials at a time", n)
		}
	})
}

// A socket counts from its dial to its close, however the dial ends.
func TestSocketsAreCountedExactly(t *testing.T) {
	inWorld(t, plan{group: pool.GroupConfig{MaxOpen: 1}, proto: "tls"}, func(w *world) {
		bad := w.newPool(plan{proto: "tls", transport: pool.TransportConfig{ServerName: "other.example"}})
		none := w.newPool(plan{config: pool.Config{Host: "nowhere.example:80"}})
		for range 20 {
			for _, p := range []*pool.Pool{bad, none} {
				if _, err := w.getOn(p); err == nil {
					w.Fatal("no error")
				}
			}
			w.get() // would wait for ever, had the others left something
			w.net.Conns(host)[0].Reset()
			synctest.Wait()
		}
	})
}

func TestAGroupClosesItsPools(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		pools := w.many(5, pool.Config{})
		for _, p := range pools {
			if _, err := w.getOn(p); err != nil {
				w.Fatal(err)
			}
		}
		w.group.Close()
		for _, p := range pools {
			if st := p.Stats(); st.Open != 0 || st.Closed[pool.ReasonShutdown] != 1 {
				w.Errorf("stats %+v", st)
			}
		}
	})
}
