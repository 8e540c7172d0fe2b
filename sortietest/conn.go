package sortietest

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sortie-go/sortie/internal/memnet"
)

// conn is a connection an upstream has accepted, below TLS.
type conn struct {
	net.Conn
	number   int // from 1, in the order of being accepted
	up       *Upstream
	requests atomic.Int64
	busy     atomic.Bool // a request is being read or answered
	dropped  atomic.Bool
	once     sync.Once
	closed   chan struct{}
}

// connKey is the context key of the *conn a request came by.
type connKey struct{}

// unwrap finds the conn in what net/http was given.
func unwrap(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	return nc.(*conn)
}

// Read reads, until the connection is dropped: then it waits for Close.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dropped.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write writes, until the connection is dropped: then it pretends to.
func (c *conn) Write(b []byte) (int, error) {
	if c.dropped.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// CloseWrite lets net/http say goodbye to a client which is still sending.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
		c.up.forget(c)
	})
	return err
}

// reset closes the connection with a TCP reset.
func (c *conn) reset() {
	armReset(c.Conn)
	c.Close()
}

// drop lets the connection go silent without telling the client.
func (c *conn) drop() {
	c.dropped.Store(true)
	if nc, ok := c.Conn.(*memnet.Conn); ok {
		nc.Drop()
	}
}

// resetConn closes nc, which comes from package net or memnet, with a TCP reset.
func resetConn(nc net.Conn) {
	armReset(nc)
	nc.Close()
}

func armReset(nc net.Conn) {
	switch nc := nc.(type) {
	case *memnet.Conn:
		nc.Reset()
	case *net.TCPConn:
		nc.SetLinger(0)
	}
}

func closeWrite(nc net.Conn) error {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
