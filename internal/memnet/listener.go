package memnet

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// backlog is how many connections a listener holds that are not yet accepted.
const backlog = 128

type listener struct {
	network *Network
	addr    netip.AddrPort
	backlog chan *Conn
	once    sync.Once
	done    chan struct{}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }

func (l *listener) Accept() (net.Conn, error) {
	if !l.closed() {
		select {
		case c := <-l.backlog:
			return c, nil
		case <-l.done:
		}
	}
	return nil, l.closedErr("accept")
}

func (l *listener) Close() error {
	err := l.closedErr("close")
	l.once.Do(func() {
		err = nil
		l.network.mu.Lock()
		delete(l.network.listeners, l.addr)
		l.network.mu.Unlock()
		close(l.done)
		l.refuse()
	})
	return err
}

// offer puts the accepting end of a new connection into the backlog.
func (l *listener) offer(ctx context.Context, c *Conn) error {
	select {
	case l.backlog <- c:
	case <-l.done:
		return errRefused
	case <-ctx.Done():
		return dialErr(ctx)
	}
	if l.closed() {
		l.refuse() // Close may have emptied the backlog before c came into it
	}
	return nil
}

// refuse resets what was never accepted.
func (l *listener) refuse() {
	for {
		select {
		case c := <-l.backlog:
			c.Reset()
			c.Close()
		default:
			return
		}
	}
}

func (l *listener) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *listener) closedErr(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}
