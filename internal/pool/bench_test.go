package pool_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
				resp, _, err := p.RoundTrip(req, pool.Want{Idempotent: true, OwnContext: true})
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

func run(b *testing.B, workers int, url string, roundTrip func(*http.Request) (*http.Response, error)) {
	b.ReportAllocs()
	b.SetParallelism(workers / 2)
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		buf := make([]byte, 4096)
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		for pb.Next() {
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
