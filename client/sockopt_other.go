//go:build !linux

package client

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where there is no TCP_USER_TIMEOUT.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
