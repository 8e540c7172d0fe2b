package pool_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// loopback is a server that costs next to nothing, so that what is measured is the client, and a pool for it.
func loopback(tb testing.TB) (url string, p *pool.Pool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go answer(nc)
		}
	}()
	var d net.Dialer
	group := pool.NewGroup(pool.GroupConfig{})
	p = group.New(pool.Config{
		Transport: pool.NewTransport(pool.TransportConfig{}),
		Scheme:    "http",
		Host:      l.Addr().String(),
		Dial:      d.DialContext,
	})
	tb.Cleanup(func() {
		group.Close()
		l.Close()
	})
	return "http://" + l.Addr().String(), p
}

// answer answers whatever ends in an empty line.
func answer(nc net.Conn) {
	defer nc.Close()
	response := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 512\r\n\r\n" + strings.Repeat("x", 512))
	buf := make([]byte, 4096)
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
			nc.Write(response)
		}
	}
}

func readAll(resp *http.Response, buf []byte) error {
	for {
		if _, err := resp.Body.Read(buf); err == io.EOF {
			return resp.Body.Close()
		} else if err != nil {
			return err
		}
	}
}

func BenchmarkLoopback(b *testing.B) {
	for _, workers := range []int{1, 32} {
		name := map[int]string{1: "1", 32: "32"}[workers]
		b.Run("pool/"+name, func(b *testing.B) {
			url, p := loopback(b)
			run(b, workers, url, func(req *http.Request) (*http.Response, error) {
				own := req.WithContext(req.Context()) // the pool puts another context in it
				resp, _, err := p.Do(own, pool.Want{Idempotent: true, OwnContext: true})
				return resp, err
			})
		})
		b.Run("transport/"+name, func(b *testing.B) {
			url, _ := loopback(b)
			t := &http.Transport{MaxIdleConnsPerHost: 256}
			b.Cleanup(t.CloseIdleConnections)
			run(b, workers, url, t.RoundTrip)
		})
	}
}

// run spreads b.N requests over the workers.
func run(b *testing.B, workers int, url string, roundTrip func(*http.Request) (*http.Response, error)) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			buf := make([]byte, 4096)
			req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
			if err != nil {
				b.Error(err)
				return
			}
			for n := i; n < b.N; n += workers {
				resp, err := roundTrip(req)
				if err == nil {
					err = readAll(resp, buf)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkMemory says what an endpoint without connections and an idle HTTP/1 connection hold, the latter with its two
// goroutines and 8 KiB of buffers in net/http, and without its peer.
func BenchmarkMemory(b *testing.B) {
	held := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	b.Run("endpoint", func(b *testing.B) {
		group := pool.NewGroup(pool.GroupConfig{})
		transport := pool.NewTransport(pool.TransportConfig{})
		before := held()
		for range b.N {
			group.New(pool.Config{Transport: transport, Scheme: "http", Host: "a.example:80"})
		}
		b.ReportMetric(float64(held()-before)/float64(b.N), "B/endpoint")
		group.Close()
	})
	b.Run("connection", func(b *testing.B) {
		group := pool.NewGroup(pool.GroupConfig{MaxOpen: 1 << 20})
		dial := func(context.Context, string, string) (net.Conn, error) { return silent{make(chan struct{})}, nil }
		p := group.New(pool.Config{Transport: pool.NewTransport(pool.TransportConfig{}), Scheme: "http", Host: "a.example:80",
			Dial: dial, MaxConns: 1 << 20, IdleTimeout: time.Hour, MaxAge: -1})
		before := held()
		if err := p.Prewarm(context.Background(), b.N); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(held()-before)/float64(b.N), "B/connection")
		group.Close()
	})
}

// silent is a connection on which nothing ever happens but its close.
type silent struct{ closed chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.closed
	return 0, net.ErrClosed
}

func (s silent) Close() error {
	close(s.closed)
	return nil
}

func (silent) Write(p []byte) (int, error)      { return len(p), nil }
func (silent) LocalAddr() net.Addr              { return nil }
func (silent) RemoteAddr() net.Addr             { return nil }
func (silent) SetDeadline(time.Time) error      { return nil }
func (silent) SetReadDeadline(time.Time) error  { return nil }
func (silent) SetWriteDeadline(time.Time) error { return nil }
