package pool

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"
)

// Protocol says which HTTP versions a [Transport] may speak.
type Protocol uint8

const (
	Auto  Protocol = iota // https: HTTP/2 or HTTP/1.1, as ALPN decides; http: HTTP/1.1
	HTTP1                 // HTTP/1.1 only
	H2C                   // HTTP/2 without TLS, by prior knowledge
)

// Config describes one endpoint and the limits of its [Pool].
//
// In the limits, zero is the default named beside the field, and a negative value is "none" where the comment allows it.
// [Config.WithDefaults] is the one place where the defaults stand.
type Config struct {
	Transport *Transport // required; shared by the endpoints of one upstream and TLS identity

	Scheme string // "http" or "https"

	// Host is the logical host with its port, in ASCII: the address net/http is given, hence the source of the server
	// name, and what errors call this endpoint.
	Host string

	// Dial makes one socket. The address is Host, or the proxy's host and port when Proxy is set; a Dial that pins an
	// address ignores it. The context belongs to the dial: it ends after DialTimeout, carries no value of any caller, and
	// holds a trace whose DNS and Connect hooks time the steps, so it should reach a net.Dialer or something like it.
	// Dial may be called concurrently, and is never called with a lock held.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Watch follows the addresses of the host's name: it calls tell with the answer in hand and with every later one, in
	// order, until stop is called, after which no new call begins. It is called with the first dial, outside locks; Drain
	// and Close call stop. Connections to addresses that are gone are then replaced, a few at a time. Nil = the pool does
	// not follow DNS, as with a pinned address; with Proxy it never does.
	Watch func(tell func(Answer)) (stop func())

	Proxy *url.URL // http, https, socks5 or socks5h; nil = none

	MaxConns   int // open and dialling; default 256
	MaxIdle    int // idle connections kept; default MaxConns
	MinIdle    int // idle connections kept ready while the endpoint is in use, MaxIdle at most; default 0
	MaxStreams int // HTTP/2 streams per connection, or the server's limit where that is lower; default 100
	MaxWaiters int // callers waiting for a connection; default 1,024
	DialLimit  int // dials at a time; default 8

	MaxWait     time.Duration // longest wait for a connection; default 5 s; negative = as long as the context allows
	DialTimeout time.Duration // one dial with its handshake; default 5 s, 10 s with a Proxy
	IdleTimeout time.Duration // upper bound of the idle limit; default 30 s
	MaxAge      time.Duration // age limit, times U(0.9, 1.1) drawn per connection; default 5 min; negative = none

	DrainBytes int64         // what closing an unread body may still read; default 64 KiB; negative = nothing
	DrainTime  time.Duration // how long that may take; default 50 ms

	// OnEvent is told what happened: in order, never concurrently, outside every lock. It runs on whatever goroutine
	// caused the event, so it should return soon; it may call the pool, but for Drain and Close. Nil costs nothing.
	OnEvent func(Event)

	// ConnEvents leaves out what happens to requests: OnEvent is told of connections only, and a request over a connection
	// that is open costs nothing.
	ConnEvents bool
}

// Defaults returns a Config that holds every default and nothing else.
func Defaults() Config { return Config{}.WithDefaults() }

// WithDefaults returns c with its zero limits replaced by the defaults.
func (c Config) WithDefaults() Config {
	dial := 5 * time.Second
	if c.Proxy != nil {
		dial = 10 * time.Second // two connections and up to two handshakes
	}
	orDefault(&c.MaxConns, 256)
	orDefault(&c.MaxIdle, c.MaxConns)
	c.MinIdle = min(c.MinIdle, c.MaxIdle)
	orDefault(&c.MaxStreams, 100)
	orDefault(&c.MaxWaiters, 1024)
	orDefault(&c.DialLimit, 8)
	orDefault(&c.MaxWait, 5*time.Second)
	orDefault(&c.DialTimeout, dial)
	orDefault(&c.IdleTimeout, 30*time.Second)
	orDefault(&c.MaxAge, 5*time.Minute)
	orDefault(&c.DrainBytes, 64<<10)
	orDefault(&c.DrainTime, 50*time.Millisecond)
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// TransportConfig describes what the endpoints of one upstream and TLS identity share.
type TransportConfig struct {
	TLS        *tls.Config // cloned; nil = the default
	ServerName string      // certificate name; "" = the host of Config.Host
	Protocol   Protocol

	PingAfter   time.Duration // HTTP/2: silence after which a ping is sent; <= 0 = never
	PingTimeout time.Duration // HTTP/2: wait for its answer; <= 0 = net/http's 15 s
}

// GroupConfig bounds all pools of one client together.
type GroupConfig struct {
	MaxDials int // dials at a time; default 256
	MaxOpen  int // open connections; default min(8192, 3/4 of RLIMIT_NOFILE)
}
