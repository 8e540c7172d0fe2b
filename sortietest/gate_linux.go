package sortietest

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// backlog is more than any test needs; the kernel cuts it to what it allows.
const backlog = 4096

// fill makes connects to a shut gate hang. Linux drops a SYN while the accept queue is full, so the queue is made
// as short as can be, by listening once more, and filled with connections of our own.
func (g *gate) fill() error {
	ln, ok := g.Listener.(*net.TCPListener)
	if !ok {
		return errors.ErrUnsupported
	}
	g.stop(ln)
	if err := setBacklog(ln, 0); err != nil {
		return err
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), 100*time.Millisecond)
		if isTimeout(err) {
			return nil
		} else if err != nil {
			return err
		}
		g.mu.Lock()
		g.fillers[c.LocalAddr().String()] = c
		g.mu.Unlock()
	}
	return errors.New("the accept queue does not fill up")
}

// drain undoes fill, if there is anything to undo.
func (g *gate) drain() error {
	ln, ok := g.Listener.(*net.TCPListener)
	if !ok || !g.isShut() {
		return nil
	}
	err := setBacklog(ln, backlog)
	g.reopen()
	return err
}

func setBacklog(ln *net.TCPListener, n int) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), n) }); err != nil {
		return err
	}
	return os.NewSyscallError("listen", failed)
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
