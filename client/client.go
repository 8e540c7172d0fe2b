package client

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/internal/ports"
	"github.com/sortie-go/sortie/metrics"
)

// A Client sends calls to upstreams. Make one with [New] and keep it for the life of the service: it owns the
// connections. It is safe for concurrent use. Whoever made it ends it, with [Client.Shutdown] or [Client.Close].
//
// A Client is an [http.RoundTripper] and can be used wherever one is wanted.
type Client struct {
	side     Side
	sideFrom string
	resolver *dnscache.Resolver
	proxy    func(*http.Request) (*url.URL, error)
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	onCall   func(Report)
	logger   *slog.Logger      // nil: slog.Default, asked when there is something to say
	metrics  *metrics.Metrics  // nil: off
	unrouted *metrics.Upstream // of calls that find no upstream

	setup       atomic.Pointer[setup] // in force
	reloading   sync.Mutex            // one Reload at a time
	configured  Side                  // Config.Side
	ownResolver bool
	removed     removed

	group      *pool.Group
	system     func() []ports.Preset // what this system allows
	ledger     *ports.Ledger
	calls      openCalls
	draining   atomic.Bool
	drainEnd   atomic.Int64 // when what began before Drain should have ended, in nanoseconds of the Unix epoch; 0 before Drain
	timers     timerPool
	background sync.WaitGroup // endpoints and upstreams that end, attempts beside others
	closing    chan struct{}  // closed when nothing is waited for any more
	stopping   stopping
}

var _ http.RoundTripper = (*Client)(nil)

// New returns a Client, or an error that names every mistake in cfg, each beginning with the path of its field. It dials
// nothing and starts no goroutine.
func New(cfg Config) (*Client, error) {
	var m mistakes
	side, from := detectSide(cfg.Side, &m)
	bases := cfg.validate(&m)
	if err := m.err(); err != nil {
		return nil, err
	}
	c := &Client{
		side: side, sideFrom: from, configured: cfg.Side,
		resolver: cfg.Resolver, proxy: cfg.Proxy, dial: cfg.Dial, onCall: cfg.OnCall, logger: cfg.Logger,
		metrics: cfg.Metrics, unrouted: cfg.Metrics.Upstream(""),
		group: pool.NewGroup(pool.GroupConfig{}), closing: make(chan struct{}),
		system: sync.OnceValue(portsHere), ledger: ports.New(),
	}
	if c.resolver == nil {
		c.resolver, c.ownResolver = &dnscache.Resolver{Metrics: cfg.Metrics}, true
	}
	c.setup.Store(c.setUp(cfg, bases, new(setup)))
	return c, nil
}

// Do sends a call and returns its response, as [Client.RoundTrip] does. It follows no redirects and keeps no cookies; for
// those use [Client.HTTP].
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.RoundTrip(req) }

// HTTP returns a new [http.Client] on top of c: with redirects, and cookies if you give it a Jar. Each redirect is a call
// of its own.
func (c *Client) HTTP() *http.Client { return &http.Client{Transport: c} }

// RoundTrip sends a call. It returns a response or an [*Error], never both. The request is only read, never changed; its
// body is closed on every path. The response's body is never nil and must be read to its end or closed; the call ends
// with it. The response's Request shows the logical URL, also when another one was sent.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	call := newCall(c, req)
	// A panic in a signer or a Transport of the user's goes on, but takes nothing with it.
	returned := false
	defer func() {
		if !returned {
			_ = call.fail(&failure{reason: ReasonPanic}) // the panic is what the caller gets
		}
	}()
	resp, err := c.send(call)
	if err != nil {
		f := err.(*failure)
		err = call.fail(f)
	}
	returned = true
	return resp, err
}

// send takes the call through route and the upstream's pipeline.
func (c *Client) send(call *call) (*http.Response, error) {
	err := c.route(call)
	call.measure()
	if err != nil {
		return nil, err
	}
	resp, err := call.up.send(call)
	if err != nil {
		return nil, err
	}
	call.deliver(resp)
	return resp, nil
}

// route finds the call's upstream, or the reason to refuse it: the first stage. A call that gets past it is open.
func (c *Client) route(call *call) error {
	req := call.req
	if err := checkRequest(req); err != nil {
		return &failure{reason: ReasonInvalidRequest, err: err}
	}
	host, err := hostPortOf(req.URL.Scheme, req.URL.Host)
	if err != nil {
		return &failure{reason: ReasonInvalidRequest, err: err}
	}
	for {
		call.up = c.setup.Load().find(host)
		switch {
		case call.up == nil:
			return &failure{reason: ReasonNoUpstream}
		case req.URL.Opaque != "" && !call.up.identity():
			return &failure{reason: ReasonInvalidRequest, err: errOpaque}
		}
		if req.Context().Err() != nil {
			return &failure{reason: contextErrReason(req.Context().Err()), err: context.Cause(req.Context())}
		}
		switch err := c.calls.begin(call); err {
		case nil:
			return nil
		case errRemoved: // this very moment, so the setup is another by now
		default:
			return &failure{reason: ReasonDraining, err: err}
		}
	}
}

// deliver makes the wire's response the caller's.
func (c *call) deliver(resp *http.Response) {
	if b := c.answer.endpoint.base; b != nil {
		b.mapBack(resp.Header, c.req.URL)
	}
	c.logical = *c.req.WithContext((*callView)(c))
	resp.Request = &c.logical
	upgraded := resp.StatusCode == http.StatusSwitchingProtocols

	c.mu.Lock()
	c.body = responseBody{call: c, inner: resp.Body}
	c.status, c.delivered = int32(resp.StatusCode), true
	now := c.watch.last // of the headers
	if c.up.learns() {
		c.limits.verdict = now + c.up.verdictAfter()
	}
	if upgraded {
		c.limits.end() // the connection lives as long as its two ends want
	}
	c.armLocked(now)
	ending := c.notedLocked().ending
	c.mu.Unlock()

	_, kept := resp.Body.(*discardedBody)
	switch w, writable := resp.Body.(io.Writer); {
	case resp.Body == http.NoBody, kept && ending != nil: // what is in memory needs no more time
		c.succeed()
	case upgraded && writable:
		resp.Body = &upgradedBody{&c.body, w}
	default:
		resp.Body = &c.body
		if ending != nil {
			c.abandon(c.contextReason(ending), ending)
		}
	}
}

// CloseIdleConnections closes the connections that carry no call now. Calls that run are not touched.
func (c *Client) CloseIdleConnections() {
	for _, up := range c.everyUpstream() {
		up.closeIdle()
	}
}
