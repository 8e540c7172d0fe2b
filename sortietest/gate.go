package sortietest

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// gate is the listener of an upstream: it hands over accepted connections, and can be shut for a while.
type gate struct {
	net.Listener
	up    *Upstream
	ended chan struct{} // nobody accepts any more

	mu      sync.Mutex
	shut    *shutter            // nil while open
	fillers map[string]net.Conn // our own, which keep the accept queue full, by local address
}

// shutter stops the accepting goroutine.
type shutter struct {
	arrived chan struct{} // it has stopped
	opened  chan struct{} // it may go on
}

func newGate(ln net.Listener, u *Upstream) *gate {
	return &gate{Listener: ln, up: u, ended: make(chan struct{}), fillers: make(map[string]net.Conn)}
}

// Accept is called by one goroutine.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.waitOpen()
		nc, err := g.Listener.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // how close stops us
			continue
		case err != nil:
			return nil, err
		case g.isFiller(nc):
			nc.Close()
			continue
		}
		c, ok := g.up.admit(nc)
		if !ok {
			nc.Close()
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// Close closes the listener, shut or open.
func (g *gate) Close() error {
	err := g.Listener.Close()
	g.reopen()
	return err
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

func (g *gate) waitOpen() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		close(shut.arrived)
		<-shut.opened
	}
}

// stop stops the accepting goroutine until reopen.
func (g *gate) stop(ln *net.TCPListener) {
	shut := &shutter{arrived: make(chan struct{}), opened: make(chan struct{})}
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
	ln.SetDeadline(time.Unix(1, 0))
	select {
	case <-shut.arrived:
	case <-g.ended:
	}
}

func (g *gate) reopen() {
	g.mu.Lock()
	shut := g.shut
	g.shut = nil
	fillers := make([]net.Conn, 0, len(g.fillers))
	for _, c := range g.fillers {
		fillers = append(fillers, c)
	}
	g.mu.Unlock()
	for _, c := range fillers {
		c.Close()
	}
	if shut == nil {
		return
	}
	if ln, ok := g.Listener.(*net.TCPListener); ok {
		ln.SetDeadline(time.Time{})
	}
	close(shut.opened)
}

func (g *gate) isFiller(nc net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := nc.RemoteAddr().String()
	_, ours := g.fillers[from]
	delete(g.fillers, from)
	return ours
}
