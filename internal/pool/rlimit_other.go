//go:build !unix

package pool

// fileLimit is how many files this process may have open: unlimited, as far as this package is concerned.
func fileLimit() int { return 1 << 20 }
