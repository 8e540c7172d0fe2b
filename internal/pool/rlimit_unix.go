//go:build unix

package pool

import "syscall"

// fileLimit is how many files this process may have open.
func fileLimit() int {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 1024
	}
	return int(min(uint64(lim.Cur), 1<<20)) // unlimited is a very large number
}
