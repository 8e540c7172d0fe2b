package sortietest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// NAT is a TCP gateway with few ports, as a cloud's source NAT has them: each connection through it takes one of Ports, which is
// kept for Hold after the connection has ended. What finds no port gets no answer at all, as the gateway drops the SYN: to the
// client the connect hangs until its own limits end it, or until a port is free and the kernel's next try gets through. [NewNAT]
// starts one on the loopback interface; or fill in the fields and call [NAT.Start]. They must not change after that. The methods
// may be called from several goroutines at once.
//
// A NAT stands for the way to one destination, Target; for several, start several. Scale Hold down, as with a clock that runs
// faster: 4 minutes as 4 seconds.
//
// On Linux sockets and on a [Network] a connect that finds no port hangs. Other systems answer a SYN before anybody can object:
// there it succeeds, and then nothing comes until a port is free. On Linux that can happen to the odd one in a burst, where two
// handshakes overlap on two processors and one port is left; on a Network to those that were on their way when it was taken.
type NAT struct {
	// Target is the "host:port" to forward to: [Upstream.Addr], or any other server's.
	Target string

	// Ports is how many connections to Target there can be, those included that ended less than Hold ago. Required.
	Ports int

	// Hold is how long the port of an ended connection is kept, however it ended. Zero: not at all.
	Hold time.Duration

	// Network is where to listen and where Target is; nil is the loopback interface.
	Network *Network

	// Address is the "host:port" to listen on. Empty is "127.0.0.1:0": any free port.
	Address string

	door    natDoor
	addr    net.Addr
	cancel  context.CancelFunc
	running sync.WaitGroup
	open    openConns

	mu      sync.Mutex
	freed   sync.Cond // a port is free, or it is over
	closed  bool
	free    int
	cooling map[*time.Timer]struct{}
	stats   NATStats
}

// A natDoor is the listening side: it lets in as many connections as there are ports.
type natDoor interface {
	// letIn sets how many may come beside those that were taken; with 0 a SYN gets no answer.
	letIn(n int)
	// wait returns when there may be a connection to take; an error is the end.
	wait() error
	// take returns one; nil: there is none after all.
	take() (net.Conn, error)
	// dropped counts the connection attempts that got no answer, 0 where nobody knows.
	dropped() int
	close()
}

// NATStats counts what a [NAT] did.
type NATStats struct {
	Conns     int // connections forwarded so far
	OpenConns int // and not yet at their end
	Cooling   int // ports kept for connections that have ended
	MostHeld  int // highest number of ports taken at a time

	// Dropped counts what got no answer for want of a port: on Linux the SYNs, sent again by the kernel after 1, 3, 7 s and
	// so on as long as the client waits; on a Network the dials; elsewhere the connections that were let hang.
	Dropped int
}

// NewNAT starts a gateway to target, "host:port", on a free port of the loopback interface. It is closed when the test ends.
func NewNAT(tb TB, target string, ports int, hold time.Duration) *NAT {
	tb.Helper()
	n := &NAT{Target: target, Ports: ports, Hold: hold}
	n.Start(tb)
	return n
}

// Start listens and forwards until the test ends or [NAT.Close] is called. If it cannot, the test fails at once.
func (n *NAT) Start(tb TB) {
	tb.Helper()
	if err := n.Listen(); err != nil {
		tb.Fatalf("sortietest: %v", err)
		return
	}
	tb.Cleanup(n.Close)
}

// Listen is [NAT.Start] for programs and for TestMain, where no test is at hand: the caller closes.
func (n *NAT) Listen() error {
	switch {
	case n.door != nil:
		return errors.New("NAT started twice")
	case n.Ports <= 0:
		return errors.New("NAT.Ports must be 1 or more")
	case n.Hold < 0:
		return errors.New("NAT.Hold is negative")
	}
	ln, err := n.listen()
	if err != nil {
		return err
	}
	door, err := n.newDoor(ln)
	if err != nil {
		ln.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close, as connections belong to the gateway
	n.door, n.addr, n.cancel = door, ln.Addr(), cancel
	n.freed.L = &n.mu
	n.free = n.Ports
	n.cooling = make(map[*time.Timer]struct{})
	door.letIn(n.free)
	n.running.Go(func() { n.accept(ctx) })
	return nil
}

func (n *NAT) listen() (net.Listener, error) {
	if n.Network != nil {
		return n.Network.listen(n.Address)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // whose sockets take no filter
	return lc.Listen(context.Background(), "tcp", orAnyPort(n.Address))
}

// Close closes the port and all connections and waits until nothing of the gateway runs any more. Closing again, or closing what
// was never started, does nothing.
func (n *NAT) Close() {
	if n.door == nil {
		return
	}
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	for t := range n.cooling {
		t.Stop()
	}
	if first {
		n.stats.Dropped = n.door.dropped()
		n.door.letIn(1) // on a Network: dials that hang are now refused
		n.door.close()
	}
	n.freed.Broadcast()
	n.mu.Unlock()
	n.cancel()
	n.open.close()
	n.running.Wait()
}

// Addr returns the "host:port" it listens on, empty before it is started.
func (n *NAT) Addr() string {
	if n.addr == nil {
		return ""
	}
	return n.addr.String()
}

// URL returns "http://" and Addr. For a target that speaks TLS use Addr, and the scheme and server name it expects.
func (n *NAT) URL() string { return "http://" + n.Addr() }

// Stats returns the counts as they are now.
func (n *NAT) Stats() NATStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	if n.door != nil && !n.closed {
		s.Dropped = n.door.dropped()
	}
	return s
}

func (n *NAT) accept(ctx context.Context) {
	for n.waitFree() && n.door.wait() == nil {
		near := n.claim()
		if near == nil {
			continue
		}
		n.running.Go(func() {
			defer n.release()
			n.forward(ctx, near)
		})
	}
}

// waitFree waits for a port, and reports false after Close.
func (n *NAT) waitFree() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.free == 0 && !n.closed {
		n.freed.Wait()
	}
	return !n.closed
}

// claim takes a port and the connection that it is for. The door is narrowed first, so that nobody slips in between.
func (n *NAT) claim() net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		if c, _ := n.door.take(); c != nil {
			c.Close()
		}
		return nil
	}
	n.free--
	n.door.letIn(n.free)
	c, err := n.door.take()
	if err != nil || c == nil {
		n.free++
		n.door.letIn(n.free)
		return nil
	}
	n.open.hold(c)
	n.stats.Conns++
	n.stats.OpenConns++
	n.stats.MostHeld = max(n.stats.MostHeld, n.Ports-n.free)
	return c
}

// release keeps the port of a connection that has ended for as long as it has to.
func (n *NAT) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.OpenConns--
	if n.closed {
		return
	}
	if n.Hold == 0 {
		n.freeLocked()
		return
	}
	n.stats.Cooling++
	var t *time.Timer
	t = time.AfterFunc(n.Hold, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.cooling, t)
		if !n.closed {
			n.stats.Cooling--
			n.freeLocked()
		}
	})
	n.cooling[t] = struct{}{}
}

func (n *NAT) freeLocked() {
	n.free++
	n.door.letIn(n.free)
	n.freed.Broadcast()
}

// forward carries one connection. If Target cannot be reached, the client sees a reset.
func (n *NAT) forward(ctx context.Context, near net.Conn) {
	defer n.open.drop(near)
	far, err := dialTarget(ctx, n.Network, n.Target)
	if err != nil || !n.open.hold(far) {
		resetConn(near)
		return
	}
	defer n.open.drop(far)
	var both sync.WaitGroup
	both.Go(func() { relay(far, near) })
	both.Go(func() { relay(near, far) })
	both.Wait()
}

// relay takes what comes from src to dst, the end of it too; a reset of either side resets the other.
func relay(dst, src net.Conn) {
	if _, err := io.Copy(dst, src); err != nil {
		resetConn(dst)
		resetConn(src)
		return
	}
	_ = closeWrite(dst) // if it is closed already, so much the better
}
