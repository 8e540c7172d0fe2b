package sortietest

import (
	"context"
	"net"
	"sync"
)

// openConns are the connections of a relay, both sides of each, which end with it. The zero value is ready.
type openConns struct {
	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// hold keeps c for close, or closes it if that was called.
func (o *openConns) hold(c net.Conn) bool {
	o.mu.Lock()
	closed := o.closed
	if !closed {
		if o.conns == nil {
			o.conns = make(map[net.Conn]struct{})
		}
		o.conns[c] = struct{}{}
	}
	o.mu.Unlock()
	if closed {
		c.Close()
	}
	return !closed
}

// drop closes c and forgets it.
func (o *openConns) drop(c net.Conn) {
	c.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, c)
}

// close ends all connections, those to come too.
func (o *openConns) close() {
	o.mu.Lock()
	o.closed = true
	open := make([]net.Conn, 0, len(o.conns))
	for c := range o.conns {
		open = append(open, c)
	}
	o.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// dialTarget connects to where a relay leads.
func dialTarget(ctx context.Context, n *Network, target string) (net.Conn, error) {
	if n != nil {
		return n.DialContext(ctx, "tcp", target)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", target)
}
