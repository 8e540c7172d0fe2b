package client

import (
	"syscall"
	"time"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of tcp(7); package syscall does not name it

// setUserTimeout bounds how long data that was sent may stay unacknowledged. Without it the kernel retransmits for a
// quarter of an hour before it tells anybody that the peer is gone.
func setUserTimeout(socket syscall.RawConn, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
