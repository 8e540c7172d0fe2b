package sortietest

import (
	"net"
	"sync"
)

// A plainDoor accepts whoever comes. On a Network the address is a black hole while there is no port; who was on the way already,
// or comes where there is none of these, is accepted and hears nothing until a port is free.
type plainDoor struct {
	ln      net.Listener
	network *Network // nil: sockets
	arrived chan net.Conn
	over    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	accepted int
	hanging  int // of those, not taken yet
	next     net.Conn
}

func newPlainDoor(ln net.Listener, network *Network) *plainDoor {
	d := &plainDoor{ln: ln, network: network, arrived: make(chan net.Conn), over: make(chan struct{})}
	d.running.Go(d.accept)
	return d
}

func (d *plainDoor) accept() {
	for {
		c, err := d.ln.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.accepted++
		d.hanging++
		d.mu.Unlock()
		d.running.Go(func() {
			select {
			case d.arrived <- c:
			case <-d.over:
				c.Close()
			}
		})
	}
}

func (d *plainDoor) letIn(n int) {
	switch {
	case d.network == nil:
	case n == 0:
		d.network.BlackHole(d.ln.Addr().String())
	default:
		d.network.Restore(d.ln.Addr().String())
	}
}

func (d *plainDoor) wait() error {
	select {
	case d.next = <-d.arrived:
		return nil
	case <-d.over:
		return net.ErrClosed
	}
}

func (d *plainDoor) take() (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging--
	c := d.next
	d.next = nil
	return c, nil
}

func (d *plainDoor) dropped() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.network != nil {
		return d.network.Dials(d.ln.Addr().String()) - d.accepted + d.hanging
	}
	return d.hanging
}

func (d *plainDoor) close() {
	d.ln.Close()
	close(d.over)
	d.running.Wait()
}
