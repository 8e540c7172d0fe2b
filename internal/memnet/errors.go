package memnet

import (
	"context"
	"os"
	"syscall"
)

var (
	errRefused   = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	errReadReset = os.NewSyscallError("read", syscall.ECONNRESET)
)

// dialErr is what a dial reports when ctx ended first. Package net has the same two errors, unexported.
func dialErr(ctx context.Context) error {
	if ctx.Err() == context.Canceled {
		return canceledError{}
	}
	return timeoutError{}
}

type timeoutError struct{}

func (timeoutError) Error() string        { return "i/o timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

type canceledError struct{}

func (canceledError) Error() string        { return "operation was canceled" }
func (canceledError) Is(target error) bool { return target == context.Canceled }
