package pool

import (
	"net/netip"
	"time"
)

// Never is the time of what did not happen.
const Never time.Duration = -1

// Want is what one request asks of its connection, beside being one.
type Want struct {
	Avoid      uint64 // id of a connection that must not be used, such as the one a retry has just failed on; 0 = none
	HTTP1      bool   // HTTP/1 only, as Upgrade needs; a sibling pool keeps such connections where HTTP/2 is possible
	Idempotent bool   // may be sent again although bytes of it were written

	// OwnContext says that the request's context belongs to this request alone, that it is cancelled when the body ends or
	// RoundTrip fails, and that whoever ends it before calls [Exchange.Cut] then. The pool need not listen to the context,
	// nor make one of its own so that nothing stays registered there, and may put another in its place in the request.
	OwnContext bool

	// Until is the end of the request's patience where its context does not tell, such as a time limit that ends it by cancelling.
	// It is asked only when the request has to wait. Nil = the context's deadline.
	Until interface{ Deadline() (time.Time, bool) }

	// OnConn runs on the caller's goroutine, outside locks, when a connection is in hand and nothing has been written yet.
	// It may still change the request's headers. It runs again before a resend. An error gives the connection back and is
	// what RoundTrip returns, as it is. Nil = nothing to do.
	OnConn func(Info) error
}

// The steps of setting a connection up. The first three index [Info.Setup] and [Event.Setup].
type StepName uint8

const (
	DNS     StepName = iota // address of the host, or of the proxy
	Connect                 // TCP
	TLS                     // every handshake, a proxy's included
	Proxy                   // what the proxy was asked to do; only in errors
)

func (s StepName) String() string {
	return [...]string{DNS: "dns", Connect: "connect", TLS: "tls", Proxy: "proxy"}[s]
}

// Step is whether a step happened, and the time it took. A step that took no measurable time did happen.
type Step struct {
	Happened bool
	Time     time.Duration
}

// Info is what is known of one request: complete when RoundTrip returns, valid beside an error too.
type Info struct {
	Conn     uint64        // id of the connection, unique within a Group; 0 = never had one
	Peer     *Peer         // of the connection; nil = never had one
	IdleTime time.Duration // how long it had been idle
	Age      time.Duration // since its dial ended

	// When things happened, after Start; negative = did not happen, which is [Never] unless somebody says otherwise. With a
	// resend they are those of the last send.
	Start   time.Time     // RoundTrip called
	InHand  time.Duration // connection in hand
	Wrote   time.Duration // last byte of the request written
	Headers time.Duration // response headers

	Acquire time.Duration // waiting for a connection, less Setup; sums over resends
	Setup   [3]Step       // DNS, Connect, TLS of a dial made for this caller, as far as it waited for it

	BytesWritten int64 // bytes of it written on all connections, headers and TLS included; on HTTP/2 those of its body
	Sends        uint8 // times the request was given to a connection
	Reused       bool  // the connection had carried a request before
	NeverSent    bool  // not one byte of it has left
}

// A Peer is what is at the other end of a connection. It is not changed.
type Peer struct {
	Remote netip.AddrPort
	Proto  string // "HTTP/1.1" or "HTTP/2.0"
}

// Remote is the peer's address; the zero value without a connection.
func (i *Info) Remote() netip.AddrPort {
	if i.Peer == nil {
		return netip.AddrPort{}
	}
	return i.Peer.Remote
}

// Proto is "HTTP/1.1" or "HTTP/2.0"; "" without a connection.
func (i *Info) Proto() string {
	if i.Peer == nil {
		return ""
	}
	return i.Peer.Proto
}
