package ports

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// timeWait is how long the kernel keeps a connection that we closed first: a constant of its own (TCP_TIMEWAIT_LEN).
const timeWait = time.Minute

// reuseAfter is the age at which it takes such a port again for the same destination, where tcp_tw_reuse lets it.
const reuseAfter = time.Second

// SystemDir is where Linux tells its settings.
const SystemDir = "/proc/sys/net/ipv4"

// System reads what the kernel allows from dir, [SystemDir] but in tests. It returns one preset, or two where loopback is
// treated differently. What cannot be read or understood is taken to be the kernel's default.
func System(dir string) []Preset {
	base, _ := Named(Linux)
	if lo, hi, ok := parsePortRange(read(dir, "ip_local_port_range")); ok {
		base.Ports, base.Source = hi-lo+1, "ip_local_port_range "+strconv.Itoa(lo)+" "+strconv.Itoa(hi)
	}
	base.Holds = Holds{Ours: timeWait}
	reuse, ok := parseReuse(read(dir, "tcp_tw_reuse"))
	if !ok {
		return []Preset{base}
	}
	base.Source += ", tcp_tw_reuse " + strconv.Itoa(reuse)
	switch reuse {
	case 1:
		base.Holds.Ours = reuseAfter
	case 2: // for loopback only
		local := base
		local.Scope, local.Holds.Ours = Loopback, reuseAfter
		base.Scope = Elsewhere
		return []Preset{base, local}
	}
	return []Preset{base}
}

func read(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// parsePortRange reads two port numbers, the lower first.
func parsePortRange(text string) (lo, hi int, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, 0, false
	}
	lo, errLo := strconv.Atoi(fields[0])
	hi, errHi := strconv.Atoi(fields[1])
	return lo, hi, errLo == nil && errHi == nil && 0 < lo && lo <= hi && hi <= 65535
}

// parseReuse reads 0, 1 or 2.
func parseReuse(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil && 0 <= n && n <= 2
}
