package sortietest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// errTimeout stands for any error that calls itself a timeout.
var errTimeout = errors.New("timeout")

// inMemory runs f in a bubble, on a network of its own.
func inMemory(t *testing.T, f func(t *testing.T, n *sortietest.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, sortietest.NewNetwork()) })
}

// get returns the status and body of a GET, and the error that ended it.
func get(c *http.Client, url string) (int, string, error) {
	return do(c, http.MethodGet, url, "")
}

func do(c *http.Client, method, url, body string) (int, string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	switch want {
	case errTimeout:
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			t.Errorf("error %v, want a timeout", err)
		}
	case errStream:
		const internalError = 2
		if se, ok := errors.AsType[streamError](err); !ok || se.Code != internalError {
			t.Errorf("error %v, want a stream error", err)
		}
	default:
		if !errors.Is(err, want) {
			t.Errorf("error %#v, want %v", err, want)
		}
	}
}

// What a plain http.Client sees of each fault. A client that hangs is stopped by its own timeout in a bubble, and on
// real sockets, where no test waits for a clock, by a cancel once the upstream has the request.
var faults = []struct {
	name   string
	step   sortietest.Step
	status int
	body   string
	err    error // in memory and on sockets, HTTP/1.1
	err2   error // HTTP/2, if different
}{
	{name: "ok", step: sortietest.OK("hello"), status: 200, body: "hello"},
	{name: "zero", status: 200},
	{name: "status", step: sortietest.Status(503).Body("busy"), status: 503, body: "busy"},
	{name: "no content", step: sortietest.Status(204), status: 204},
	{name: "after", step: sortietest.OK("hello").After(time.Millisecond), status: 200, body: "hello"},
	{name: "stall", step: sortietest.OK("hello").Stall(2, time.Millisecond), status: 200, body: "hello"},
	{name: "drip", step: sortietest.OK("hello").Drip(2, time.Millisecond), status: 200, body: "hello"},
	{name: "hang", step: sortietest.Hang(), err: errTimeout},
	{name: "hang in body", step: sortietest.OK("hello").HangAt(2), status: 200, body: "he", err: errTimeout},
	{name: "hang at the body's end", step: sortietest.OK("hello").HangAt(5), status: 200, body: "hello", err: errTimeout},
	{name: "reset", step: sortietest.Reset(), err: syscall.ECONNRESET},
	{name: "reset in body", step: sortietest.OK("hello").ResetAt(2), status: 200, body: "he", err: syscall.ECONNRESET},
	{name: "hangup", step: sortietest.Hangup(), err: io.EOF, err2: io.ErrUnexpectedEOF},
	{name: "hangup in body", step: sortietest.OK("hello").HangupAt(2), status: 200, body: "he", err: io.ErrUnexpectedEOF},
	{name: "abort", step: sortietest.Abort(), err: io.EOF, err2: errStream},
	{name: "abort in body", step: sortietest.OK("hello").AbortAt(2), status: 200, body: "he", err: io.ErrUnexpectedEOF, err2: errStream},
}

// errStream stands for an HTTP/2 stream error of code INTERNAL_ERROR.
var errStream = errors.New("stream error")

// streamError is filled by errors.As from net/http's own, unexported type.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

func TestFaultsInMemory(t *testing.T) {
	for _, proto := range []struct {
		name       string
		secure, h2 bool
	}{
		{"http", false, false},
		{"https", true, false},
		{"h2", true, true},
		{"h2c", false, true},
	} {
		for _, f := range faults {
			t.Run(proto.name+"/"+f.name, func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *sortietest.Network) {
					up := &sortietest.Upstream{
						Network: n,
						Address: "10.0.0.1:80",
						TLS:     proto.secure,
						HTTP2:   proto.h2,
						Steps:   []sortietest.Step{f.step},
					}
					up.Start(t)
					c := up.Client()
					c.Timeout = time.Minute
					status, body, err := get(c, up.URL())
					if status != f.status || body != f.body {
						t.Errorf("got %d %q, want %d %q", status, body, f.status, f.body)
					}
					if proto.h2 && f.err2 != nil {
						wantError(t, err, f.err2)
					} else {
						wantError(t, err, f.err)
					}
				})
			})
		}
	}
}

func TestFaultsOnSockets(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			up := sortietest.NewUpstream(t, f.step)
			if f.err == errTimeout {
				wantHang(t, up, f.status, f.body)
				return
			}
			status, body, err := get(up.Client(), up.URL())
			if status != f.status || body != f.body {
				t.Errorf("got %d %q, want %d %q", status, body, f.status, f.body)
			}
			wantError(t, err, f.err)
		})
	}
}

// wantHang checks that a request hangs after that much of an answer until it is cancelled, and that the upstream then
// lets go of it.
func wantHang(t *testing.T, up *sortietest.Upstream, status int, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, up.URL(), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		resp, err := up.Client().Do(req)
		if err != nil {
			wantError(t, err, context.Canceled)
			if status != 0 {
				t.Error("the headers did not come")
			}
			return
		}
		defer resp.Body.Close()
		got := make([]byte, len(body))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != body || resp.StatusCode != status {
			t.Errorf("answer %d %q, %v, want %d %q", resp.StatusCode, got, err, status, body)
		}
		cancel()
		_, err = resp.Body.Read(got[:1])
		wantError(t, err, context.Canceled)
	})
	await(t, up, func(s sortietest.Stats) bool { return s.Requests == 1 })
	if status == 0 {
		cancel()
	}
	await(t, up, func(s sortietest.Stats) bool { return s.InFlight == 0 && s.OpenConns == 0 })
	wg.Wait()
}

func await(t *testing.T, up *sortietest.Upstream, ready func(sortietest.Stats) bool) {
	t.Helper()
	if err := up.Await(t.Context(), ready); err != nil {
		t.Error(err)
	}
}

func getContext(ctx context.Context, c *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
