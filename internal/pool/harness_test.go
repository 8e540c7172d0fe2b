package pool_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
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

const host = "api.shop.example:443"

// A world is a network in a bubble, with one server and one pool in it.
type world struct {
	*testing.T
	net    *memnet.Network
	group  *pool.Group
	pool   *pool.Pool
	server *http.Server
	dials  atomic.Int32 // running
	dialed atomic.Int32 // ever
	most   atomic.Int32 // dials at a time
	conns  atomic.Int32 // accepted by the server

	mu     sync.Mutex
	events []pool.Event
}

// A plan says what the world is like; its zero value is a plain HTTP/1 server.
type plan struct {
	config    pool.Config
	transport pool.TransportConfig
	group     pool.GroupConfig
	handler   http.Handler
	proto     string // "", "tls", "h2", "h2c"
	noServer  bool
	listen    bool // record events
	server    func(*http.Server)
}

// inWorld runs a story in a bubble. When it is over the pool is closed, and the bubble sees to it that nothing is left.
func inWorld(t *testing.T, p plan, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: memnet.New()}
		if !p.noServer {
			w.serve(p)
		}
		w.group = pool.NewGroup(p.group)
		w.pool = w.newPool(p)
		defer w.end()
		story(w)
	})
}

func (w *world) end() {
	w.pool.Close()
	w.group.Close()
	if st := w.sumsUp(); st.Open != 0 || st.Dialing != 0 || st.Waiting != 0 {
		w.Errorf("after Close: %+v", st)
	}
	if w.server != nil {
		w.server.Close()
	}
	time.Sleep(time.Hour) // of virtual time: handlers and actors end
}

func (w *world) newPool(p plan) *pool.Pool {
	cfg := p.config
	if p.proto == "tls" || p.proto == "h2" {
		p.transport.TLS = identity().client(p.transport.TLS)
		cfg.Scheme = "https"
	}
	if p.proto == "tls" && p.transport.Protocol == pool.Auto {
		p.transport.Protocol = pool.HTTP1
	}
	if p.proto == "h2c" {
		p.transport.Protocol = pool.H2C
	}
	if cfg.Scheme == "" {
		cfg.Scheme = "http"
	}
	if cfg.Host == "" {
		cfg.Host = host
	}
	if cfg.Dial == nil {
		cfg.Dial = w.dial
	}
	if p.listen {
		cfg.OnEvent = w.note
	}
	cfg.Transport = pool.NewTransport(p.transport)
	return w.group.New(cfg)
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.dialed.Add(1)
	now := w.dials.Add(1)
	defer w.dials.Add(-1)
	for most := w.most.Load(); now > most && !w.most.CompareAndSwap(most, now); most = w.most.Load() {
	}
	return w.net.DialContext(ctx, network, address)
}

func (w *world) note(e pool.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// told returns the events of a kind so far; 0 = all.
func (w *world) told(kind pool.EventKind) []pool.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []pool.Event
	for _, e := range w.events {
		if kind == 0 || e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

func (w *world) serve(p plan) {
	w.Helper()
	l, err := w.net.Listen(host)
	if err != nil {
		w.Fatal(err)
	}
	if p.handler == nil {
		p.handler = http.HandlerFunc(ok)
	}
	w.server = &http.Server{Handler: p.handler, ErrorLog: quiet, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.conns.Add(1)
		}
	}}
	w.server.Protocols = new(http.Protocols)
	switch p.proto {
	case "h2":
		w.server.Protocols.SetHTTP2(true)
		w.server.Protocols.SetHTTP1(true)
	case "h2c":
		w.server.Protocols.SetUnencryptedHTTP2(true)
	default:
		w.server.Protocols.SetHTTP1(true)
	}
	if p.server != nil {
		p.server(w.server)
	}
	if p.proto == "tls" || p.proto == "h2" {
		w.server.TLSConfig = identity().server()
		go w.server.ServeTLS(l, "", "")
		return
	}
	go w.server.Serve(l)
}

func ok(rw http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(rw, "ok")
}

// send is one request, its body read to the end.
func (w *world) send(method, body string, want pool.Want) (string, pool.Info, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return w.sendIn(ctx, method, body, want)
}

func (w *world) sendIn(ctx context.Context, method, body string, want pool.Want) (string, pool.Info, error) {
	resp, info, err := w.pool.Do(w.request(ctx, method, body), want)
	if err != nil {
		return "", info, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), info, err
}

func (w *world) request(ctx context.Context, method, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = streamed{strings.NewReader(body)}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+"/", r)
	if err != nil {
		panic(err)
	}
	req.ContentLength = int64(len(body))
	return req
}

// get must succeed.
func (w *world) get() pool.Info {
	w.Helper()
	answer, info, err := w.send("GET", "", pool.Want{})
	if err != nil {
		w.Fatalf("GET: %v", err)
	}
	if answer == "" {
		w.Fatal("GET: empty answer")
	}
	return info
}

// open is a request whose body is left open.
func (w *world) open() *http.Response {
	w.Helper()
	resp, _, err := w.pool.Do(w.request(context.Background(), "GET", ""), pool.Want{})
	if err != nil {
		w.Fatalf("GET: %v", err)
	}
	return resp
}

// sumsUp checks the arithmetic that must hold at any moment.
func (w *world) sumsUp() pool.Stats {
	w.Helper()
	st := w.pool.Stats()
	closed := uint64(0)
	for _, n := range st.Closed {
		closed += n
	}
	if st.Created != uint64(st.Open)+closed {
		w.Errorf("created %d != open %d + closed %d", st.Created, st.Open, closed)
	}
	if st.Open != st.Active+st.Idle+st.Retiring {
		w.Errorf("open %d != active %d + idle %d + retiring %d", st.Open, st.Active, st.Idle, st.Retiring)
	}
	return st
}

// closedAs expects the connections closed so far to have been closed for one reason.
func (w *world) closedAs(reason pool.Reason, n uint64) {
	w.Helper()
	synctest.Wait()
	st := w.sumsUp()
	for r, got := range st.Closed {
		want := uint64(0)
		if pool.Reason(r) == reason {
			want = n
		}
		if got != want {
			w.Errorf("closed as %s: %d, want %d", pool.Reason(r), got, want)
		}
	}
}

// asError is the pool's error, which every error must be.
func (w *world) asError(err error) *pool.Error {
	w.Helper()
	e, ok := errors.AsType[*pool.Error](err)
	if !ok {
		w.Fatalf("error %T %v, want *pool.Error", err, err)
	}
	return e
}

var quiet = log.New(io.Discard, "", 0)

// play lets every connection to the server be one actor's: for servers that misbehave.
func (w *world) play(actor func(nc *memnet.Conn)) {
	w.Helper()
	l, err := w.net.Listen(host)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			w.conns.Add(1)
			go func() {
				defer nc.Close()
				actor(nc.(*memnet.Conn))
			}()
		}
	}()
}

// hears reads one request, which it returns without its body; false = the connection is over.
func hears(br *bufio.Reader) (*http.Request, bool) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err == nil
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

type (
	netConn  = net.Conn
	dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)
)

func idleTimeout(d time.Duration) func(*http.Server) {
	return func(s *http.Server) { s.IdleTimeout = d }
}

// streamed hides that a reader could be made again.
type streamed struct{ io.Reader }

// certificates for api.shop.example and proxy.example, made once.
type certificates struct {
	cert tls.Certificate
	pool *x509.CertPool
}

var identity = sync.OnceValue(func() *certificates {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		DNSNames:              []string{"api.shop.example", "proxy.example"},
		NotBefore:             time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), // bubbles begin in 2000
		NotAfter:              time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &certificates{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool: roots}
})

func (c *certificates) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.cert}}
}

func (c *certificates) client(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{}
	}
	base.RootCAs = c.pool
	return base
}
