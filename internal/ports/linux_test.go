package ports_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

func systemOf(t *testing.T, portRange, reuse string) []ports.Preset {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"ip_local_port_range": portRange, "tcp_tw_reuse": reuse} {
		if text != "missing" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ports.System(dir)
}

func TestWhatLinuxAllows(t *testing.T) {
	for _, tc := range []struct {
		portRange, reuse string
		ports            int
		hold, loopback   time.Duration
	}{
		{"32768\t60999\n", "0\n", 28232, time.Minute, time.Minute},
		{"1024\t65535\n", "1\n", 64512, time.Second, time.Second},
		{"32768\t60999\n", "2\n", 28232, time.Minute, time.Second}, // the kernel's default since 4.19
		{"5000 5000", "0", 1, time.Minute, time.Minute},
		{"missing", "missing", 28232, time.Minute, time.Minute},
		{"60999 32768", "3", 28232, time.Minute, time.Minute},
		{"1 2 3", "", 28232, time.Minute, time.Minute},
		{"0 70000", "-1", 28232, time.Minute, time.Minute},
		{"many some", "x", 28232, time.Minute, time.Minute},
	} {
		hold := map[bool]time.Duration{}
		for _, p := range systemOf(t, tc.portRange, tc.reuse) {
			if p.Name != ports.Linux || p.Ports != tc.ports || p.Holds.Theirs != 0 || p.Holds.Reset != 0 || p.Source == "" {
				t.Errorf("%q, %q: %+v", tc.portRange, tc.reuse, p)
			}
			if p.Scope.Covers(api.Addr()) {
				hold[false] = p.Holds.Ours
			}
			if p.Scope.Covers(loopback) {
				hold[true] = p.Holds.Ours
			}
		}
		if hold[false] != tc.hold || hold[true] != tc.loopback {
			t.Errorf("%q, %q: holds %v", tc.portRange, tc.reuse, hold)
		}
	}
}

func FuzzSystem(f *testing.F) {
	f.Add("32768\t60999\n", "2\n")
	f.Add("", "1")
	f.Add("-5 99999999999999999999", "0x1")
	f.Fuzz(func(t *testing.T, portRange, reuse string) {
		for _, p := range systemOf(t, portRange, reuse) {
			if p.Ports < 1 || p.Ports > 65535 || p.Holds.Ours < time.Second || p.Holds.Ours > time.Minute {
				t.Errorf("%q, %q: %+v", portRange, reuse, p)
			}
			if strings.ContainsAny(p.Source, "\n\r") {
				t.Errorf("source of two lines: %q", p.Source)
			}
		}
	})
}
