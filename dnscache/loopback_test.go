package dnscache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// These tests use real sockets: the kernel's UDP, TCP and timeouts, and package net's own resolver on them.

func resolverOn(t *testing.T, servers ...netip.AddrPort) *dnscache.Resolver {
	t.Helper()
	r := &dnscache.Resolver{Servers: servers}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestLoopbackAnswers(t *testing.T) {
	dns := sortietest.NewDNS(t)
	dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
	dns.Script("big.example.com", "A", sortietest.DNSReply{Truncate: true, TTL: 77, Addrs: []string{"192.0.2.2"}})
	dns.Script("alias.example.com", "A", sortietest.DNSReply{CNAME: []string{"lb.example.net"}, TTL: 60, Addrs: []string{"192.0.2.3"}})
	dns.Script("broken.example.com", "", sortietest.ServFail())
	r := resolverOn(t, dns.Addr())
	for name, want := range map[string]string{
		"api.example.com": "192.0.2.1", "big.example.com": "192.0.2.2", "alias.example.com": "192.0.2.3",
	} {
		got, err := r.Lookup(t.Context(), name)
		if err != nil || !slices.Contains(got.Append(nil), netip.MustParseAddr(want)) || got.TTL() <= 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]dnscache.Kind{"no.example.com": dnscache.NotFound, "broken.example.com": dnscache.Failure} {
		_, err := r.Lookup(t.Context(), name)
		if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	before := len(dns.Questions())
	for range 100 {
		if _, err := r.Lookup(t.Context(), "api.example.com"); err != nil {
			t.Error(err)
		}
	}
	if n := len(dns.Questions()); n != before {
		t.Errorf("%d questions for names in memory", n-before)
	}
}

func TestLoopbackGoldenNumbers(t *testing.T) {
	dns := sortietest.NewDNS(t)
	dns.Host("api.example.com", 30, "192.0.2.1", "2001:db8::1")
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte(searchABCD), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[dnscache.Mode]int{dnscache.Auto: 2, dnscache.Strict: 10, dnscache.Absolute: 2} {
		dns.Reset()
		r := &dnscache.Resolver{Mode: mode, DialDNS: dns.DialLoopback}
		dnscache.Hook(r, dnscache.Hooks{ResolvConf: conf})
		if _, err := r.Lookup(t.Context(), "api.example.com"); err != nil {
			t.Error(err)
		}
		ports := make(map[uint16]bool)
		for _, q := range dns.Questions() {
			ports[q.From.Port()] = true
		}
		if n := len(dns.Questions()); n != want || len(ports) != want {
			t.Errorf("%v: %d questions from %d ports, want %d", mode, n, len(ports), want)
		}
		r.Close()
	}
}

func TestLoopbackSilentServer(t *testing.T) {
	dns := sortietest.NewDNS(t)
	dns.Outage(sortietest.DNSReply{Drop: true})
	r := &dnscache.Resolver{Servers: []netip.AddrPort{dns.Addr()}, QueryTimeout: 50 * time.Millisecond}
	defer r.Close()
	_, err := r.Lookup(t.Context(), "api.example.com")
	if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.Timeout {
		t.Errorf("%v", err)
	}
	if n := len(dns.Questions()); n != 4 {
		t.Errorf("%d questions, want two tries for each family", n)
	}
}

func TestLoopbackNobodyListens(t *testing.T) {
	dns := sortietest.NewDNS(t)
	addr := dns.Addr()
	dns.Close()
	r := resolverOn(t, addr)
	_, err := r.Lookup(t.Context(), "api.example.com")
	if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.Failure {
		t.Errorf("%v", err)
	}
}

func TestLoopbackCloseWaitsForNobody(t *testing.T) {
	dns := sortietest.NewDNS(t)
	dns.Outage(sortietest.DNSReply{Drop: true})
	r := &dnscache.Resolver{Servers: []netip.AddrPort{dns.Addr()}, QueryTimeout: time.Hour, LookupTimeout: time.Hour}
	done := make(chan error)
	go func() {
		_, err := r.Lookup(context.Background(), "api.example.com")
		done <- err
	}()
	for len(dns.Questions()) < 2 {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	r.Close() // returns long before package net's deadline of 5 s
	if err := <-done; !errors.Is(err, dnscache.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestLoopbackUnderPlainTransport(t *testing.T) {
	dns := sortietest.NewDNS(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer srv.Close()
	dns.Host("shop.example", 30, "127.0.0.1")
	r := resolverOn(t, dns.Addr())
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	tr := &http.Transport{DialContext: r.DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			resp, err := client.Get("http://shop.example:" + port)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	wg.Wait()
	if n := len(dns.Questions()); n != 2 {
		t.Errorf("%d questions for 20 connections", n)
	}
}

func TestLoopbackConnectHooksAreCalledOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := resolverOn(t)
	var starts, ends atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		ConnectStart: func(string, string) { starts.Add(1) },
		ConnectDone:  func(string, string, error) { ends.Add(1) },
	})
	c, err := r.DialContext(ctx, "tcp", ln.Addr().String()) // by a net.Dialer, which would call them, too
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if starts.Load() != 1 || ends.Load() != 1 {
		t.Errorf("%d starts, %d ends", starts.Load(), ends.Load())
	}
}

// TestBehindUnbound puts a real caching server between the Resolver and the script: its own EDNS, TTLs that count down,
// CNAME chasing and negative cache.
func TestBehindUnbound(t *testing.T) {
	path, err := exec.LookPath("unbound")
	if err != nil {
		t.Skip("unbound is not installed (apt-get install unbound)")
	}
	origin := sortietest.NewDNS(t)
	origin.Host("api.shop.test", 300, "192.0.2.1", "2001:db8::1")
	origin.Script("www.shop.test", "", sortietest.DNSReply{CNAME: []string{"api.shop.test"}, TTL: 20, Addrs: []string{"192.0.2.1", "2001:db8::1"}})
	origin.Script("four.shop.test", "A", reply(60, "192.0.2.4"))
	origin.Script("four.shop.test", "AAAA", sortietest.NoData())
	server := startUnbound(t, path, origin.Addr())
	r := resolverOn(t, server)

	got, err := r.Lookup(t.Context(), "api.shop.test")
	if err != nil || got.Len() != 2 || got.TTL() > 300*time.Second || got.TTL() < 200*time.Second {
		t.Fatalf("%v with TTL %v, %v", got, got.TTL(), err)
	}
	got, err = r.Lookup(t.Context(), "www.shop.test")
	if err != nil || got.Len() != 2 || got.TTL() > 20*time.Second {
		t.Errorf("alias: %v with TTL %v, %v", got, got.TTL(), err)
	}
	got, err = r.Lookup(t.Context(), "four.shop.test")
	if err != nil || got.String() != "192.0.2.4" || got.Partial() {
		t.Errorf("one family: %v, partial %v, %v", got, got.Partial(), err)
	}
	_, err = r.Lookup(t.Context(), "missing.shop.test")
	if e, ok := errors.AsType[*dnscache.Error](err); !ok || e.Kind != dnscache.NotFound {
		t.Errorf("missing: %v", err)
	}
	if s := r.Stats(); s.Questions != 8 {
		t.Errorf("%d questions to unbound, want two for each name", s.Questions)
	}
}

// startUnbound runs unbound as a child of the test, forwarding all of "test." to origin.
func startUnbound(t *testing.T, path string, origin netip.AddrPort) netip.AddrPort {
	t.Helper()
	dir := t.TempDir()
	port := freePort(t)
	conf := filepath.Join(dir, "unbound.conf")
	text := fmt.Sprintf(`server:
  interface: 127.0.0.1@%[1]d
  username: ""
  chroot: ""
  directory: %[2]q
  pidfile: ""
  logfile: ""
  use-syslog: no
  do-daemonize: no
  do-not-query-localhost: no
  module-config: "iterator"
  num-threads: 1
  local-zone: "test." nodefault
forward-zone:
  name: "test."
  forward-addr: 127.0.0.1@%[3]d
remote-control:
  control-enable: no
`, port, dir, origin.Port())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command(path, "-d", "-p", "-c", conf)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("unbound is installed and does not start: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil { // until it listens: TCP tells
		if c, err := (&net.Dialer{Timeout: 50 * time.Millisecond}).DialContext(ctx, "tcp", addr.String()); err == nil {
			c.Close()
			return addr
		}
	}
	t.Fatalf("unbound does not listen: %s", log.String())
	return addr
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort().Port()
}
