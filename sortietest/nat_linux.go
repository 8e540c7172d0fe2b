package sortietest

import (
	"net"
	"os"
	"syscall"
	"unsafe"
)

// newDoor returns the door of a gateway.
func (n *NAT) newDoor(ln net.Listener) (natDoor, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return newPlainDoor(ln, n.Network), nil
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &kernelDoor{ln: tcp, file: file, raw: raw}, nil
}

// A kernelDoor lets the kernel do what a NAT does. Linux drops a SYN that finds the accept queue full, and the queue is made as long
// as there are ports; for none at all, since a queue has room for one, a socket filter drops SYNs. A connection is taken off the
// queue only after the door has been narrowed for it.
type kernelDoor struct {
	ln   *net.TCPListener
	file *os.File // the same socket, on which readiness can be waited for
	raw  syscall.RawConn
	shut bool // the filter is on; guarded by NAT.mu, as calls of letIn are
}

// dropSYN accepts all but a SYN without ACK: flags are byte 13 of the TCP header.
func dropSYN() []syscall.SockFilter {
	const flags, synAndAck, syn, all = 13, 0x12, 0x02, 0x40000
	return []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_B | syscall.BPF_ABS, K: flags},
		{Code: syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K, K: synAndAck},
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, Jf: 1, K: syn},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: 0},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: all},
	}
}

func (d *kernelDoor) letIn(n int) {
	_ = d.raw.Control(func(fd uintptr) { // it fails after Close, when nobody is let in anyway
		if n == 0 && !d.shut {
			//lint:ignore SA1019 what is recommended instead assembles filters and attaches none
			d.shut = syscall.AttachLsf(int(fd), dropSYN()) == nil
			return
		}
		_ = syscall.Listen(int(fd), max(n-1, 0)) // a queue of length 0 has room for one
		if n > 0 && d.shut {
			//lint:ignore SA1019 as above
			d.shut = syscall.DetachLsf(int(fd)) != nil
		}
	})
}

func (d *kernelDoor) wait() error {
	return d.raw.Read(readable)
}

// readable reports whether there is something to read, or to accept.
func readable(fd uintptr) bool {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: 1} // POLLIN
	var now syscall.Timespec
	n, _, _ := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return n == 1
}

func (d *kernelDoor) take() (net.Conn, error) {
	var taken int
	var failed error
	err := d.raw.Control(func(fd uintptr) {
		taken, _, failed = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	})
	if err != nil || failed != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(taken), "nat")
	defer f.Close() // FileConn has a copy
	return net.FileConn(f)
}

// dropped asks the socket (SO_MEMINFO): the last of its numbers is what it has dropped.
func (d *kernelDoor) dropped() int {
	const meminfo, drops = 55, 8
	var info [drops + 1]uint32
	_ = d.raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(info))
		getsockopt(fd, syscall.SOL_SOCKET, meminfo, unsafe.Pointer(&info), &size)
	})
	return int(info[drops])
}

func (d *kernelDoor) close() {
	d.ln.Close()
	d.file.Close()
}
