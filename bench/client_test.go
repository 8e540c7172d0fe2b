package bench_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sortie-go/sortie/client"
)

// noop answers without a wire, so that what is measured is the client alone.
type noop struct{}

func (noop) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("hello")), ContentLength: 5, Request: req}, nil
}

// doer is what all clients here have in common.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

func sortie(b *testing.B, cfg client.Config) *client.Client {
	b.Helper()
	c, err := client.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func call(b *testing.B, ctx context.Context, c doer, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Error(err)
	}
	resp.Body.Close()
}

// BenchmarkNoopWire is the cost of the client itself.
func BenchmarkNoopWire(b *testing.B) {
	over := func(policy client.Policy) *client.Client {
		return sortie(b, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1:8080/base"}, Transport: noop{}, Policy: policy,
		}}})
	}
	type named struct {
		name string
		c    doer
	}
	clients := []named{
		{"bare", &http.Client{Transport: noop{}}},
		{"bare+timeout", &http.Client{Transport: noop{}, Timeout: 15e9}},
		{"sortie", over(client.Policy{})},
		{"sortie+timeout", over(client.Policy{Timeout: &client.Timeout{}})},
		{"sortie+standard", over(client.Standard())},
	}
	for _, p := range peers {
		clients = append(clients, named{p.name, p.make(b, noop{})})
	}
	for _, bc := range clients {
		b.Run("client="+bc.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				call(b, ctx, bc.c, "http://up.example/items/7")
			}
		})
	}
}

// BenchmarkLoopback is a call over HTTP/1.1 on loopback, 512 bytes, from 32 workers.
func BenchmarkLoopback(b *testing.B) {
	const workers = 32
	body := strings.Repeat("x", 512)
	type named struct {
		name string
		make func(url string) (doer, func())
	}
	clients := []named{
		{"bare", func(string) (doer, func()) {
			t := plainTransport()
			return &http.Client{Transport: t}, t.CloseIdleConnections
		}},
		{"sortie", func(url string) (doer, func()) { return overLoopback(b, url, client.Policy{}) }},
		{"sortie+timeout", func(url string) (doer, func()) {
			return overLoopback(b, url, client.Policy{Timeout: &client.Timeout{}})
		}},
		{"sortie+standard", func(url string) (doer, func()) { return overLoopback(b, url, client.Standard()) }},
	}
	for _, p := range peers {
		clients = append(clients, named{p.name, func(string) (doer, func()) {
			t := plainTransport()
			return p.make(b, t), t.CloseIdleConnections
		}})
	}
	for _, bc := range clients {
		b.Run("client="+bc.name, func(b *testing.B) {
			var conns atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			srv.Start()
			defer srv.Close()
			c, done := bc.make(srv.URL)
			defer done()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			b.SetParallelism(workers / 2) // times GOMAXPROCS, which is 2 where DESIGN.md's figures come from
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b, ctx, c, srv.URL+"/items/7")
				}
			})
			b.ReportMetric(float64(conns.Load()), "conns")
		})
	}
}

func plainTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 256 // what everybody has learnt to set
	return t
}

func overLoopback(b *testing.B, url string, policy client.Policy) (doer, func()) {
	c := sortie(b, client.Config{Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"*"}, External: []string{url}, Policy: policy,
	}}})
	return c, func() { c.Close() }
}
