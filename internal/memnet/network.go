package memnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is a set of addresses that can be listened on and dialled. Make one with [New]. Its methods may be called
// from several goroutines at once.
//
// A Network has nothing to close: listeners and connections are closed by whoever opened them.
type Network struct {
	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	holes     map[netip.AddrPort]chan struct{} // closed by Restore
	rtts      map[netip.AddrPort]time.Duration
	dials     map[netip.AddrPort]int
	names     map[string]netip.Addr
	conns     map[*Conn]netip.AddrPort // dialling ends
	port      uint16                   // last one given out
}

// New returns a network on which nobody listens.
func New() *Network {
	return &Network{
		listeners: make(map[netip.AddrPort]*listener),
		holes:     make(map[netip.AddrPort]chan struct{}),
		rtts:      make(map[netip.AddrPort]time.Duration),
		dials:     make(map[netip.AddrPort]int),
		names:     make(map[string]netip.Addr),
		conns:     make(map[*Conn]netip.AddrPort),
		port:      firstPort - 1,
	}
}

// Listen announces on address, "host:port". Port 0 picks a free one, which the listener's Addr tells. The address
// can be listened on again once the listener is closed; while it is not, Listen reports [syscall.EADDRINUSE].
//
// Closing the listener makes later dials fail with [syscall.ECONNREFUSED] and resets connections that were not yet
// accepted. Accepted ones live on.
func (n *Network) Listen(address string) (net.Listener, error) {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for addr.Port() == 0 || n.listeners[addr] != nil {
		if addr.Port() != 0 && !wantsAnyPort(address) {
			err := os.NewSyscallError("bind", syscall.EADDRINUSE)
			return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(addr), Err: err}
		}
		addr = netip.AddrPortFrom(addr.Addr(), n.nextPort())
	}
	l := &listener{
		network: n,
		addr:    addr,
		backlog: make(chan *Conn, backlog),
		done:    make(chan struct{}),
	}
	n.listeners[addr] = l
	return l, nil
}

// DialContext connects to address, as [net.Dialer.DialContext] does: it has the type of http.Transport's field of
// this name. Network is "tcp", "tcp4" or "tcp6".
//
// The connection is a *[Conn]. Errors are of type *[net.OpError]: [syscall.ECONNREFUSED] where nobody listens, a
// timeout when ctx's deadline passes first, and one that is [context.Canceled] when ctx is cancelled. As with a
// kernel, a dial succeeds when the connection is in the listener's backlog of 128, accepted or not, and waits while
// that is full.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	addr, err := n.resolve(network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	n.mu.Lock()
	n.dials[addr]++
	n.mu.Unlock()
	c, err := n.dial(ctx, addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(addr), Err: err}
	}
	return c, nil
}

func (n *Network) dial(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	if err := n.reach(ctx, addr); err != nil {
		return nil, err
	}
	n.mu.Lock()
	rtt := n.rtts[addr]
	n.mu.Unlock()
	if err := sleep(ctx, rtt); err != nil {
		return nil, err
	}

	n.mu.Lock()
	l := n.listeners[addr]
	if l == nil {
		n.mu.Unlock()
		return nil, errRefused
	}
	c, peer := newPair(netip.AddrPortFrom(clientAddr(addr.Addr()), n.nextPort()), addr, rtt/2)
	n.conns[c] = addr
	c.onClose = func() { n.forget(c) }
	n.mu.Unlock()

	if err := l.offer(ctx, peer); err != nil {
		n.forget(c)
		return nil, err
	}
	return c, nil
}

// reach waits until addr is no black hole.
func (n *Network) reach(ctx context.Context, addr netip.AddrPort) error {
	for {
		if ctx.Err() != nil {
			return dialErr(ctx)
		}
		n.mu.Lock()
		hole := n.holes[addr]
		n.mu.Unlock()
		if hole == nil {
			return nil
		}
		select {
		case <-hole:
		case <-ctx.Done():
		}
	}
}

// BlackHole makes dials to address hang until their context ends, like a firewall that drops packets, whether
// somebody listens there or not. Connections already established are not touched; see [Conn.Drop] for those.
// [Network.Restore] undoes it. An address that cannot be parsed is ignored: no dial reaches it anyway.
func (n *Network) BlackHole(address string) {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holes[addr] == nil {
		n.holes[addr] = make(chan struct{})
	}
}

// Restore undoes [Network.BlackHole]. Dials that hang go on at once, as if a packet sent again had come through.
func (n *Network) Restore(address string) {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if hole := n.holes[addr]; hole != nil {
		close(hole)
		delete(n.holes, addr)
	}
}

// SetRTT sets the round-trip time to address for dials that start from now on: the dial takes one round trip,
// refusals included, and on the connection each byte, close or reset arrives half a round trip after it was sent.
// Zero, as at the start, is no delay.
func (n *Network) SetRTT(address string, rtt time.Duration) {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rtts[addr] = rtt
}

// Dials returns how many dials to address there were, whatever became of them.
func (n *Network) Dials(address string) int {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

// Conns returns the connections to address whose dialling end is not closed, in no particular order: the dialling
// ends, to [Conn.Reset] or [Conn.Drop] where the code under test keeps them to itself.
func (n *Network) Conns(address string) []*Conn {
	addr, err := n.resolve("tcp", address)
	if err != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var conns []*Conn
	for c, to := range n.conns {
		if to == addr {
			conns = append(conns, c)
		}
	}
	return conns
}

func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return dialErr(ctx)
	}
}
