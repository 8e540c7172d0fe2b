package client_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// inNamespace says to the test binary, started again, that it has a network of its own.
const inNamespace = "SORTIE_TEST_NETWORK_NAMESPACE"

// The kernel itself runs out of ports: in a network namespace with sixteen of them, whose closed connections keep theirs for the
// usual minute. The limits are read there, as everywhere, so Sortie knows them.
func TestWithTheKernelsOwnLimits_go13801(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		runInNamespace(t)
		return
	}
	const ports, workers, calls = 16, 40, 400
	setUpNamespace(t, ports)
	serve := func(address string) *sortietest.Upstream { // outside the range
		up := &sortietest.Upstream{Address: address, Steps: []sortietest.Step{sortietest.OK("hello").After(time.Millisecond)}}
		up.Start(t)
		return up
	}
	plain, served := serve("127.0.0.1:30001"), serve("127.0.0.1:30002")

	transport := &http.Transport{} // with the defaults: two idle connections per host
	defer transport.CloseIdleConnections()
	failed, refused := load(workers, calls, func() error { return fetch(&http.Client{Transport: transport}, plain.URL()) })
	t.Logf("http.Client: %d of %d calls failed, %d with EADDRNOTAVAIL, %d connections", failed, calls, refused, plain.Stats().Conns)
	if refused == 0 {
		t.Error("http.Client did not run out of ports: this test shows nothing")
	}

	c := newClient(t, client.Config{Logger: slog.New(slog.DiscardHandler)})
	failed, _ = load(workers, calls, func() error { return fetch(c.HTTP(), served.URL()) })
	p := c.Stats().Ports[0]
	t.Logf("Sortie: %d of %d calls failed, %d connections; %v", failed, calls, served.Stats().Conns, p)
	if failed != 0 || served.Stats().Conns > ports {
		t.Errorf("%d calls failed, %d connections, want none and %d at most", failed, served.Stats().Conns, ports)
	}
	if p.Budget != ports || p.Preset != "linux" || !strings.Contains(p.Source, "ip_local_port_range 40000 40015") {
		t.Errorf("the ledger: %+v", p)
	}

	// Who closes first keeps the port. A server that does leaves ours free, which the ledger cannot always see: it must not refuse
	// what the kernel grants.
	closing := &sortietest.Upstream{Address: "127.0.0.1:30003", Steps: []sortietest.Step{sortietest.OK("hello").ThenClose()}}
	closing.Start(t)
	for name, get := range map[string]*http.Client{"http.Client": {Transport: transport}, "Sortie": c.HTTP()} {
		failed, _ := load(1, 4*ports, func() error { return fetch(get, closing.URL()) })
		if failed != 0 {
			t.Errorf("%s: %d of %d calls failed over connections that the server closes", name, failed, 4*ports)
		}
	}

	// Where others have used the ports up, the kernel's word is the same error.
	_, err := c.Do(newRequest(t, t.Context(), "GET", plain.URL(), nil))
	e, ok := errors.AsType[*client.PortError](err)
	if !ok || !errors.Is(e.Cause, syscall.EADDRNOTAVAIL) || e.Budget != ports || client.ReasonOf(err) != client.ReasonPortBudget {
		t.Errorf("err = %v", err)
	}
}

// load makes calls and counts those that fail, and those for which the kernel had no port.
func load(workers, calls int, call func() error) (failed, refused int32) {
	var begun, bad, none atomic.Int32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for begun.Add(1) <= int32(calls) {
				err := call()
				if err != nil {
					bad.Add(1)
				}
				if errors.Is(err, syscall.EADDRNOTAVAIL) {
					none.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return bad.Load(), none.Load()
}

func fetch(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// runInNamespace runs the test once more in a network namespace of its own.
func runInNamespace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the command ip (package iproute2), to bring up the loopback interface of a network namespace")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 { // as root of a user namespace, where the system lets everybody make one
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	switch err := cmd.Start(); {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC):
		t.Skipf("no network namespace may be made here (%v); run as root, or allow unprivileged user namespaces", err)
	case err != nil:
		t.Fatal(err)
	}
	err := cmd.Wait()
	text := out.String()
	switch {
	case strings.Contains(text, "--- SKIP"):
		t.Skipf("in the namespace:\n%s", text)
	case err != nil || !strings.Contains(text, "--- PASS"):
		t.Fatalf("in the namespace: %v\n%s", err, text)
	}
	t.Logf("in the namespace:\n%s", text)
}

// setUpNamespace leaves the namespace with a loopback interface and so many ports.
func setUpNamespace(t *testing.T, ports int) {
	t.Helper()
	if interfaces, err := net.Interfaces(); err != nil || len(interfaces) != 1 {
		t.Fatalf("this is no new network namespace: %v, %v", interfaces, err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("the loopback interface of the namespace cannot be brought up: %v: %s", err, out)
	}
	for name, value := range map[string]string{
		"ip_local_port_range": "40000 " + strconv.Itoa(40000+ports-1),
		"tcp_tw_reuse":        "0",
	} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			t.Skipf("the ports of the namespace cannot be limited, as /proc/sys may not be written: %v", err)
		}
	}
}
