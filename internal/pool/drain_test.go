package pool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestDrainLetsOpenBodiesEnd(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, config: pool.Config{MaxConns: 2, MaxStreams: 1}}, func(w *world) {
				w.get()
				bodies := []*http.Response{w.open(), w.open()}
				waiting := make(chan error, 1)
				go func() {
					_, _, err := w.send("GET", "", pool.Want{})
					waiting <- err
				}()
				synctest.Wait()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						if err := w.pool.Drain(context.Background()); err != nil {
							w.Errorf("drain: %v", err)
						}
					})
				}
				if err := <-waiting; w.asError(err).Kind != pool.Closed || !errors.Is(err, pool.ErrClosed) {
					w.Errorf("who waited got %v", err)
				}
				_, info, err := w.send("POST", "body", pool.Want{})
				if e := w.asError(err); e.Kind != pool.Closed || !e.NeverSent || !info.NeverSent {
					w.Errorf("who came got %v", err)
				}
				short, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if err := w.pool.Drain(short); err != context.DeadlineExceeded {
					w.Errorf("drain: %v", err)
				}
				for _, resp := range bodies {
					if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
						w.Errorf("read %q, %v", b, err)
					}
				}
				wg.Wait()
				w.closedAs(pool.ReasonShutdown, w.sumsUp().Created)
			})
		})
	}
}

func TestDrainClosesWhatIsDialledAndIdle(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		a, b := w.open(), w.open()
		a.Body.Close()
		b.Body.Close()
		w.net.BlackHole(host)
		go w.pool.Prewarm(context.Background(), 5)
		synctest.Wait()
		began := time.Now()
		if err := w.pool.Drain(context.Background()); err != nil || time.Since(began) != 0 {
			w.Errorf("drain: %v after %v", err, time.Since(began))
		}
		w.closedAs(pool.ReasonShutdown, 2)
	})
}

func TestCloseCutsWhatRuns(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			stuck := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					io.WriteString(rw, "half")
					rw.(http.Flusher).Flush()
				}
				hang(rw, r)
			})
			inWorld(t, plan{proto: proto, handler: stuck}, func(w *world) {
				reading := w.open()
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := io.ReadAll(reading.Body); !errors.Is(err, pool.ErrClosed) {
						w.Errorf("who read got %v", err)
					}
					reading.Body.Close()
				})
				wg.Go(func() {
					_, info, err := w.send("PUT", "", pool.Want{Idempotent: true})
					if e := w.asError(err); e.Kind != pool.Closed || info.Sends != 1 {
						w.Errorf("who had sent got %v", err)
					}
				})
				unread := w.open()
				synctest.Wait()
				began := time.Now()
				for range 2 {
					if err := w.pool.Close(); err != nil {
						w.Errorf("close: %v", err)
					}
				}
				if took := time.Since(began); took != 0 {
					w.Errorf("close took %v", took)
				}
				wg.Wait()
				unread.Body.Close()
				if err := w.pool.Drain(context.Background()); err != nil {
					w.Errorf("drain after close: %v", err)
				}
			})
		})
	}
}

// A TLS peer that does not read makes a farewell last 5 s; Close does not wait for it.
func TestCloseDoesNotWaitForAFarewell(t *testing.T) {
	inWorld(t, plan{proto: "tls"}, func(w *world) {
		w.get()
		w.net.Conns(host)[0].Drop()
		began := time.Now()
		w.pool.Close()
		if took := time.Since(began); took != 0 {
			w.Errorf("close took %v", took)
		}
	})
}

func TestTheSiblingDrainsToo(t *testing.T) {
	inWorld(t, plan{proto: "h2"}, func(w *world) {
		w.send("GET", "", pool.Want{HTTP1: true})
		w.get()
		if err := w.pool.Drain(context.Background()); err != nil {
			w.Fatal(err)
		}
		w.closedAs(pool.ReasonShutdown, 2)
		if _, _, err := w.send("GET", "", pool.Want{HTTP1: true}); !errors.Is(err, pool.ErrClosed) {
			w.Errorf("error %v", err)
		}
	})
}

// A pool that was never asked for HTTP/1 before it drained makes no sibling then.
func TestNoSiblingAfterDrain(t *testing.T) {
	inWorld(t, plan{proto: "h2"}, func(w *world) {
		w.pool.Drain(context.Background())
		if _, _, err := w.send("GET", "", pool.Want{HTTP1: true}); !errors.Is(err, pool.ErrClosed) {
			w.Errorf("error %v", err)
		}
	})
}
