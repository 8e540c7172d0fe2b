package pool_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sortie-go/sortie/internal/pool"
)

const proxyHost = "proxy.example:3128"

// tunnel joins two connections until both have ended.
func tunnel(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			io.Copy(way[0], way[1])
			way[0].Close()
		})
	}
	wg.Wait()
}

// proxyServer serves what a story needs of a proxy on proxyHost.
func (w *world) proxyServer(secure bool, h http.HandlerFunc) {
	l, err := w.net.Listen(proxyHost)
	if err != nil {
		w.Fatal(err)
	}
	s := &http.Server{Handler: h, ErrorLog: quiet}
	w.Cleanup(func() { s.Close() })
	if secure {
		s.TLSConfig = identity().server()
		s.TLSConfig.NextProtos = []string{"h2", "http/1.1"} // it would, if it were asked
		go s.ServeTLS(l, "", "")
		return
	}
	go s.Serve(l)
}

func (w *world) through(p plan, proxy string) {
	u, err := url.Parse(proxy)
	if err != nil {
		w.Fatal(err)
	}
	p.config.Proxy = u
	w.pool.Close()
	w.pool = w.newPool(p)
}

func TestPlainHTTPThroughAProxy(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		w.proxyServer(false, func(rw http.ResponseWriter, r *http.Request) {
			io.WriteString(rw, r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		})
		w.through(plan{}, "http://user:word@"+proxyHost)
		for range 3 {
			answer, _, err := w.send("GET", "", pool.Want{})
			if want := "http://" + host + "/ Basic dXNlcjp3b3Jk"; err != nil || answer != want {
				w.Errorf("answer %q, error %v", answer, err)
			}
		}
		if w.conns.Load() != 0 || w.dialed.Load() != 1 {
			w.Error("the proxy was not used, or not kept")
		}
	})
}

func TestHTTPSThroughAProxy(t *testing.T) {
	for _, proto := range []string{"tls", "h2"} {
		for _, secure := range []bool{false, true} {
			for _, name := range []string{"", "api.shop.example"} {
				t.Run(map[bool]string{true: "https", false: "http"}[secure]+" proxy, "+proto+", server name "+name, func(t *testing.T) {
					p := plan{proto: proto, transport: pool.TransportConfig{ServerName: name}}
					inWorld(t, p, func(w *world) {
						w.proxyServer(secure, func(rw http.ResponseWriter, r *http.Request) {
							if r.Method != "CONNECT" || r.Host != host || r.ProtoMajor != 1 {
								w.Errorf("the proxy saw %s %s %s", r.Method, r.Host, r.Proto)
							}
							if r.TLS != nil && r.TLS.ServerName != "proxy.example" {
								w.Errorf("the proxy was taken for %q", r.TLS.ServerName)
							}
							target, err := w.net.DialContext(context.Background(), "tcp", r.Host)
							if err != nil {
								w.Error(err)
								return
							}
							nc, _, _ := http.NewResponseController(rw).Hijack()
							io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\n")
							tunnel(nc, target)
						})
						w.through(p, map[bool]string{true: "https", false: "http"}[secure]+"://"+proxyHost)
						for range 3 {
							w.get()
						}
						if w.conns.Load() != 1 || w.dialed.Load() != 1 {
							w.Errorf("%d connections, %d dials", w.conns.Load(), w.dialed.Load())
						}
					})
				})
			}
		}
	}
}

func TestARefusedCONNECTIsADialErrorWithItsStatus(t *testing.T) {
	inWorld(t, plan{proto: "tls"}, func(w *world) {
		w.proxyServer(false, func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusProxyAuthRequired)
		})
		w.through(plan{proto: "tls"}, "http://"+proxyHost)
		_, _, err := w.send("POST", "body", pool.Want{})
		e := w.asError(err)
		refused, ok := errors.AsType[*pool.ProxyError](err)
		if e.Kind != pool.Dial || e.Step != pool.Proxy || !ok || refused.StatusCode != http.StatusProxyAuthRequired {
			w.Errorf("error %+v", e)
		}
		if st := w.sumsUp(); st.Dials.Failed[pool.Proxy] != 1 {
			w.Errorf("stats %+v", st.Dials)
		}
	})
}

func TestThroughASOCKSProxy(t *testing.T) {
	for _, proto := range []string{"", "tls", "h2"} {
		t.Run("proto="+proto, func(t *testing.T) {
			inWorld(t, plan{proto: proto}, func(w *world) {
				l, err := w.net.Listen(proxyHost)
				if err != nil {
					w.Fatal(err)
				}
				w.Cleanup(func() { l.Close() })
				var asked atomic.Value
				go func() {
					for {
						nc, err := l.Accept()
						if err != nil {
							return
						}
						go socks5(w, nc, &asked)
					}
				}()
				w.through(plan{proto: proto}, "socks5://"+proxyHost)
				for range 3 {
					w.get()
				}
				if asked.Load() != host || w.conns.Load() != 1 {
					w.Errorf("asked for %v, %d connections", asked.Load(), w.conns.Load())
				}
			})
		})
	}
}

// socks5 is RFC 1928 as far as a CONNECT to a name without authentication goes.
func socks5(w *world, nc net.Conn, asked *atomic.Value) {
	br := bufio.NewReader(nc)
	read := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(br, b)
		return b
	}
	read(int(read(2)[1]))
	nc.Write([]byte{5, 0})
	name := string(read(int(read(5)[4])))
	port := binary.BigEndian.Uint16(read(2))
	target, err := w.net.DialContext(context.Background(), "tcp", host)
	if err != nil || port != 443 {
		w.Errorf("port %d, error %v", port, err)
		nc.Close()
		return
	}
	asked.Store(name + ":443")
	nc.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	tunnel(nc, target)
}
