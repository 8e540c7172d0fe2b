package dnscache_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// The list that stands behind the golden numbers.
const searchABCD = "search a b c d\noptions ndots:5\n"

// world is a Resolver in virtual time, with a scripted DNS server behind it.
type world struct {
	t    *testing.T
	dns  *sortietest.DNS
	r    *dnscache.Resolver
	conf string // path of resolv.conf
	wall atomic.Int64

	mu     sync.Mutex
	server string // the first of the machine's resolv.conf; no other answers
	events []dnscache.Event
}

// bubble tells a story about r in a bubble. The search list is searchABCD and jitter is off, unless r says otherwise.
// What r leaves behind after Close fails the test.
func bubble(t *testing.T, r *dnscache.Resolver, story func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dns: new(sortietest.DNS), r: r, conf: filepath.Join(dir, "resolv.conf")}
		w.configure(searchABCD)
		if r.DialDNS == nil && !r.System {
			r.DialDNS = w.dial
		}
		if r.Jitter == 0 {
			r.Jitter = -1
		}
		if r.OnEvent == nil {
			r.OnEvent = w.note
		}
		dnscache.Hook(r, dnscache.Hooks{
			ResolvConf: w.conf, Hosts: filepath.Join(dir, "hosts"), WallOffset: &w.wall,
			Routed: func(netip.Addr) bool { return false },
		})
		defer r.Close()
		story(t, w)
	})
}

func (w *world) configure(resolvConf string) {
	w.t.Helper()
	if err := os.WriteFile(w.conf, []byte(resolvConf), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// dial reaches the scripted server. Package net asks each server of the machine's own resolv.conf; so that numbers do not
// depend on how many there are, only the first answers, and others refuse at once. Resolver.Servers are told apart by
// their own dial functions.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	if w.server == "" {
		w.server = address
	}
	other := address != w.server
	w.mu.Unlock()
	if other {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return w.dns.DialContext(ctx, network, address)
}

func (w *world) note(e dnscache.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// eventKinds waits until the bubble rests and returns what happened, in order.
func (w *world) eventKinds() (out []dnscache.EventKind) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		out = append(out, e.Kind)
	}
	return out
}

// lookup must succeed.
func (w *world) lookup(name string) dnscache.Result {
	w.t.Helper()
	r, err := w.r.Lookup(w.t.Context(), name)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return r
}

// fails must not.
func (w *world) fails(name string) *dnscache.Error {
	w.t.Helper()
	r, err := w.r.Lookup(w.t.Context(), name)
	e, ok := err.(*dnscache.Error)
	if !ok {
		w.t.Fatalf("%s: %v, %v; want an *Error", name, r, err)
	}
	return e
}

// want checks the addresses of an answer.
func (w *world) want(r dnscache.Result, addrs ...string) {
	w.t.Helper()
	var got []string
	for a := range r.All() {
		got = append(got, a.String())
	}
	if !slices.Equal(got, addrs) {
		w.t.Errorf("addresses %q, want %q", got, addrs)
	}
}

// asked waits until the bubble rests, and returns the questions since the last call as "name type". The two families of a
// name are asked at once: A is put first.
func (w *world) asked() []string {
	synctest.Wait()
	var out []string
	for _, q := range w.dns.Questions() {
		out = append(out, q.String())
	}
	w.dns.Reset()
	for i := 1; i < len(out); i++ {
		if name, ok := strings.CutSuffix(out[i-1], " AAAA"); ok && out[i] == name+" A" {
			out[i-1], out[i] = out[i], out[i-1]
		}
	}
	return out
}

func (w *world) wantAsked(want ...string) {
	w.t.Helper()
	if got := w.asked(); !slices.Equal(got, want) {
		w.t.Errorf("asked %q, want %q", got, want)
	}
}

func (w *world) wantCount(what string, want int) {
	w.t.Helper()
	if got := w.asked(); len(got) != want {
		w.t.Errorf("%s: %d questions, want %d: %q", what, len(got), want, got)
	}
}

// took returns how much virtual time f needs.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func pair(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, n+" A", n+" AAAA")
	}
	return out
}

func reply(ttl uint32, addrs ...string) sortietest.DNSReply {
	return sortietest.DNSReply{TTL: ttl, Addrs: addrs}
}

// contains reports whether a message of configuration, which is made to be read, holds text.
func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// ours waits until the bubble rests, and returns the stacks of goroutines that run code of the package and not of its
// tests.
func ours() (out []string) {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "sortie/dnscache.") && !strings.Contains(stack, "dnscache_test.") {
			out = append(out, stack)
		}
	}
	return out
}
