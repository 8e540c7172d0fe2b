package pool

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// A Socket is what Config.Dial may return where somebody counts ports: the pool uses Conn as if it had been returned itself, and
// tells the ticket when it is closed, and how that began.
type Socket struct {
	net.Conn
	Ticket *ports.Ticket
}

// A netConn is the socket under a connection. It counts what passes, remembers how it ended, and tells the pool when it is
// closed: net/http's errors say neither.
//
// Its methods may be called by any goroutine, also with net/http's own locks held.
type netConn struct {
	net.Conn
	group *Group
	port  *ports.Ticket        // nil: not counted
	began time.Time            // zero of lastRead and lastWrite
	owner atomic.Pointer[conn] // nil until the dial has ended

	read, written       atomic.Int64
	lastRead, lastWrite atomic.Int64          // nanoseconds since began
	farewell            atomic.Bool           // the write counter stands still
	answering           atomic.Bool           // somebody waits to hear of the next byte read
	ended               atomic.Int32          // how, an ending
	failure             atomic.Pointer[error] // what the first sign of it was
	closing             sync.Once
	closed              atomic.Bool
}

// An ending is the first sign that a socket is done for.
type ending int32

const (
	endLocal ending = iota // none but our own Close
	endEOF                 // the peer said FIN
	endRead                // reading failed: reset, timeout
	endWrite               // writing failed
)

func newNetConn(nc net.Conn, g *Group) *netConn {
	n := &netConn{Conn: nc, group: g, began: time.Now()}
	if s, ok := nc.(*Socket); ok {
		n.Conn, n.port = s.Conn, s.Ticket
	}
	return n
}

func (n *netConn) Read(p []byte) (int, error) {
	if c := n.owner.Load(); c != nil && c.h2 {
		c.lookForGreeting() // whoever reads on has dealt with what was read before
	}
	m, err := n.Conn.Read(p)
	if m > 0 {
		n.read.Add(int64(m))
		if c := n.owner.Load(); c == nil || c.h2 { // only HTTP/2 asks how long it has been silent
			n.lastRead.Store(int64(time.Since(n.began)))
		}
		if n.answering.Load() {
			n.heard()
		}
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		how := endRead
		if err == io.EOF {
			how = endEOF
		}
		n.ends(how, err)
	}
	return m, err
}

func (n *netConn) Write(p []byte) (int, error) {
	m, err := n.Conn.Write(p)
	n.wrote(int64(m), err)
	return m, err
}

// ReadFrom keeps sendfile and splice for bodies that are files.
func (n *netConn) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := n.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{n}, r)
	}
	m, err := rf.ReadFrom(r)
	n.wrote(m, err)
	return m, err
}

func (n *netConn) wrote(m int64, err error) {
	if m > 0 && !n.farewell.Load() {
		n.written.Add(m)
		n.lastWrite.Store(int64(time.Since(n.began)))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n.ends(endWrite, err)
	}
}

// ends notes the first sign that the socket is done for.
func (n *netConn) ends(how ending, err error) {
	if n.ended.CompareAndSwap(int32(endLocal), int32(how)) {
		n.failure.Store(&err)
	}
}

// cause returns err, or what came before it: a write that fails because net/http has closed the socket says nothing of why.
func (n *netConn) cause(err error) error {
	if first := n.failure.Load(); first != nil && errors.Is(err, net.ErrClosed) {
		return *first
	}
	return err
}

// SetWriteDeadline stops the write counter of an HTTP/1 connection, where only crypto/tls calls it: before its close_notify,
// which is not part of any request.
func (n *netConn) SetWriteDeadline(t time.Time) error {
	if c := n.owner.Load(); c != nil && !c.h2 { // not for a proxy's dialer, which comes before
		n.farewell.Store(true)
	}
	return n.Conn.SetWriteDeadline(t)
}

// CloseWrite lets the body of a 101 say that it has nothing more to write.
func (n *netConn) CloseWrite() error {
	if cw, ok := n.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return http.ErrNotSupported
}

// Close closes the socket; whoever calls it a second time waits until that is done.
func (n *netConn) Close() error {
	err := net.ErrClosed
	n.closing.Do(func() { err = n.Conn.Close() })
	if n.closed.Swap(true) {
		return err
	}
	now := time.Now()
	n.port.Closed(n.ending(), now)
	n.group.socketClosed()
	if c := n.owner.Load(); c != nil {
		c.pool.lostSocket(c, now)
	}
	return err
}

// ending is what the end of the socket means for its port: who keeps it, and how long, depends on how the end began.
func (n *netConn) ending() ports.Ending {
	switch ending(n.ended.Load()) {
	case endEOF:
		return ports.ClosedByPeer
	case endRead, endWrite:
		switch first := n.failure.Load(); {
		case first == nil: // being noted this very moment
		case errors.Is(*first, syscall.ECONNRESET), errors.Is(*first, syscall.EPIPE), errors.Is(*first, syscall.ECONNABORTED):
			return ports.Reset
		case errors.Is(*first, syscall.ETIMEDOUT):
			return ports.Lost
		}
	}
	return ports.ClosedByUs
}

// heard passes on that a connection under suspicion has spoken.
func (n *netConn) heard() {
	n.answering.Store(false)
	if c := n.owner.Load(); c != nil {
		c.pool.answered(c)
	}
}

// silence is the time since the last byte came.
func (n *netConn) silence() time.Duration {
	return time.Since(n.began) - time.Duration(n.lastRead.Load())
}

// wroteAt is when the last byte was written.
func (n *netConn) wroteAt() time.Time {
	return n.began.Add(time.Duration(n.lastWrite.Load()))
}

func (n *netConn) remote() netip.AddrPort {
	switch a := n.Conn.RemoteAddr().(type) {
	case *net.TCPAddr:
		ap := a.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	case nil:
		return netip.AddrPort{}
	default:
		ap, _ := netip.ParseAddrPort(a.String()) // zero for what is no address
		return ap
	}
}
