package client

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/metrics"
)

// Config describes a Client. The zero value is a client without named upstreams: every host is called as it stands, over
// connections that are pooled well. [New] copies what it needs and reports every mistake at once; nothing in a Config may
// change while New reads it. [Client.Reload] puts another one in force; it says which fields cannot change.
type Config struct {
	// Resolver looks names up and remembers them. Nil: one of the client's own, with all defaults, which is closed with it.
	// One that is given stays the caller's, who may share it between clients, and must close it after them.
	Resolver *dnscache.Resolver

	// Metrics records what calls do, as OpenTelemetry measurements and spans. Nil is off, and free.
	Metrics *metrics.Metrics

	// Upstreams are the destinations this client knows by name. Empty: none.
	Upstreams []Upstream

	// Unlisted is the policy for hosts that no upstream lists. Its zero value has everything off, since the SDK above such
	// a client usually has its own timeouts and retries, and two layers of retries multiply.
	Unlisted Policy

	// MaxUnlisted bounds the hosts for which state is kept: unlisted ones, and those of each upstream without base URLs.
	// Beyond it the least recently used without open calls is forgotten. Zero means 256.
	MaxUnlisted int

	// Strict refuses hosts that no upstream lists, before any lookup, with [ErrNoUpstream]: the client is then an egress
	// allow-list. False: they are called under Unlisted.
	Strict bool

	// Guard, if not nil, also refuses private addresses for unlisted hosts and external bases; see [Guard]. Nil: only
	// link-local and metadata addresses are refused.
	Guard *Guard

	// Side says where this process runs. Zero ([AutoSide]): the environment variable SORTIE_SIDE ("internal" or
	// "external") if it is set, else Internal if KUBERNETES_SERVICE_HOST is set, else External. The environment is read
	// once, by New.
	Side Side

	// Proxy returns the proxy for a request, as in [http.Transport]: if Proxy is nil or returns a nil URL, there is none.
	// It is asked once per endpoint, with a GET of its base URL. [http.ProxyFromEnvironment] is a fit value.
	Proxy func(*http.Request) (*url.URL, error)

	// Dial makes the socket for one connection. The address has been resolved and has passed the guard, so it is an IP
	// address and a port. Nil: a [net.Dialer] with keep-alive. Set it for tests (an in-memory network), or tunnels. It may be called
	// concurrently; its context ends with the dial's time limit and carries nothing of any call.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DrainTimeout is how long after [Client.Drain] calls are expected to go on: a retry that would not fit is not made. Zero
	// means 10 s.
	DrainTimeout time.Duration

	// OnCall, if not nil, receives the final [Report] of every call, exactly once: when the body ends, or with the failure.
	// It runs outside all locks, on the goroutine that ended the call, so it should return soon; concurrent calls run it
	// concurrently.
	OnCall func(Report)

	// Logger receives the few lines that the client has to say by itself, as it can say them nowhere else in time: that the
	// ports to a destination run short, see [Ports]. That is at most one line a minute and destination; calls are never
	// logged. Nil: [slog.Default]. For silence use slog.New(slog.DiscardHandler). It is called outside all locks, before a
	// connect.
	Logger *slog.Logger
}

// Upstream is a logical destination: the names by which callers know it, and the base URLs where it lives.
type Upstream struct {
	// Name is required: unique, lower case, at most 63 characters of a-z, 0-9, '.', '_' and '-', beginning with a letter
	// or digit. It stands in reports and metrics.
	Name string

	// Hosts are the hosts of request URLs that mean this upstream. Required. Four forms: "api.shop.example" (any port),
	// "api.shop.example:8443" (that port only; 80 or 443 where the URL has none), "*.shop.example" (one or more labels in
	// front, not the apex itself) and "*" (everything). Exact hosts win over wildcards, longer suffixes over shorter ones,
	// then forms with a port over forms without.
	Hosts []string

	// Internal and External are base URLs, such as "http://catalog.shop.svc.cluster.local:8080". A call on the internal
	// side uses Internal; one on the external side uses External; if only one list is given it serves both sides. With
	// neither the URL of the request is used as it is. The first base of a list that is
	// available is used, unless Policy.Balance spreads calls over all of them.
	Internal []string
	External []string

	// SpillFactor says when calls from the internal side spill to External: by how much more than its share an available
	// endpoint can bear, so that with 1.4 they do when less than 72 % of the internal endpoints are available, in part and by
	// degrees (Envoy's rule). Zero means 1.4 where both lists are given; −1 is never. It rests on what Breaker and Eject find
	// out; without them only a name that does not resolve spills.
	SpillFactor float64

	// PreserveHost sends the logical host in the Host header, not the base's. It does not change the server name of TLS.
	PreserveHost bool

	// ServerName is the name for TLS: sent as SNI, and checked against the certificate. Empty: the base's host.
	ServerName string

	// Policy says how calls are protected and pooled. The zero value has everything off but the connection pool.
	Policy Policy

	// Signer, if not nil, signs each attempt when everything else about it is final.
	Signer Signer

	// Transport, if not nil, sends the requests instead of the client's own connection pool. It gets a request of its own,
	// already rewritten for the chosen base. The client does not close it.
	Transport http.RoundTripper
}

// Guard refuses addresses to which a request from outside should never lead: loopback, private (RFC 1918, fc00::/7),
// shared (100.64.0.0/10), unspecified and multicast ones, also inside IPv4-mapped and NAT64 (64:ff9b::/96) addresses. It
// applies to unlisted hosts and to external bases; internal bases and upstreams without bases were named by you. It is
// checked on the resolved address, when an endpoint is made and at every dial, so DNS rebinding gains nothing.
//
// Link-local and metadata addresses are refused with or without a Guard, unless a base or a host of the upstream is that
// very address. The zero value allows no exception.
type Guard struct {
	Allow []netip.Prefix // addresses that are permitted all the same
}

// A Signer adds credentials to a request. Package creds has signers for AWS (SigV4) and bearer tokens.
//
// Sign gets the attempt's own request, after routing, with the URL, host, headers and body that will be sent. It may
// change all of them. An error ends the call with [ReasonCredential]; nothing has been sent then. Sign is called concurrently.
//
// Three more methods are used where a Signer has them. Validate() error is called by [New], which reports what it returns.
// Prepare(context.Context, *http.Request) (context.Context, error) is called once per call, with the caller's request, which it
// may only read; Sign sees the values of the context that it returns. Observe(context.Context, *http.Request, *http.Response)
// bool is called with each response: true means that the identity or date which was rejected has been replaced, and the call
// is made once more, if its body can be sent again and the budget allows it.
type Signer interface {
	Sign(ctx context.Context, req *http.Request) error
}

type preparer interface {
	Prepare(ctx context.Context, req *http.Request) (context.Context, error)
}

type observer interface {
	Observe(ctx context.Context, req *http.Request, resp *http.Response) bool
}
