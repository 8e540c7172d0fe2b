package sortietest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// In a test, t is the test's own.
func Example() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t,
		sortietest.Status(503).With("Retry-After", "1"),
		sortietest.OK("hello").After(20*time.Millisecond))
	client := up.Client()

	for range 3 {
		resp, err := client.Get(up.URL() + "/items/7")
		if err != nil {
			t.Fatalf("%v", err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%d %q\n", resp.StatusCode, body)
	}
	fmt.Println(up.Stats().Requests, "requests,", up.Stats().Conns, "connection")
	// Output:
	// 503 ""
	// 200 "hello"
	// 200 "hello"
	// 3 requests, 1 connection
}

// A script by the request instead of by its number.
func ExampleUpstream_respond() {
	t := newExample()
	defer t.end()

	up := &sortietest.Upstream{Respond: func(r *http.Request) sortietest.Step {
		if r.Method == http.MethodPost {
			return sortietest.Status(503)
		}
		return sortietest.OK("you asked for " + r.URL.Path)
	}}
	up.Start(t)

	resp, err := up.Client().Get(up.URL() + "/items/7")
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: you asked for /items/7
}

// TLS and HTTP/2. Clients of your own take ClientTLS.
func ExampleUpstream_tls() {
	t := newExample()
	defer t.end()

	up := &sortietest.Upstream{TLS: true, HTTP2: true, Steps: []sortietest.Step{sortietest.OK("hello")}}
	up.Start(t)

	tr := &http.Transport{TLSClientConfig: sortietest.ClientTLS(), ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(up.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	resp.Body.Close()
	fmt.Println(resp.Proto, resp.StatusCode)
	// Output: HTTP/2.0 200
}

// The body breaks off after two bytes.
func ExampleStep_ResetAt() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t, sortietest.OK("hello").ResetAt(2))
	resp, err := up.Client().Get(up.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Printf("%q, reset: %v\n", body, errors.Is(err, syscall.ECONNRESET))
	// Output: "he", reset: true
}

// A server dies and comes back.
func ExampleUpstream_Refuse() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t, sortietest.OK("hello"))
	client := up.Client()

	up.Refuse()
	_, err := client.Get(up.URL())
	fmt.Println("refused:", errors.Is(err, syscall.ECONNREFUSED))

	up.Restore()
	resp, err := client.Get(up.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	resp.Body.Close()
	fmt.Println("restored:", resp.StatusCode)
	// Output:
	// refused: true
	// restored: 200
}

// The keep-alive race: the connection is closed in the moment it is used again. A POST is lost with it, as nobody can
// tell whether the server has acted on it.
func ExampleUpstream_staleReuse() {
	t := newExample()
	defer t.end()

	up := &sortietest.Upstream{RequestsPerConn: 1, StaleReuse: true}
	up.Start(t)
	client := up.Client()

	for range 3 {
		resp, err := client.Post(up.URL(), "text/plain", strings.NewReader("order"))
		if err != nil {
			fmt.Println("lost")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 200
	// lost
	// 200
}

// Waiting for what the upstream sees, instead of sleeping.
func ExampleUpstream_Await() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t, sortietest.Hang())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := up.Await(ctx, func(s sortietest.Stats) bool { return s.Requests == 2 })
		fmt.Println("both arrived:", err == nil)
		cancel()
	}()

	results := make(chan error)
	for range 2 {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, up.URL(), nil)
			_, err := up.Client().Do(req)
			results <- err
		}()
	}
	for range 2 {
		fmt.Println("cancelled:", errors.Is(<-results, context.Canceled))
	}
	// Output:
	// both arrived: true
	// cancelled: true
	// cancelled: true
}

// What the upstream was sent.
func ExampleUpstream_Requests() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t, sortietest.Status(201))
	resp, err := up.Client().Post(up.URL()+"/orders?dry=1", "text/plain", strings.NewReader("seven"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	resp.Body.Close()

	r := up.Requests()[0]
	fmt.Println(r.Method, r.URL, r.Header.Get("Content-Type"))
	fmt.Printf("%s, on connection %d\n", r.Body, r.Conn)
	// Output:
	// POST /orders?dry=1 text/plain
	// seven, on connection 1
}

// Whatever no step can do is a handler.
func ExampleHandle() {
	t := newExample()
	defer t.end()

	early := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})
	up := sortietest.NewUpstream(t, sortietest.Status(503), sortietest.Handle(early))
	for range 2 {
		resp, err := up.Client().Get(up.URL())
		if err != nil {
			t.Fatalf("%v", err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 503
	// 204
}

// Two upstreams at addresses of our choice, one of which cannot be reached.
func ExampleNetwork() {
	t := newExample()
	defer t.end()

	n := sortietest.NewNetwork()
	n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("hello"))
	n.NewUpstream(t, "10.0.0.2:80").Refuse()

	tr := &http.Transport{DialContext: n.DialContext}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	for _, url := range []string{"http://10.0.0.1/", "http://10.0.0.2/"} {
		resp, err := client.Get(url)
		if err != nil {
			fmt.Println(url, "refused:", errors.Is(err, syscall.ECONNREFUSED))
			continue
		}
		resp.Body.Close()
		fmt.Println(url, resp.StatusCode)
	}
	// Output:
	// http://10.0.0.1/ 200
	// http://10.0.0.2/ refused: true
}

// An upstream 30 ms away: each request takes that much longer.
func ExampleDelay() {
	t := newExample()
	defer t.end()

	up := sortietest.NewUpstream(t, sortietest.OK("hello"))
	far := sortietest.NewDelay(t, up.Addr(), 30*time.Millisecond)

	client := up.Client()
	for range 2 {
		resp, err := client.Get(far.URL())
		if err != nil {
			t.Fatalf("%v", err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	fmt.Println(up.Stats().Requests, "requests,", far.Stats().Conns, "connection")
	// Output: 2 requests, 1 connection
}
