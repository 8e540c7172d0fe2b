package pool_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

// hangUp is a server that answers one request per connection and, on the first connection, closes at the moment it has the
// second: the race of golang/go#22158.
func hangUp(nc *memnet.Conn, first bool) {
	br := bufio.NewReader(nc)
	for i := 0; ; i++ {
		if _, ok := hears(br); !ok || first && i == 1 {
			return
		}
		io.WriteString(nc, plainOK)
	}
}

func TestARequestLostWithAStaleConnection_go22158_go19943_conformanceA7(t *testing.T) {
	story := func(t *testing.T, want pool.Want, check func(w *world, info pool.Info, err error)) {
		inWorld(t, plan{noServer: true}, func(w *world) {
			w.play(func(nc *memnet.Conn) { hangUp(nc, w.conns.Load() == 1) })
			w.get()
			req := w.request(context.Background(), "POST", "")
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("body")), 4
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
			resp, info, err := w.pool.Do(req, want)
			if err == nil {
				io.ReadAll(resp.Body)
			}
			check(w, info, err)
		})
	}
	t.Run("marked as idempotent", func(t *testing.T) {
		story(t, pool.Want{Idempotent: true}, func(w *world, info pool.Info, err error) {
			if err != nil || info.Sends != 2 || info.Reused || info.NeverSent {
				w.Errorf("error %v, info %+v", err, info)
			}
			if st := w.sumsUp(); st.Resends[pool.ResendIdempotent] != 1 {
				w.Errorf("resends %v", st.Resends)
			}
		})
	})
	t.Run("unmarked", func(t *testing.T) {
		story(t, pool.Want{}, func(w *world, info pool.Info, err error) {
			e := w.asError(err)
			if e.Kind != pool.Send || e.NeverSent || !e.Reused || e.Sends != 1 || e.Written == 0 || e.Refused {
				w.Errorf("error %+v", e)
			}
			if !strings.Contains(err.Error(), "the request may have been processed") {
				w.Errorf("error %q", err)
			}
			if n := w.conns.Load(); n != 1 {
				w.Errorf("%d connections: it was sent again", n)
			}
		})
	})
}

// With TLS the farewell of the peer is no answer.
func TestACloseNotifyIsNoAnswer(t *testing.T) {
	var second atomic.Bool
	close := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if second.Swap(true) && r.Header.Get("Again") == "" {
			nc, _, _ := http.NewResponseController(rw).Hijack()
			nc.Close() // says close_notify
			return
		}
		ok(rw, r)
	})
	inWorld(t, plan{proto: "tls", handler: close}, func(w *world) {
		w.get()
		req := w.request(context.Background(), "GET", "")
		resp, info, err := w.pool.Do(req, pool.Want{Idempotent: true, OnConn: func(info pool.Info) error {
			if info.Sends > 0 {
				req.Header.Set("Again", "yes")
			}
			return nil
		}})
		if err != nil || info.Sends != 2 {
			w.Fatalf("error %v, info %+v", err, info)
		}
		io.ReadAll(resp.Body)
	})
}

// A connection whose peer has gone is found out before anything is written, for any method and any body.
func TestAStaleConnectionIsNotUsed(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				for range 20 {
					w.get()
					for _, nc := range w.net.Conns(host) {
						nc.Reset()
					}
					answer, info, err := w.send("POST", "body", pool.Want{})
					if err != nil || answer != "ok" {
						w.Fatalf("error %v, info %+v", err, info)
					}
				}
				if st := w.sumsUp(); st.Created != 21 {
					w.Errorf("%d connections, want 21", st.Created)
				}
			})
		})
	}
}

// broken is a socket on which a write fails before any read does. What TLS says for farewell still gets through.
type broken struct {
	*memnet.Conn
	fail *atomic.Bool
}

func (b broken) Write(p []byte) (int, error) {
	if b.fail.Swap(false) {
		return 0, syscall.EPIPE
	}
	return b.Conn.Write(p)
}

// Nothing was written on the connection, so any method may go to another one, a body that was not read with it.
func TestWhatWasNotWrittenIsSentAgain(t *testing.T) {
	for _, proto := range []string{"", "tls"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, listen: true}, func(w *world) {
				fail := make([]*atomic.Bool, 2)
				w.pool.Close()
				w.pool = w.newPool(plan{proto: proto, listen: true, config: pool.Config{Dial: w.breaking(fail)}})
				w.get()
				fail[0].Store(true)
				_, info, err := w.send("POST", "", pool.Want{})
				if err != nil || info.Sends != 2 || info.Reused {
					w.Fatalf("error %v, info %+v", err, info)
				}
				st := w.sumsUp()
				if st.Resends[pool.ResendUnwritten] != 1 {
					w.Errorf("resends %v", st.Resends)
				}
				if e := w.told(pool.EventResent); len(e) != 1 || e[0].Conn != 1 || e[0].Rule != pool.ResendUnwritten || e[0].Err == nil {
					w.Errorf("events %+v", e)
				}
			})
		})
	}
}

// Only once: the second failure is the caller's to judge.
func TestARequestIsSentAgainOnlyOnce(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		fail := make([]*atomic.Bool, 3)
		w.pool.Close()
		w.pool = w.newPool(plan{config: pool.Config{Dial: w.breaking(fail)}})
		a, b := w.open(), w.open()
		a.Body.Close()
		b.Body.Close()
		fail[0].Store(true)
		fail[1].Store(true)
		body := &counted{Reader: strings.NewReader("body")}
		req := w.request(context.Background(), "POST", "")
		req.Body, req.ContentLength = body, 4
		_, info, err := w.pool.Do(req, pool.Want{Idempotent: true})
		e := w.asError(err)
		if e.Sends > 2 || int(info.Sends) != e.Sends || !errors.Is(err, syscall.EPIPE) || !e.NeverSent {
			w.Errorf("error %+v", e)
		}
		if body.closes != 1 {
			w.Errorf("body closed %d times", body.closes)
		}
	})
}

// breaking is a Dial whose n-th connection fails to write once fail[n] is set.
func (w *world) breaking(fail []*atomic.Bool) dialFunc {
	for i := range fail {
		fail[i] = new(atomic.Bool)
	}
	var n atomic.Int32
	return func(ctx context.Context, network, address string) (netConn, error) {
		nc, err := w.dial(ctx, network, address)
		i := int(n.Add(1)) - 1
		if err != nil || i >= len(fail) {
			return nc, err
		}
		return broken{nc.(*memnet.Conn), fail[i]}, nil
	}
}

// What net/http derives from the context of a request that then fails stays registered there, so it gets one of its own.
func TestFailedRequestsLeaveNothingInTheirContext(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) { hears(bufio.NewReader(nc)) })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 50 {
			if _, _, err := w.sendIn(ctx, "GET", "", pool.Want{}); err == nil {
				w.Fatal("no error")
			}
		}
		synctest.Wait()
		if n := reflect.ValueOf(ctx).Elem().FieldByName("children").Len(); n != 0 {
			w.Errorf("%d contexts left", n)
		}
	})
}

// The wait of a second send has nothing to do with the connection of the first.
func TestASecondSendMayGiveUpItsWait(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) { hangUp(nc, true) })
		w.get()
		w.net.BlackHole(host)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, info, err := w.sendIn(ctx, "GET", "", pool.Want{Idempotent: true})
		e := w.asError(err)
		if e.Kind != pool.Wait || e.NeverSent || e.Sends != 1 || info.Conn != 1 || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("error %+v, info %+v", e, info)
		}
		if st := w.sumsUp(); st.Streams != 0 || st.Open != 0 {
			w.Errorf("stats %+v", st)
		}
	})
}

// On a connection that never carried a request there is no staleness to blame.
func TestAFailureOnFirstUseIsTheCallers(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) { hears(bufio.NewReader(nc)) })
		_, info, err := w.send("GET", "", pool.Want{Idempotent: true})
		if e := w.asError(err); e.Kind != pool.Send || e.Reused || e.NeverSent || info.Sends != 1 {
			w.Errorf("error %+v", e)
		}
	})
}

// The second send trusts no connection that has been idle: the whole pool may be stale.
func TestASecondSendTakesNoStaleConnection(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) { hangUp(nc, w.conns.Load() <= 3) })
		bodies := []*http.Response{w.open(), w.open(), w.open()}
		for _, b := range bodies {
			io.ReadAll(b.Body)
		}
		time.Sleep(2 * time.Second)
		_, info, err := w.send("GET", "", pool.Want{Idempotent: true})
		if err != nil || info.Sends != 2 || info.Reused || w.conns.Load() != 4 {
			w.Errorf("error %v, info %+v", err, info)
		}
	})
}

func TestNothingIsSentAgainAfterAByteOfTheAnswer(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) {
			br := bufio.NewReader(nc)
			hears(br)
			io.WriteString(nc, plainOK)
			hears(br)
			io.WriteString(nc, "HTTP/1.1 2")
		})
		w.get()
		_, info, err := w.send("GET", "", pool.Want{Idempotent: true})
		if w.asError(err); info.Sends != 1 || w.conns.Load() != 1 {
			w.Errorf("error %v, info %+v", err, info)
		}
	})
}

func TestABodyThatCannotBeMadeAgainIsNotSentAgain(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) { hangUp(nc, w.conns.Load() == 1) })
		w.get()
		_, info, err := w.send("PUT", "body", pool.Want{Idempotent: true})
		if e := w.asError(err); e.Sends != 1 || info.Sends != 1 || e.NeverSent {
			w.Errorf("error %+v", e)
		}
	})
}

// A stream that was refused was not processed, so even a POST goes out again, with a fresh body (RFC 9113 section 8.7).
func TestARefusedStreamIsSentAgain_go25009(t *testing.T) {
	for name, refuse := range map[string]func(p *h2peer, stream uint32){
		"REFUSED_STREAM": func(p *h2peer, stream uint32) { p.reset(stream, codeRefused) },
		"GOAWAY":         func(p *h2peer, stream uint32) { p.goAway(stream-2, codeNone) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, plan{proto: "h2c", noServer: true, listen: true}, func(w *world) {
				w.play(func(nc *memnet.Conn) {
					first := w.conns.Load() == 1
					p, ok := greet(nc, 0)
					for n := 0; ok; n++ {
						var stream uint32
						if stream, ok = p.next(); !ok {
							return
						}
						if first && n == 1 {
							refuse(p, stream)
							continue
						}
						p.answer(stream)
					}
				})
				w.get()
				fresh := 0
				req := w.request(context.Background(), "POST", "body")
				req.GetBody = func() (io.ReadCloser, error) {
					fresh++
					return io.NopCloser(streamed{strings.NewReader("body")}), nil
				}
				resp, info, err := w.pool.Do(req, pool.Want{})
				if err != nil {
					w.Fatal(err)
				}
				io.ReadAll(resp.Body)
				if info.Sends != 2 || info.NeverSent || fresh != 1 || info.Conn == 1 {
					w.Errorf("info %+v, %d fresh bodies", info, fresh)
				}
				if st := w.sumsUp(); st.Resends[pool.ResendRefused] != 1 {
					w.Errorf("resends %v", st.Resends)
				}
				if name == "GOAWAY" {
					w.closedAs(pool.ReasonGoAway, 1)
				}
			})
		})
	}
}

// On a new connection it is the server's answer to a newcomer, and the client's to judge.
func TestARefusalOnFirstUseIsToldToTheClient(t *testing.T) {
	for name, code := range map[string]uint32{"refused": codeRefused, "goaway": codeNone, "goaway with error": codeInternal} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, plan{proto: "h2c", noServer: true}, func(w *world) {
				w.play(func(nc *memnet.Conn) {
					p, ok := greet(nc, 0)
					for ok {
						var stream uint32
						if stream, ok = p.next(); !ok {
							return
						}
						if name == "refused" {
							p.reset(stream, code)
						} else {
							p.goAway(0, code)
						}
					}
				})
				_, info, err := w.send("POST", "body", pool.Want{})
				e := w.asError(err)
				if !e.Refused || e.NeverSent || info.Sends != 1 || e.GoAway != (name != "refused") {
					w.Errorf("error %+v", e)
				}
			})
		})
	}
}

// GOAWAY has no exported type. This holds the one function that knows its texts against the Go that runs.
func TestGoAwayIsRecognised(t *testing.T) {
	story := func(t *testing.T, act func(p *h2peer, stream uint32), check func(e *pool.Error)) {
		inWorld(t, plan{proto: "h2c", noServer: true}, func(w *world) {
			w.play(func(nc *memnet.Conn) {
				p, ok := greet(nc, 0)
				if !ok {
					return
				}
				if stream, ok := p.next(); ok {
					act(p, stream)
				}
			})
			_, _, err := w.send("POST", "body", pool.Want{})
			check(w.asError(err))
		})
	}
	t.Run("below the last stream, then closed", func(t *testing.T) {
		story(t, func(p *h2peer, stream uint32) { p.goAway(stream, codeNone) }, func(e *pool.Error) {
			if !e.GoAway || e.Refused || e.NeverSent {
				t.Errorf("error %+v: %v", e, e)
			}
		})
	})
	t.Run("closed without", func(t *testing.T) {
		story(t, func(*h2peer, uint32) {}, func(e *pool.Error) {
			if e.GoAway || e.Refused || !errors.Is(e, io.ErrUnexpectedEOF) {
				t.Errorf("error %+v: %v", e, e)
			}
		})
	})
	t.Run("another reset", func(t *testing.T) {
		story(t, func(p *h2peer, stream uint32) { p.reset(stream, codeInternal); p.next() }, func(e *pool.Error) {
			if e.GoAway || e.Refused || e.NeverSent {
				t.Errorf("error %+v: %v", e, e)
			}
		})
	})
}

// A request that cannot be sent is not the connection's fault.
func TestAnInvalidRequestCostsNoConnection(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				first := w.get()
				body := &counted{Reader: strings.NewReader("body")}
				req := w.request(context.Background(), "POST", "")
				req.Body, req.ContentLength = body, 4
				req.Header["Bad Name"] = []string{"x"}
				_, info, err := w.pool.Do(req, pool.Want{})
				if e := w.asError(err); e.Kind != pool.Send || !e.NeverSent || info.Sends != 1 {
					w.Errorf("error %+v", e)
				}
				if body.closes != 1 || body.reads != 0 {
					w.Errorf("body: %d reads, %d closes", body.reads, body.closes)
				}
				if next := w.get(); next.Conn != first.Conn {
					w.Error("the connection is gone")
				}
			})
		})
	}
}

// A context that ends while the request is on its way: no second send, and the context's own error.
func TestACancelledRequestIsNotSentAgain(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			hang := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == "PUT" {
					<-r.Context().Done()
					return
				}
				ok(rw, r)
			})
			inWorld(t, plan{proto: proto, handler: hang, listen: true}, func(w *world) {
				w.get()
				gone := errors.New("caller gone")
				ctx, cancel := context.WithCancelCause(context.Background())
				go func() {
					time.Sleep(time.Second)
					cancel(gone)
				}()
				_, info, err := w.sendIn(ctx, "PUT", "", pool.Want{Idempotent: true})
				e := w.asError(err)
				if e.Kind != pool.Send || e.NeverSent || info.Sends != 1 || !errors.Is(err, gone) || errors.Is(err, context.Canceled) {
					w.Errorf("error %+v", e)
				}
				synctest.Wait()
				closed := w.told(pool.EventClosed)
				if proto == "h2" {
					if len(closed) != 0 {
						w.Errorf("a cancelled stream cost the connection: %+v", closed)
					}
					return
				}
				if len(closed) != 1 || closed[0].Reason != pool.ReasonError || closed[0].Detail != "canceled" {
					w.Errorf("closed %+v", closed)
				}
			})
		})
	}
}
