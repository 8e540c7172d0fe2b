package dnscache

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// resolvConf is what we read of resolv.conf. The servers, attempts and rotation in it are read by package net.
type resolvConf struct {
	search []string // rooted: "svc.cluster.local."
	ndots  int
	single bool // single-request: one question at a time
}

// noConf is what holds without a resolv.conf, as on Windows: no list, the name as it stands.
func noConf() *resolvConf { return &resolvConf{ndots: 1} }

// parseResolvConf reads the lines that make the list, as package net does: the last of search and domain counts, ndots is
// cut to 0 to 15, and without either the domain of the host's own name is searched. It accepts any text.
func parseResolvConf(text, hostname string) *resolvConf {
	c := noConf()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch args := fields[1:]; fields[0] {
		case "domain":
			c.search = suffixes(args[:1])
		case "search":
			c.search = suffixes(args)
		case "options":
			c.options(args)
		}
	}
	if _, domain, ok := strings.Cut(hostname, "."); ok && len(c.search) == 0 {
		c.search = suffixes([]string{domain})
	}
	return c
}

func (c *resolvConf) options(args []string) {
	for _, arg := range args {
		if n, ok := strings.CutPrefix(arg, "ndots:"); ok {
			// Like package net, an unreadable number is 0.
			ndots, _ := strconv.Atoi(n)
			c.ndots = min(max(ndots, 0), 15)
		}
		if arg == "single-request" || arg == "single-request-reopen" {
			c.single = true
		}
	}
}

// suffixes returns the domains that can be appended, in lower case and with their dot.
func suffixes(domains []string) (out []string) {
	for _, d := range domains {
		d = strings.ToLower(strings.TrimSuffix(d, ".")) + "."
		if d != "." && len(d) <= 254 {
			out = append(out, d)
		}
	}
	return out
}

// list returns the full names for a short one in resolv.conf's order (resolv.conf(5), ndots). It is never empty.
func (c *resolvConf) list(short string) []string {
	full := short + "."
	names := make([]string, 0, 1+len(c.search))
	first := strings.Count(short, ".") >= c.ndots
	if first {
		names = append(names, full)
	}
	for _, suffix := range c.search {
		if name := full + suffix; isDomainName(name) {
			names = append(names, name)
		}
	}
	if !first {
		names = append(names, full)
	}
	return names
}

const (
	// statEvery is how often the files are looked at, as package net does.
	statEvery = 5 * time.Second

	// netLag is how long after a change package net surely works with it: it looks every 5 s on its own.
	netLag = 6 * time.Second
)

// confFiles follows resolv.conf and hosts. Of hosts only changes matter here; package net reads it.
type confFiles struct {
	resolv, hosts string // paths
	conf          atomic.Pointer[resolvConf]

	mu      sync.Mutex
	checked time.Time
	seen    [2]stamp
}

// stamp tells one version of a file from another. The zero stamp is a file that is not there.
type stamp struct {
	time time.Time
	size int64
}

func stampOf(path string) stamp {
	fi, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{fi.ModTime(), fi.Size()}
}

func newConfFiles(resolv, hosts string) *confFiles {
	f := &confFiles{resolv: resolv, hosts: hosts, checked: time.Now()}
	f.seen = f.stamps()
	f.read()
	return f
}

func (f *confFiles) stamps() [2]stamp { return [2]stamp{stampOf(f.resolv), stampOf(f.hosts)} }

func (f *confFiles) read() {
	text, err := os.ReadFile(f.resolv)
	if err != nil {
		f.conf.Store(noConf())
		return
	}
	hostname, _ := os.Hostname() // without it there is no default domain, as in package net
	f.conf.Store(parseResolvConf(string(text), hostname))
}

// changed looks at the files, at most every 5 s, and reports whether one is another than before. It does I/O, so it is
// part of a lookup and never of a hit.
func (f *confFiles) changed(now time.Time) bool {
	f.mu.Lock()
	if now.Sub(f.checked) < statEvery {
		f.mu.Unlock()
		return false
	}
	f.checked = now
	f.mu.Unlock()

	seen := f.stamps()
	f.mu.Lock()
	same := seen == f.seen
	f.seen = seen
	f.mu.Unlock()
	if !same {
		f.read()
	}
	return !same
}
