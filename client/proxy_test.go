package client_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// A proxied world: a proxy at 10.9.9.9:3128, which is the only way to anywhere else.
type proxied struct {
	*sortietest.Network
	t *testing.T

	mu   sync.Mutex
	seen []string // method and target of what the proxy was asked
}

func newProxied(t *testing.T) *proxied {
	w := &proxied{Network: sortietest.NewNetwork(), t: t}
	ln, err := w.Listen("10.9.9.9:3128")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: w}
	var serving sync.WaitGroup
	serving.Go(func() { srv.Serve(ln) })
	t.Cleanup(func() {
		srv.Close()
		serving.Wait()
	})
	return w
}

// ServeHTTP is the proxy.
func (w *proxied) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.seen = append(w.seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	w.mu.Unlock()
	if r.Method != http.MethodConnect {
		io.WriteString(rw, "by proxy")
		return
	}
	there, err := w.DialContext(r.Context(), "tcp", r.RequestURI)
	if err != nil {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		w.t.Error(err)
		return
	}
	io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
		ways.Go(func() {
			io.Copy(way[0], way[1])
			way[0].Close()
		})
	}
	ways.Wait()
}

func (w *proxied) client(change func(*client.Config)) *client.Client {
	proxy := &url.URL{Scheme: "http", Host: "10.9.9.9:3128", User: url.UserPassword("user", "secret")}
	cfg := client.Config{
		Dial: w.DialContext, Proxy: http.ProxyURL(proxy),
		Unlisted: client.Policy{Conns: &client.Conns{TLS: sortietest.ClientTLS()}},
	}
	change(&cfg)
	return newClient(w.t, cfg)
}

const proxyAuthorization = "Basic dXNlcjpzZWNyZXQ=" // user:secret

func TestPlainHTTPGoesToTheProxyWithItsWholeURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newProxied(t)
		c := w.client(func(*client.Config) {})
		if got := readAll(t, get(t, c, "http://nowhere.example/x?q=1")); got != "by proxy" { // its name is the proxy's to resolve
			t.Errorf("read %q", got)
		}
		if len(w.seen) != 1 || w.seen[0] != "GET http://nowhere.example/x?q=1 "+proxyAuthorization {
			t.Errorf("the proxy was asked %q", w.seen)
		}
	})
}

func TestHTTPSGoesThroughTheProxysTunnel(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newProxied(t)
			server := &sortietest.Upstream{Network: w.Network, Address: "10.0.0.1:443", TLS: true, HTTP2: http2, Hosts: []string{"10.0.0.1"},
				Steps: []sortietest.Step{sortietest.OK("hello")}}
			server.Start(t)
			c := w.client(func(cfg *client.Config) {
				cfg.Upstreams = []client.Upstream{{Name: "up", Hosts: []string{"up.example"}, External: []string{"https://10.0.0.1"}, Policy: cfg.Unlisted}}
			})
			resp := get(t, c, up)
			if got := readAll(t, resp); got != "hello" || resp.ProtoMajor == 2 != http2 {
				t.Errorf("read %q over %s", got, resp.Proto)
			}
			if len(w.seen) != 1 || w.seen[0] != "CONNECT 10.0.0.1:443 "+proxyAuthorization {
				t.Errorf("the proxy was asked %q", w.seen)
			}
			if got := server.Requests()[0].Header.Get("Proxy-Authorization"); got != "" {
				t.Errorf("the server was told %q", got)
			}
		})
	}
}

func TestAProxyThatCannotReachTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newProxied(t)
		c := w.client(func(*client.Config) {})
		_, err := c.Do(newRequest(t, t.Context(), "POST", "https://10.0.0.1/", strings.NewReader("body")))
		if client.ReasonOf(err) != client.ReasonConnectFailed || !client.NeverSent(err) {
			t.Errorf("%v: %v", client.ReasonOf(err), err)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), proxyAuthorization) {
			t.Errorf("text: %v", err)
		}
	})
}

func TestAProxyFunctionThatPanicsHangsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whoever hangs fails the bubble
		asked := 0
		c := newLab(t).client(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams = nil
			cfg.Proxy = func(*http.Request) (*url.URL, error) {
				if asked++; asked == 1 {
					panic("bad script")
				}
				return nil, nil
			}
		})
		ignoringPanics(func() { c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil)) })
		if _, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil)); client.ReasonOf(err) != client.ReasonConnectRefused {
			t.Errorf("the next call: %v", err)
		}
		settled(t, c)
	})
}

// badProxy fails as a function does that parses what it was configured with.
func badProxy(*http.Request) (*url.URL, error) {
	configured := strings.Join([]string{"http://user:secret@proxy", "bad"}, ":") // where no linter finds that it does not parse
	return url.Parse(configured)
}

func TestAProxyFunctionThatFailsIsNamedAndAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		bad := true
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams = nil
			cfg.Proxy = func(r *http.Request) (*url.URL, error) {
				if bad {
					return badProxy(r)
				}
				return nil, nil
			}
		})
		_, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.0.0.1/", nil))
		if client.ReasonOf(err) != client.ReasonConnectFailed || errors.Is(err, client.ErrDenied) || !client.NeverSent(err) {
			t.Errorf("%v: %v", client.ReasonOf(err), err)
		}
		if text := err.Error(); !strings.Contains(text, "choosing a proxy: invalid port") || strings.Contains(text, "secret") {
			t.Errorf("text: %v", err)
		}
		bad = false
		if got := readAll(t, get(t, c, "http://10.0.0.1/")); got != "hello" {
			t.Errorf("read %q", got)
		}
	})
}

func TestAProxyFunctionThatFailsForABaseIsAMistake(t *testing.T) {
	_, err := client.New(client.Config{Proxy: badProxy, Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, Internal: []string{"http://10.0.0.1"},
	}}})
	if err == nil || !strings.HasPrefix(err.Error(), "Upstreams[0].Internal[0]: choosing a proxy: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("New says %v", err)
	}
}
