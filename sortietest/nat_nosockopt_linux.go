//go:build linux && (386 || s390x)

package sortietest

import "unsafe"

// getsockopt does nothing where the system call is part of another one.
func getsockopt(uintptr, int, int, unsafe.Pointer, *uint32) {}
