package pool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

// The usual way to read JSON leaves a newline behind. That must not cost a connection.
func TestANewlineBehindJSONIsDrained_go77370_conformanceB22a(t *testing.T) {
	answer := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(rw).Encode(map[string]int{"n": 1})
		rw.(http.Flusher).Flush() // chunked: the end is not known
	})
	inWorld(t, plan{handler: answer}, func(w *world) {
		for range 10 {
			resp := w.open()
			var v map[string]int
			if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
				w.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				w.Errorf("close: %v", err)
			}
		}
		if n := w.conns.Load(); n != 1 {
			w.Errorf("%d connections, want 1", n)
		}
	})
}

func TestALargeUnreadBodyCostsItsConnectionAndNoTime_go77370_conformanceB22b_A9(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, length := range map[string]bool{"declared": true, "chunked": false} {
		t.Run(name, func(t *testing.T) {
			answer := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				if length {
					rw.Header().Set("Content-Length", "1048576")
				}
				io.WriteString(rw, big)
			})
			inWorld(t, plan{handler: answer, listen: true}, func(w *world) {
				resp := w.open()
				began := time.Now()
				resp.Body.Close()
				if took := time.Since(began); took > 50*time.Millisecond {
					w.Errorf("close took %v", took)
				}
				w.closedAs(pool.ReasonUndrained, 1)
				e := w.told(pool.EventClosed)[0]
				if want := map[bool]int64{true: 1 << 20, false: -1}[length]; e.Unread != want || e.Detail != "size" {
					w.Errorf("event %+v", e)
				}
				if e.BytesIn > 200<<10 {
					w.Errorf("%d bytes were read", e.BytesIn)
				}
			})
		})
	}
}

func TestATricklingBodyIsGivenUp_conformanceB22c(t *testing.T) {
	trickle := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		for range 1000 {
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	inWorld(t, plan{handler: trickle, listen: true}, func(w *world) {
		resp := w.open()
		began := time.Now()
		resp.Body.Close()
		if took := time.Since(began); took != 50*time.Millisecond {
			w.Errorf("close took %v", took)
		}
		w.closedAs(pool.ReasonUndrained, 1)
		if e := w.told(pool.EventClosed)[0]; e.Detail != "time" {
			w.Errorf("event %+v", e)
		}
	})
}

// Read and Close from two goroutines, on bodies in every state.
func TestReadAndCloseMayRace_go81404_conformanceB22d(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				io.WriteString(rw, strings.Repeat("x", 4<<10))
				rw.(http.Flusher).Flush()
				if r.Method == "PUT" {
					select {
					case <-r.Context().Done():
					case <-time.After(time.Minute):
					}
				}
			})
			inWorld(t, plan{proto: proto, handler: slow}, func(w *world) {
				rounds := 10000
				if testing.Short() || raceEnabled || proto == "h2" {
					rounds = 2000
				}
				for i := range rounds {
					method := "GET"
					if i%10 == 0 {
						method = "PUT" // its end does not come
					}
					resp, _, err := w.pool.Do(w.request(context.Background(), method, ""), pool.Want{})
					if err != nil {
						w.Fatal(err)
					}
					var wg sync.WaitGroup
					wg.Go(func() {
						if _, err := io.Copy(io.Discard, resp.Body); err == nil && method == "PUT" {
							w.Error("the end of a body that has none")
						}
					})
					wg.Go(func() { resp.Body.Close() })
					wg.Wait()
				}
			})
		})
	}
}

func TestReadAfterClose(t *testing.T) {
	for _, proto := range []string{"", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				resp := w.open()
				for range 3 {
					if err := resp.Body.Close(); err != nil {
						w.Errorf("close: %v", err)
					}
				}
				if _, err := resp.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
					w.Errorf("read: %v", err)
				}
			})
		})
	}
}

func TestReadAfterEOFStaysAtEOF(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		resp := w.open()
		io.ReadAll(resp.Body)
		w.get() // the connection is somebody else's
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			w.Errorf("read: %d, %v", n, err)
		}
		if err := resp.Body.Close(); err != nil {
			w.Errorf("close: %v", err)
		}
		if n := w.conns.Load(); n != 1 {
			w.Errorf("%d connections", n)
		}
	})
}

func TestAnEventStreamIsNotDrained(t *testing.T) {
	stream := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	inWorld(t, plan{handler: stream, listen: true}, func(w *world) {
		resp := w.open()
		began := time.Now()
		resp.Body.Close()
		if took := time.Since(began); took != 0 {
			w.Errorf("close took %v", took)
		}
		w.closedAs(pool.ReasonUndrained, 1)
	})
}

// The usual deferred cancel comes before the deferred Close.
func TestACancelledBodyIsNotDrained(t *testing.T) {
	inWorld(t, plan{listen: true, handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, strings.Repeat("x", 4<<10))
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})}, func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		resp, _, err := w.pool.Do(w.request(ctx, "GET", ""), pool.Want{})
		if err != nil {
			w.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		w.closedAs(pool.ReasonError, 1)
		if e := w.told(pool.EventClosed)[0]; e.Detail != "canceled" || !errors.Is(e.Err, context.Canceled) {
			w.Errorf("event %+v", e)
		}
	})
}

func TestAnUnreadHTTP2BodyCostsItsStreamOnly(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	answer := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, big) })
	inWorld(t, plan{proto: "h2", handler: answer}, func(w *world) {
		for range 20 {
			resp := w.open()
			resp.Body.Close()
		}
		synctest.Wait()
		if st := w.sumsUp(); st.Created != 1 || st.Streams != 0 || st.Idle != 1 {
			w.Errorf("stats %+v", st)
		}
	})
}

func TestAResponseWithoutBodyFreesItsConnectionAtOnce(t *testing.T) {
	bare := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) })
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto, handler: bare, config: pool.Config{MaxConns: 1, MaxStreams: 1}}, func(w *world) {
				for _, method := range []string{"GET", "HEAD", "DELETE", "GET"} {
					resp, _, err := w.pool.Do(w.request(context.Background(), method, ""), pool.Want{})
					if err != nil {
						w.Fatal(err)
					}
					if resp.Body == nil {
						w.Error("no body")
					}
				}
				if n := w.conns.Load(); n != 1 {
					w.Errorf("%d connections", n)
				}
			})
		})
	}
}

func TestTheLastResponseOfAConnectionClosesIt(t *testing.T) {
	for name, answer := range map[string]string{
		"connection close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":         "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"until EOF":        "HTTP/1.1 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, plan{noServer: true}, func(w *world) {
				w.play(func(nc *memnet.Conn) {
					hears(bufio.NewReader(nc))
					io.WriteString(nc, answer)
				})
				w.get()
				w.get()
				w.closedAs(pool.ReasonServer, 2)
			})
		})
	}
}

func TestABrokenBodyTellsItsReader(t *testing.T) {
	inWorld(t, plan{noServer: true, listen: true}, func(w *world) {
		w.play(func(nc *memnet.Conn) {
			hears(bufio.NewReader(nc))
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		})
		resp := w.open()
		if b, err := io.ReadAll(resp.Body); string(b) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
			w.Errorf("read %q, %v", b, err)
		}
		resp.Body.Close()
		w.closedAs(pool.ReasonError, 1)
	})
}

func TestSwitchingProtocolsKeepsTheConnectionTheCallers(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{noServer: true, config: pool.Config{MaxConns: 1}}, func(w *world) {
				shout := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Upgrade") == "" {
						ok(rw, r)
						return
					}
					rw.Header().Set("Connection", "Upgrade")
					rw.Header().Set("Upgrade", "shout")
					rw.WriteHeader(http.StatusSwitchingProtocols)
					nc, brw, err := http.NewResponseController(rw).Hijack()
					if err != nil {
						w.Error(err)
						return
					}
					defer nc.Close()
					for {
						line, err := brw.ReadString('\n')
						if err != nil {
							io.WriteString(nc, "bye")
							return
						}
						io.WriteString(nc, strings.ToUpper(line))
					}
				})
				p := plan{proto: proto, handler: shout, listen: true, config: pool.Config{MaxConns: 1}}
				w.serve(p)
				w.pool.Close()
				w.pool = w.newPool(p)
				req := w.request(context.Background(), "GET", "")
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "shout")
				resp, info, err := w.pool.Do(req, pool.Want{HTTP1: true})
				if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || info.Proto() != "HTTP/1.1" {
					w.Fatalf("response %v, info %+v, error %v", resp, info, err)
				}
				rw := resp.Body.(io.ReadWriteCloser)
				io.WriteString(rw, "hello\n")
				if line, err := bufio.NewReader(rw).ReadString('\n'); line != "HELLO\n" {
					w.Errorf("read %q, %v", line, err)
				}
				if st := w.sumsUp(); st.Active != 1 {
					w.Errorf("stats %+v", st)
				}
				if err := rw.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					w.Errorf("CloseWrite: %v", err)
				}
				if b, err := io.ReadAll(rw); string(b) != "bye" {
					w.Errorf("read %q, %v", b, err)
				}
				if st := w.sumsUp(); st.Active != 1 {
					w.Errorf("EOF gave the connection back: %+v", st)
				}
				rw.Close()
				rw.Close()
				w.closedAs(pool.ReasonServer, 1)
				w.get()
			})
		})
	}
}
