package pool_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestKeepAliveHeader(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"timeout=5":             5 * time.Second,
		"timeout=5, max=100":    5 * time.Second,
		"max=100,timeout=60":    time.Minute,
		" Timeout = 5 ":         5 * time.Second,
		`timeout="5"`:           5 * time.Second,
		"timeout=0":             0,
		"timeout=2147483647":    2147483647 * time.Second,
		"":                      -1,
		"max=5":                 -1,
		"timeout":               -1,
		"timeout=":              -1,
		"timeout=-5":            -1,
		"timeout=5s":            -1,
		"timeout=5.5":           -1,
		"timeout=2147483648":    -1,
		"timeout=1e99, max=100": -1,
	} {
		got, ok := pool.KeepAliveTimeout(header)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", header, got, ok)
		}
	}
}

func FuzzKeepAliveHeader(f *testing.F) {
	f.Add("timeout=5, max=100")
	f.Add(`max=1,, timeout="7";x`)
	f.Fuzz(func(t *testing.T, header string) {
		if d, ok := pool.KeepAliveTimeout(header); d < 0 || !ok && d != 0 || d%time.Second != 0 {
			t.Errorf("%q: %v, %v", header, d, ok)
		}
	})
}
