package sortietest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// resolverPrimed makes package net set up its resolver before any test can enter a synctest bubble. It keeps a channel
// for the life of the process (net.resolverConfig), made at the first lookup; if that happens inside a bubble, the
// channel belongs to the bubble, and the first lookup in the next one ends the program. No packet is sent.
var resolverPrimed = primeResolver()

func primeResolver() bool {
	nowhere := errors.New("no network wanted")
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nowhere }}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := r.LookupNetIP(ctx, "ip4", "sortietest.invalid.")
	return err != nil
}

// dialStream connects a pipe to a goroutine that serves it until the client closes its end.
func (d *DNS) dialStream(local, remote netip.AddrPort) net.Conn {
	client, server := net.Pipe()
	closed := make(chan struct{})
	go d.serveStream(server, local, closed)
	return &dnsStream{Conn: client, closed: closed, ends: ends{net.TCPAddrFromAddrPort(local), net.TCPAddrFromAddrPort(remote)}}
}

// ends are the addresses of a connection in memory.
type ends struct{ local, remote net.Addr }

func (e ends) LocalAddr() net.Addr  { return e.local }
func (e ends) RemoteAddr() net.Addr { return e.remote }

type dnsStream struct {
	net.Conn
	ends
	once   sync.Once
	closed chan struct{} // ends the server's pauses
}

func (c *dnsStream) LocalAddr() net.Addr  { return c.ends.LocalAddr() }
func (c *dnsStream) RemoteAddr() net.Addr { return c.ends.RemoteAddr() }

func (c *dnsStream) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// dnsPacketConn is the client's end of a connected UDP socket in memory.
type dnsPacketConn struct {
	ends
	dns    *DNS
	from   netip.AddrPort
	in     chan []byte
	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	deadline time.Time
	moved    chan struct{} // closed when the deadline is set anew
}

func newDNSPacketConn(d *DNS, local, remote netip.AddrPort) *dnsPacketConn {
	return &dnsPacketConn{
		ends: ends{net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(remote)},
		dns:  d, from: local,
		in:     make(chan []byte, 16), // a socket's buffer; what does not fit is lost, as there
		closed: make(chan struct{}),
		moved:  make(chan struct{}),
	}
}

// Write sends a query. The answer comes by itself, at its own time.
func (c *dnsPacketConn) Write(b []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	query := append([]byte(nil), b...)
	go c.dns.serve(query, "udp", c.from, c.closed, func(reply []byte) {
		select {
		case c.in <- reply:
		default:
		}
	})
	return len(b), nil
}

func (c *dnsPacketConn) Read(b []byte) (int, error) {
	for {
		n, again, err := c.read(b)
		if !again {
			return n, err
		}
	}
}

// read waits for a packet, and asks to be called again when the deadline was moved meanwhile.
func (c *dnsPacketConn) read(b []byte) (n int, again bool, err error) {
	c.mu.Lock()
	deadline, moved := c.deadline, c.moved
	c.mu.Unlock()
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case p := <-c.in:
		return copy(b, p), false, nil
	case <-c.closed:
		return 0, false, net.ErrClosed
	case <-late:
		return 0, false, c.error("read", os.ErrDeadlineExceeded)
	case <-moved:
		return 0, true, nil
	}
}

func (c *dnsPacketConn) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.local, Addr: c.remote, Err: err}
}

// ReadFrom is Read: the socket is connected.
func (c *dnsPacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := c.Read(b)
	return n, c.remote, err
}

// WriteTo is Write: the socket is connected.
func (c *dnsPacketConn) WriteTo(b []byte, _ net.Addr) (int, error) { return c.Write(b) }

func (c *dnsPacketConn) Close() error {
	err := io.ErrClosedPipe
	c.once.Do(func() {
		close(c.closed)
		err = nil
	})
	return err
}

// SetDeadline is SetReadDeadline: writes never wait.
func (c *dnsPacketConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
	return nil
}

func (c *dnsPacketConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *dnsPacketConn) SetWriteDeadline(time.Time) error  { return nil }
