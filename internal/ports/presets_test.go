package ports_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/internal/ports"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// The table as it was reviewed: a change of it is a change of what users may dial.
func TestPresets(t *testing.T) {
	var lines []string
	for _, p := range ports.Presets() {
		h := p.Holds
		lines = append(lines, fmt.Sprintf("%s %d %v/%v/%v/%v", p.Name, p.Ports, h.Ours, h.Theirs, h.Reset, h.Silent))
		if !strings.HasPrefix(p.Source, "as of 20") || p.Ports <= 0 || h.Longest() != h.Ours {
			t.Errorf("%+v", p)
		}
		if again, ok := ports.Named(p.Name); !ok || again != p {
			t.Errorf("not found: %s", p.Name)
		}
	}
	want := `azure-lb 1024 4m0s/4m0s/15s/4m0s
azure-natgw 50000 1m5s/1m5s/16s/30s
gcp-nat 64 2m0s/2m0s/30s/30s
aws-natgw 55000 1m0s/1m0s/1m0s/1m0s
linux 28232 1m0s/0s/0s/0s`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("presets\n%s\nwant\n%s", got, want)
	}
	if _, ok := ports.Named("none"); ok {
		t.Error("none is no preset with figures")
	}
}

func TestScopes(t *testing.T) {
	for addr, want := range map[string]string{
		"203.0.113.7": "everywhere public elsewhere", "::ffff:203.0.113.7": "everywhere public elsewhere",
		"10.1.2.3": "everywhere elsewhere", "192.168.1.1": "everywhere elsewhere", "172.16.0.1": "everywhere elsewhere",
		"100.64.0.1": "everywhere elsewhere", "169.254.1.1": "everywhere elsewhere", "2001:db8::1": "everywhere elsewhere",
		"fd00::1": "everywhere elsewhere", "127.0.0.1": "everywhere loopback", "::1": "everywhere loopback",
	} {
		var got []string
		for _, s := range []struct {
			name  string
			scope ports.Scope
		}{{"everywhere", ports.Everywhere}, {"public", ports.PublicIPv4}, {"loopback", ports.Loopback}, {"elsewhere", ports.Elsewhere}} {
			if s.scope.Covers(netip.MustParseAddr(addr)) {
				got = append(got, s.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", addr, got, want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for want, e := range map[string]*ports.Error{
		"port budget to 203.0.113.7:443 used up: 921 of 1024 held (azure-lb), the next is free in 3s":                {Dest: api, Held: 921, Budget: 1024, RetryAfter: 3e9, Preset: "azure-lb"},
		"port budget to 203.0.113.7:443 used up: 921 of 1024 held (azure-lb), none of them will come free by itself": {Dest: api, Held: 921, Budget: 1024, Preset: "azure-lb"},
		"no local port to 203.0.113.7:443 (12 of 28232 held): cannot assign":                                         {Dest: api, Held: 12, Budget: 28232, Cause: fmt.Errorf("cannot assign")},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}
