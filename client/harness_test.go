package client_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/internal/memnet"
)

// A wire answers every request with 200 and notes what it was given.
type wire struct {
	seen []*http.Request
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.seen = append(w.seen, req)
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	return &http.Response{StatusCode: 200, Header: make(http.Header), Body: http.NoBody, Request: req}, nil
}

func (w *wire) last() *http.Request { return w.seen[len(w.seen)-1] }

// roundTrip is a Transport in one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A countingBody counts its Close calls.
type countingBody struct {
	io.Reader
	closed int
}

func (b *countingBody) Close() error { b.closed++; return nil }

func newClient(t testing.TB, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func get(t testing.TB, c *client.Client, url string) *http.Response {
	t.Helper()
	return getWith(t, t.Context(), c, url)
}

func getWith(t testing.TB, ctx context.Context, c *client.Client, url string) *http.Response {
	t.Helper()
	resp, err := c.Do(newRequest(t, ctx, "GET", url, nil))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func canceledContext(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A lab is a network in memory with servers on it. Make it inside the bubble that uses it.
type lab struct {
	*memnet.Network
	t *testing.T
}

func newLab(t *testing.T) *lab { return &lab{memnet.New(), t} }

// serve runs an HTTP server until the test ends.
func (l *lab) serve(address string, handler http.HandlerFunc) {
	l.t.Helper()
	ln, err := l.Listen(address)
	if err != nil {
		l.t.Fatal(err)
	}
	var running sync.WaitGroup
	srv := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			running.Add(1)
		case http.StateClosed, http.StateHijacked:
			running.Done()
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(ln)
	}()
	l.t.Cleanup(func() {
		srv.Close()
		<-done
		running.Wait()
	})
}

// client returns a client whose upstream "up" answers to the host "up.example" and lives at 10.0.0.1.
func (l *lab) client(policy client.Policy, change ...func(*client.Config)) *client.Client {
	l.t.Helper()
	cfg := client.Config{
		Dial: l.DialContext,
		Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"}, Policy: policy,
		}},
	}
	for _, c := range change {
		c(&cfg)
	}
	return newClient(l.t, cfg)
}

const up = "http://up.example"

// hangs sends nothing until the client has gone.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// answers returns a handler that sends a body.
func answers(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, body)
	}
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return string(b)
}

// reports collects what OnCall gets.
type reports struct {
	mu  sync.Mutex
	all []client.Report
}

func (r *reports) add(rep client.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rep)
}

func (r *reports) config(cfg *client.Config) { cfg.OnCall = r.add }

// only returns the one report there must be.
func (r *reports) only(t testing.TB) client.Report {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) != 1 {
		t.Fatalf("%d reports, want 1", len(r.all))
	}
	return r.all[0]
}

// settled checks that nothing is left of the calls: none is open, and no connection is busy.
func settled(t testing.TB, c *client.Client) {
	t.Helper()
	for _, u := range c.Stats().Upstreams {
		if u.Open != 0 {
			t.Errorf("%s: %d calls still open", u.Name, u.Open)
		}
		for _, e := range u.Endpoints {
			if e.Active != 0 {
				t.Errorf("%s: %d connections still busy", e.Base, e.Active)
			}
		}
	}
}
