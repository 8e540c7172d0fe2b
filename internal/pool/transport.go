package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// writeByteTimeout ends an HTTP/2 connection that takes no byte for so long.
const writeByteTimeout = 10 * time.Second

// Transport is what the endpoints of one upstream and TLS identity share: a tls.Config, its session cache, and the settings
// of net/http. It opens connections and never sends a request. Safe for concurrent use; it holds nothing to be closed.
type Transport struct {
	cfg  TransportConfig
	tls  *tls.Config
	http *http.Transport
	h1   func() *Transport // the same, for HTTP/1 only
}

// NewTransport returns a Transport. The config is copied, its TLS field cloned.
func NewTransport(cfg TransportConfig) *Transport {
	conf := &tls.Config{}
	if cfg.TLS != nil {
		conf = cfg.TLS.Clone()
	}
	if cfg.ServerName != "" {
		conf.ServerName = cfg.ServerName
	}
	if conf.ClientSessionCache == nil && !conf.SessionTicketsDisabled {
		conf.ClientSessionCache = tls.NewLRUClientSessionCache(64)
	}
	return newTransport(cfg, conf)
}

func newTransport(cfg TransportConfig, conf *tls.Config) *Transport {
	t := &Transport{cfg: cfg, tls: conf}
	t.h1 = sync.OnceValue(func() *Transport {
		cfg := cfg
		cfg.Protocol = HTTP1
		return newTransport(cfg, conf)
	})
	own := conf.Clone() // net/http edits NextProtos
	if cfg.Protocol == HTTP1 {
		own.NextProtos = slices.DeleteFunc(slices.Clone(own.NextProtos), func(p string) bool { return p == "h2" })
	}
	t.http = &http.Transport{
		// What is zero here stays zero: limits and idle times are the pool's. See the table in doc.go.
		Proxy:                  proxyOf,
		DialContext:            dialSocket,
		TLSClientConfig:        own,
		Protocols:              cfg.Protocol.protocols(),
		ExpectContinueTimeout:  time.Second,
		OnProxyConnectResponse: proxyAnswer,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  max(cfg.PingAfter, 0),
			PingTimeout:      max(cfg.PingTimeout, 0),
			WriteByteTimeout: writeByteTimeout,
		},
	}
	return t
}

func (p Protocol) protocols() *http.Protocols {
	set := new(http.Protocols)
	switch p {
	case Auto:
		set.SetHTTP1(true)
		set.SetHTTP2(true)
	case HTTP1:
		set.SetHTTP1(true)
	case H2C:
		set.SetUnencryptedHTTP2(true)
	}
	return set
}

// mayBeHTTP2 reports whether a connection for this scheme can turn out to be HTTP/2.
func (t *Transport) mayBeHTTP2(scheme string) bool {
	return t.cfg.Protocol == H2C || t.cfg.Protocol == Auto && scheme == "https"
}

// dialKey carries the dial through net/http, which calls both functions below with the context it was given.
type dialKey struct{}

// proxyOf returns the proxy of the dial, and never one for the request, which net/http has made up. To net/http a proxy
// behind TLS is a plain one: see dialSocket.
func proxyOf(req *http.Request) (*url.URL, error) {
	proxy := req.Context().Value(dialKey{}).(*dialing).pool.cfg.Proxy
	if proxy == nil || proxy.Scheme != "https" {
		return proxy, nil
	}
	plain := *proxy
	plain.Scheme = "http"
	plain.Host = proxyAddress(proxy)
	return &plain, nil
}

// dialSocket opens the socket. TLS to a proxy is spoken here, as net/http would use the upstream's server name for it, and
// offer it HTTP/2, over which it cannot CONNECT.
func dialSocket(ctx context.Context, network, address string) (net.Conn, error) {
	d := ctx.Value(dialKey{}).(*dialing)
	nc, err := d.socket(ctx, network, address)
	if err != nil || d.pool.cfg.Proxy == nil || d.pool.cfg.Proxy.Scheme != "https" {
		return nc, err
	}
	conf := d.pool.transport.tls.Clone()
	conf.ServerName = d.pool.cfg.Proxy.Hostname()
	conf.NextProtos = nil
	tc := tls.Client(nc, conf)
	d.enter(TLS)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	d.enter(Proxy)
	return tc, nil
}

func proxyAddress(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// ProxyError is a proxy's refusal to CONNECT.
type ProxyError struct {
	StatusCode int
	Status     string // "407 Proxy Authentication Required"
}

func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy refused to connect: %s", e.Status) }

func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &ProxyError{StatusCode: resp.StatusCode, Status: resp.Status}
}

// A streamError has the fields of net/http's HTTP/2 stream error, which fills any such struct through errors.As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

const refusedStream = 7 // RFC 9113 section 7

// streamRefused reports whether err is a stream the server refused, so that it processed nothing (RFC 9113 section 8.7).
func streamRefused(err error) bool {
	var se streamError
	return errors.As(err, &se) && se.Code == refusedStream
}
