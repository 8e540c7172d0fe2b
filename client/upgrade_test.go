package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// switches returns a handler that switches protocols and leaves the connection to serve.
func switches(t *testing.T, serve func(rw *bufio.ReadWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		serve(rw)
		rw.Flush()
	}
}

func upgrade(t *testing.T, c *client.Client) *http.Response {
	t.Helper()
	req := newRequest(t, t.Context(), "GET", up, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp := mustDo(t, c, req)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return resp
}

func TestAnUpgradedConnectionCanBeHalfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", switches(t, func(rw *bufio.ReadWriter) {
			all, _ := io.ReadAll(rw) // ends when the client half-closes
			rw.Write(all)
		}))
		c := lab.client(client.Policy{})
		resp := upgrade(t, c)
		half, ok := resp.Body.(interface {
			io.Writer
			CloseWrite() error
		})
		if !ok {
			t.Fatalf("%T cannot be half-closed, as httputil.ReverseProxy would", resp.Body)
		}
		io.WriteString(half, "hello")
		if err := half.CloseWrite(); err != nil {
			t.Error(err)
		}
		if got := readAll(t, resp); got != "hello" {
			t.Errorf("read %q", got)
		}
		settled(t, c)
	})
}

func TestOnlyASwitchOfProtocolsLeavesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen reports
		c := behind(t, timeouts(time.Second, -1, -1), func(*http.Request) (*http.Response, error) {
			r, w := io.Pipe()
			return &http.Response{StatusCode: 200, Body: struct {
				io.ReadCloser
				io.Writer
			}{r, w}}, nil
		}, seen.config)
		resp := get(t, c, up)
		if _, writable := resp.Body.(io.Writer); writable {
			t.Error("the body of a 200 can be written to")
		}
		time.Sleep(time.Second + 1)
		if r := seen.only(t); r.Reason != client.ReasonDeadline || r.Duration != time.Second {
			t.Errorf("report %v", r)
		}
		settled(t, c)
	})
}

func TestShutdownCutsTheReadOfAnUpgradedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", switches(t, func(rw *bufio.ReadWriter) { io.Copy(io.Discard, rw) }))
		var seen reports
		c := lab.client(client.Policy{}, seen.config)
		resp := upgrade(t, c)
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			read <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Shutdown returned %v after %v", err, time.Since(start))
		}
		if err := <-read; !errors.Is(err, client.ErrDraining) {
			t.Errorf("the reader got %v", err)
		}
		if r := seen.only(t); r.Reason != client.ReasonDraining || r.Duration != 2*time.Second {
			t.Errorf("report %v", r)
		}
	})
}
