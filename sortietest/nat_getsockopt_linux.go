//go:build linux && !386 && !s390x

package sortietest

import (
	"syscall"
	"unsafe"
)

// getsockopt is the system call, for options that package syscall has no type for. An option that this kernel does not know leaves
// the value as it is.
func getsockopt(fd uintptr, level, option int, value unsafe.Pointer, size *uint32) {
	_, _, _ = syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, uintptr(level), uintptr(option), uintptr(value), uintptr(unsafe.Pointer(size)), 0)
}
