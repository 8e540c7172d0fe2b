package sortietest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Upstream is a scripted HTTP server. [NewUpstream] and [Network.NewUpstream] start the usual kind; for anything else
// fill in the fields, none of which is required, and call [Upstream.Start]:
//
//	up := &sortietest.Upstream{TLS: true, HTTP2: true, Steps: []sortietest.Step{sortietest.OK("hello")}}
//	up.Start(t)
//
// The zero Upstream, started, answers every request with 200. The fields must not change after the start, and before it
// the methods do nothing. They may be called from several goroutines at once.
type Upstream struct {
	// Steps says what happens to the first request to arrive, the second, and so on; the last step repeats.
	// Without steps every request gets the zero [Step].
	Steps []Step

	// Respond, if not nil, decides for each request, and Steps must be empty. It runs before the request body is
	// read, and may read it. It may be called from several goroutines at once.
	Respond func(*http.Request) Step

	// Network is where to listen; nil is the loopback interface of this machine.
	Network *Network

	// Address is the "host:port" to listen on. Empty is "127.0.0.1:0": any free port.
	Address string

	// TLS makes it an https server. Its certificate is issued for whatever name the client asks for, or for
	// Hosts alone if there are any, by an authority which [RootCAs] and [ClientTLS] trust and nobody else does.
	TLS   bool
	Hosts []string

	// HTTP2 adds HTTP/2 to HTTP/1.1: negotiated under TLS, by prior knowledge (h2c) without.
	HTTP2 bool

	// MaxStreams is how many HTTP/2 requests one connection may carry at a time; zero is net/http's default.
	MaxStreams int

	// IdleTimeout closes connections that have been idle that long; zero is never.
	IdleTimeout time.Duration

	// RequestsPerConn closes each connection, unannounced, when it becomes idle after that many requests; zero is
	// never. With StaleReuse the connection stays open until one more request arrives, and is closed in that
	// moment, unanswered: the race every client with keep-alive has to survive. The upstream never saw such a
	// request: it is in no count, and takes no step.
	RequestsPerConn int
	StaleReuse      bool

	// KeepBody is how many bytes of each request's body are kept in its record; zero is 64 KiB, -1 none.
	KeepBody int

	tb      TB // nil after Listen
	addr    net.Addr
	srv     *http.Server
	cancel  context.CancelFunc // of all requests
	turn    chan struct{}      // holds one token while Refuse, BlackHole or Restore is at work
	serving sync.WaitGroup     // accepting, connections, requests

	mu       sync.Mutex
	ln       *gate // nil while refusing
	closed   bool
	step     int // next one of steps
	steps    []Step
	respond  func(*http.Request) Step
	conns    map[*conn]struct{}
	clients  []*http.Transport
	journal  journal
	failures []error
}

// NewUpstream starts an upstream on a free port of the loopback interface, which is closed when the test ends.
func NewUpstream(tb TB, steps ...Step) *Upstream {
	tb.Helper()
	u := &Upstream{Steps: steps}
	u.Start(tb)
	return u
}

// Start listens and serves until the test ends or [Upstream.Close] is called. If it cannot, the test fails at once.
func (u *Upstream) Start(tb TB) {
	tb.Helper()
	if err := u.Listen(); err != nil {
		tb.Fatalf("sortietest: %v", err)
		return
	}
	u.mu.Lock()
	u.tb = tb
	u.mu.Unlock()
	tb.Cleanup(func() {
		if err := u.Close(); err != nil {
			tb.Errorf("sortietest: %v", err)
		}
	})
}

// Listen is [Upstream.Start] for programs and for TestMain, where no test is at hand: the caller closes.
func (u *Upstream) Listen() error {
	if err := u.mistakes(); err != nil {
		return err
	}
	ln, err := u.Network.listen(u.Address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close, as requests belong to the upstream
	u.addr, u.cancel = ln.Addr(), cancel
	u.turn = make(chan struct{}, 1)
	u.conns = make(map[*conn]struct{})
	u.steps, u.respond = u.Steps, u.Respond
	u.journal.stats.ByRoute = make(map[string]int)
	if u.journal.keepBody = max(u.KeepBody, 0); u.KeepBody == 0 {
		u.journal.keepBody = defaultKeepBody
	}
	u.srv = u.server(ctx)
	u.serve(ln)
	return nil
}

// mistakes returns all that is wrong with the fields.
func (u *Upstream) mistakes() error {
	var errs []error
	for _, m := range []struct {
		wrong bool
		text  string
	}{
		{u.srv != nil, "Upstream is started already"},
		{u.Respond != nil && len(u.Steps) > 0, "Upstream.Steps has no effect beside Respond"},
		{u.StaleReuse && u.RequestsPerConn <= 0, "Upstream.StaleReuse has no effect without RequestsPerConn"},
		{len(u.Hosts) > 0 && !u.TLS, "Upstream.Hosts has no effect without TLS"},
		{u.MaxStreams > 0 && !u.HTTP2, "Upstream.MaxStreams has no effect without HTTP2"},
	} {
		if m.wrong {
			errs = append(errs, errors.New(m.text))
		}
	}
	return errors.Join(errs...)
}

func (u *Upstream) server(ctx context.Context) *http.Server {
	srv := &http.Server{
		Handler:     http.HandlerFunc(u.handle),
		Protocols:   new(http.Protocols),
		IdleTimeout: u.IdleTimeout,
		ErrorLog:    log.New(io.Discard, "", 0), // it complains of broken connections, which are our trade
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, unwrap(nc))
		},
		ConnState: u.track,
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(u.HTTP2 && u.TLS)
	srv.Protocols.SetUnencryptedHTTP2(u.HTTP2 && !u.TLS)
	if u.MaxStreams > 0 {
		srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: u.MaxStreams}
	}
	if u.TLS {
		srv.TLSConfig = serverTLS(u.Hosts)
	}
	return srv
}

// Close closes the port and all connections, ends requests that hang, and waits until nothing of the upstream runs
// any more. It returns what [Upstream.BlackHole] and [Upstream.Restore] could not do, unless a test was told of that.
// Closing again, or closing what was never started, does nothing.
func (u *Upstream) Close() error {
	if u.srv == nil {
		return nil
	}
	u.mu.Lock()
	first, ln := !u.closed, u.ln
	u.closed = true
	clients := u.clients
	err := errors.Join(u.failures...)
	u.mu.Unlock()

	if first {
		if ln != nil {
			ln.Close()
		}
		u.Network.Restore(u.Addr()) // dials that hang are now refused
		for _, c := range u.open() {
			c.Close() // before net/http, which would wait for TLS to say farewell
		}
		u.srv.Close()
		u.cancel() // after the connections, so that no handler still answers
	}
	u.serving.Wait()
	for _, tr := range clients {
		tr.CloseIdleConnections()
	}
	return err
}

// Play replaces the script, Respond too: the next request gets the first of steps.
func (u *Upstream) Play(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.steps, u.step, u.respond = steps, 0, nil
}

// Addr returns the "host:port" it listens on, with the host as given in Address and the port as found.
func (u *Upstream) Addr() string {
	if u.addr == nil {
		return ""
	}
	_, port, _ := net.SplitHostPort(u.addr.String())
	host, _, _ := net.SplitHostPort(u.Address)
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// URL returns the base URL, without a slash at the end: "http://127.0.0.1:34567". Ports 80 and 443 are left out where
// they are the scheme's own.
func (u *Upstream) URL() string {
	if u.addr == nil {
		return ""
	}
	scheme, own := "http", "80"
	if u.TLS {
		scheme, own = "https", "443"
	}
	addr := u.Addr()
	if host, port, _ := net.SplitHostPort(addr); port == own {
		addr = strings.TrimSuffix(net.JoinHostPort(host, ""), ":")
	}
	return scheme + "://" + addr
}

// Client returns a new http.Client that reaches the upstream: over its Network, trusting its certificate, and by
// HTTP/2 if the upstream speaks it. Its idle connections are closed with the upstream. For the other end of a test
// about transports, take the parts instead: [ClientTLS] and [Network.DialContext].
func (u *Upstream) Client() *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: ClientTLS()}
	if u.Network != nil {
		tr.DialContext = u.Network.DialContext
	}
	tr.Protocols.SetHTTP1(!u.HTTP2)
	tr.Protocols.SetHTTP2(u.HTTP2 && u.TLS)
	tr.Protocols.SetUnencryptedHTTP2(u.HTTP2 && !u.TLS)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clients = append(u.clients, tr)
	return &http.Client{Transport: tr}
}
