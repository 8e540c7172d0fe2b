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

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

// A lent body must come back closed, once, whatever happens.
type lent struct {
	read   func(p []byte) (int, error)
	closes atomic.Int32
}

func (l *lent) Read(p []byte) (int, error) { return l.read(p) }

func (l *lent) Close() error {
	l.closes.Add(1)
	return nil
}

func lend(s string) *lent {
	r := strings.NewReader(s)
	return &lent{read: r.Read}
}

func TestTheRequestBodyIsClosedOnce(t *testing.T) {
	failing := errors.New("disk on fire")
	for _, proto := range []string{"", "tls", "h2"} {
		for name, story := range map[string]struct {
			body    func() *lent
			length  int64
			handler http.HandlerFunc
			want    pool.Want
			timeout time.Duration
			err     error
		}{
			"sent":           {body: func() *lent { return lend("body") }, length: 4},
			"unknown length": {body: func() *lent { return lend("body") }, length: -1},
			"empty":          {body: func() *lent { return lend("") }, length: -1},
			"too short":      {body: func() *lent { return lend("body") }, length: 10},
			"too long":       {body: func() *lent { return lend("body") }, length: 2},
			"failing": {body: func() *lent {
				return &lent{read: func([]byte) (int, error) { return 0, failing }}
			}, length: 4, err: failing},
			"answered early": {body: func() *lent { return lend(strings.Repeat("x", 1<<20)) }, length: 1 << 20,
				handler: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) }},
			"timeout": {body: func() *lent { return lend("body") }, length: 4, timeout: time.Second,
				handler: hang, err: context.DeadlineExceeded},
			"timeout over before": {body: func() *lent { return lend("body") }, length: 4, timeout: -1, err: context.DeadlineExceeded},
		} {
			t.Run(name+" proto="+proto, func(t *testing.T) {
				if story.handler == nil {
					story.handler = ok
				}
				inWorld(t, plan{proto: proto, handler: story.handler}, func(w *world) {
					ctx, cancel := context.WithCancel(context.Background())
					if story.timeout != 0 {
						ctx, cancel = context.WithTimeout(context.Background(), story.timeout)
					}
					defer cancel()
					body := story.body()
					req := w.request(ctx, "POST", "")
					req.Body, req.ContentLength = body, story.length
					resp, _, err := w.pool.Do(req, story.want)
					if err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					} else if w.asError(err); !errors.Is(err, story.err) && story.err != nil {
						w.Errorf("error %v", err)
					}
					synctest.Wait()
					if n := body.closes.Load(); n != 1 {
						w.Errorf("closed %d times (error %v)", n, err)
					}
					w.get2()
				})
			})
		}
	}
}

// hang reads the request and does not answer.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // else http.Server does not notice that the client leaves
	<-r.Context().Done()
}

// get2 is a request that shows that the pool still works, whatever the handler answers.
func (w *world) get2() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, info, err := w.sendIn(ctx, "GET", "", pool.Want{})
	if err != nil && info.Conn == 0 {
		w.Errorf("afterwards: %v", err)
	}
	if st := w.sumsUp(); st.Streams != 0 {
		w.Errorf("%d streams left", st.Streams)
	}
}

func TestAPanicLeavesNothingTaken(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		for _, where := range []string{"OnConn", "body", "listener"} {
			t.Run(where+" proto="+proto, func(t *testing.T) {
				armed := false
				p := plan{proto: proto, config: pool.Config{MaxConns: 1, MaxStreams: 1}}
				if where == "listener" {
					p.config.OnEvent = func(e pool.Event) {
						if armed && e.Kind == pool.EventAcquired {
							armed = false
							panic("mine")
						}
					}
				}
				inWorld(t, p, func(w *world) {
					w.get()
					synctest.Wait() // an event is told by whoever is telling already
					body := lend("body")
					var want pool.Want
					armed = true
					switch where {
					case "OnConn":
						want.OnConn = func(pool.Info) error { panic("mine") }
					case "body":
						body.read = func([]byte) (int, error) { panic("mine") }
					}
					func() {
						defer func() {
							if v := recover(); v != "mine" {
								w.Errorf("recovered %v", v)
							}
						}()
						req := w.request(context.Background(), "POST", "")
						req.Body, req.ContentLength = body, 4
						w.pool.Do(req, want)
						w.Error("no panic")
					}()
					synctest.Wait()
					if n := body.closes.Load(); n != 1 {
						w.Errorf("body closed %d times", n)
					}
					if st := w.sumsUp(); st.Streams != 0 || st.Waiting != 0 {
						w.Errorf("stats %+v", st)
					}
					w.get()
				})
			})
		}
	}
}

func TestAPanicBeforeTheSecondSendLeavesNothingTaken(t *testing.T) {
	inWorld(t, plan{proto: "h2c", noServer: true, config: pool.Config{MaxConns: 1, MaxStreams: 2}}, func(w *world) {
		refused := false
		w.play(func(nc *memnet.Conn) {
			p, ok := greet(nc, 2)
			for n := 0; ok; n++ {
				var stream uint32
				if stream, ok = p.next(); !ok {
					return
				}
				if n == 1 && !refused {
					refused = true
					p.goAway(stream-2, codeNone)
					return
				}
				p.answer(stream)
			}
		})
		w.get()
		func() {
			defer func() {
				if v := recover(); v != "mine" {
					w.Errorf("recovered %v", v)
				}
			}()
			w.send("GET", "", pool.Want{OnConn: func(info pool.Info) error {
				if info.Sends > 0 {
					panic("mine")
				}
				return nil
			}})
		}()
		synctest.Wait()
		if st := w.sumsUp(); st.Streams != 0 || st.Open != 1 {
			w.Errorf("stats %+v", st)
		}
		a, b := w.open(), w.open() // both places are there
		a.Body.Close()
		b.Body.Close()
		if n := w.conns.Load(); n != 2 {
			w.Errorf("%d connections", n)
		}
	})
}

// While its connection is waited for, a body is neither read nor closed.
func TestABodyIsNotTouchedBeforeItsConnectionIsThere(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MaxConns: 1}}, func(w *world) {
		busy := w.open()
		body := lend("body")
		var wg sync.WaitGroup
		wg.Go(func() {
			req := w.request(context.Background(), "POST", "")
			req.Body, req.ContentLength = body, 4
			resp, _, err := w.pool.Do(req, pool.Want{})
			if err != nil {
				w.Error(err)
				return
			}
			io.ReadAll(resp.Body)
		})
		synctest.Wait()
		if body.closes.Load() != 0 {
			w.Error("closed while waiting")
		}
		busy.Body.Close()
		wg.Wait()
		if body.closes.Load() != 1 {
			w.Error("not closed")
		}
	})
}

// Headers and a body from memory leave in one write, as with net/http.
func TestABodyFromMemoryIsOneWrite(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		var chunks atomic.Int32
		w.play(func(nc *memnet.Conn) {
			buf := make([]byte, 4096)
			for {
				if _, err := nc.Read(buf); err != nil {
					return
				}
				chunks.Add(1)
				if strings.HasSuffix(string(buf[:]), "\x00") && strings.Contains(string(buf), "body") {
					io.WriteString(nc, plainOK)
				}
			}
		})
		req, err := http.NewRequest("POST", "http://"+host+"/", strings.NewReader("body"))
		if err != nil {
			w.Fatal(err)
		}
		resp, _, err := w.pool.Do(req, pool.Want{})
		if err != nil {
			w.Fatal(err)
		}
		io.ReadAll(resp.Body)
		if n := chunks.Load(); n != 1 {
			w.Errorf("%d writes, want 1", n)
		}
	})
}
