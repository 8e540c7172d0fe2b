package memnet

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Conn is one end of a connection. Its methods may be called from several goroutines at once.
//
// Each direction holds 64 KiB that were written and not yet read; a writer waits for room. Closing an end on which
// received bytes are left unread resets the connection, as Linux does.
type Conn struct {
	local, remote *net.TCPAddr
	in, out       *stream
	once          sync.Once
	onClose       func() // dialling end only
}

// newPair returns the dialling and the accepting end of a connection on which every byte travels for delay.
func newPair(client, server netip.AddrPort, delay time.Duration) (dialed, accepted *Conn) {
	up, down := newStream(delay), newStream(delay)
	from, to := net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(server)
	return &Conn{local: from, remote: to, in: down, out: up}, &Conn{local: to, remote: from, in: up, out: down}
}

// Read reads what has arrived. At the end of the peer's bytes it reports [io.EOF], or ECONNRESET after a reset.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// Write returns when all of b is on its way, which is before the peer has read it.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

// Close ends both directions. The peer still reads what was written before, then [io.EOF]; its writes fail.
// A second Close reports [net.ErrClosed].
func (c *Conn) Close() error {
	err := c.opError("close", net.ErrClosed)
	c.once.Do(func() {
		err = nil
		if unread := c.in.closeRead(); unread {
			c.out.reset()
		}
		c.out.closeWrite(true)
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}

// CloseWrite ends the writing direction: the peer reads [io.EOF] and may go on writing.
func (c *Conn) CloseWrite() error {
	if !c.out.closeWrite(false) {
		return c.opError("close", net.ErrClosed)
	}
	return nil
}

// Reset breaks the connection as a firewall or a crashed machine between the ends would: reads and writes of both
// ends that are pending or come later report ECONNRESET. Bytes that had arrived at the peer can still be read there,
// before the error. Both ends are still to be closed by their owners.
func (c *Conn) Reset() {
	c.out.reset()
	c.in.reset()
}

// Drop makes the connection lose everything sent from now on, in both directions, closes and resets included. Nobody
// is told: writes succeed until 64 KiB are on their way, reads wait. It cannot be undone.
func (c *Conn) Drop() {
	c.out.drop()
	c.in.drop()
}

// LocalAddr returns this end's address, a *[net.TCPAddr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address, a *[net.TCPAddr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines. The zero time is none.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes reads, pending ones too, fail with [os.ErrDeadlineExceeded] from t on.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if !c.in.setReadDeadline(t) {
		return c.opError("set", net.ErrClosed)
	}
	return nil
}

// SetWriteDeadline makes writes, pending ones too, fail with [os.ErrDeadlineExceeded] from t on.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if !c.out.setWriteDeadline(t) {
		return c.opError("set", net.ErrClosed)
	}
	return nil
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
