package ports

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Ending is how a connection, or the attempt to make one, ended: it decides how long its port is kept.
type Ending uint8

const (
	ClosedByUs   Ending = iota // FIN, ours first
	ClosedByPeer               // FIN, the peer's first
	Reset                      // RST by either side, a refused connection included
	Silent                     // a SYN that nobody answered, or whose answer nobody waited for
	Lost                       // established, then silence
	Unsent                     // nothing left this machine
)

// EndingOf is how a connect ended that failed with err. What is not known to have been decided here has cost a SYN.
func EndingOf(err error) Ending {
	if _, ok := errors.AsType[*Error](err); ok {
		return Unsent
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return Silent
	}
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED:
		return Reset
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL:
		return Unsent
	}
	return Silent
}

// NoPort reports that the kernel had no local port, or no local address, for a connection.
func NoPort(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }

// timedOut reports that nobody answered in time. A connect that was cancelled says nothing.
func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}
