package memnet_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
)

const window = 64 << 10

// pair runs f in a bubble with both ends of a connection over n, which are closed afterwards.
func pair(t *testing.T, f func(t *testing.T, client, server *memnet.Conn)) {
	t.Helper()
	pairRTT(t, 0, f)
}

func pairRTT(t *testing.T, rtt time.Duration, f func(t *testing.T, client, server *memnet.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.SetRTT("10.0.0.1:80", rtt)
		ln, err := n.Listen("10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		client, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		defer client.Close()
		defer server.Close()
		f(t, client.(*memnet.Conn), server.(*memnet.Conn))
	})
}

// wantOpError checks that err is what package net would return: an OpError of that operation with that cause.
func wantOpError(t *testing.T, err error, op string, cause error) {
	t.Helper()
	oe, ok := err.(*net.OpError)
	if !ok || oe.Op != op || oe.Net != "tcp" || !errors.Is(err, cause) {
		t.Errorf("error %#v, want a *net.OpError of %q because of %v", err, op, cause)
	}
}

func wantRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(r, b); err != nil || string(b) != want {
		t.Errorf("read %q, %v, want %q", b[:n], err, want)
	}
}

func wantNoRead(t *testing.T, r io.Reader, want error) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Errorf("read %d, %v, want nothing but %v", n, err, want)
	}
}

func TestBytesPassBothWaysAtOnce(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		want := make([]byte, 1<<20)
		rng := rand.NewChaCha8([32]byte{})
		rng.Read(want)
		var wg sync.WaitGroup
		for _, c := range []*memnet.Conn{client, server} {
			wg.Go(func() {
				if n, err := io.Copy(c, bytes.NewReader(want)); n != int64(len(want)) || err != nil {
					t.Errorf("copied %d, %v", n, err)
				}
				c.CloseWrite()
			})
			wg.Go(func() {
				if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
					t.Errorf("read %d bytes, %v: not those written", len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

func TestWriterWaitsWhenTheWindowIsFull(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		if n, err := client.Write(make([]byte, window)); n != window || err != nil {
			t.Fatalf("a window full: %d, %v", n, err)
		}
		client.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := client.Write(make([]byte, 1))
		if n != 0 {
			t.Errorf("wrote %d bytes beyond the window", n)
		}
		wantOpError(t, err, "write", os.ErrDeadlineExceeded)

		client.SetWriteDeadline(time.Time{})
		wrote := make(chan error)
		go func() {
			_, err := client.Write(make([]byte, 100))
			wrote <- err
		}()
		synctest.Wait()
		io.CopyN(io.Discard, server, 40)
		synctest.Wait()
		select {
		case <-wrote:
			t.Error("40 bytes of room let 100 pass")
		default:
		}
		io.CopyN(io.Discard, server, 60)
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

func TestWritesDoNotMix(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { client.Write(bytes.Repeat([]byte{byte(i)}, 2*window)) })
		}
		for range 4 {
			b := make([]byte, 2*window)
			io.ReadFull(server, b)
			if !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) {
				t.Error("bytes of two writes are mixed")
			}
		}
		wg.Wait()
	})
}

// A stream that is never quite read empty lives in the memory it has.
func TestSteadyStreamDoesNotGrow(t *testing.T) {
	n := memnet.New()
	ln := listen(t, n, "10.0.0.1:80")
	client := dial(t, n, "10.0.0.1:80")
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	b := make([]byte, 1000)
	client.Write(b)
	if allocs := testing.AllocsPerRun(10, func() {
		for range 1000 {
			client.Write(b)
			io.ReadFull(server, b)
		}
	}); allocs > 0 {
		t.Errorf("%v allocations for a megabyte that passes", allocs)
	}
}

func TestEmptyReadAndWrite(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		if n, err := client.Read(nil); n != 0 || err != nil {
			t.Errorf("Read(nil) = %d, %v", n, err)
		}
		if n, err := client.Write(nil); n != 0 || err != nil {
			t.Errorf("Write(nil) = %d, %v", n, err)
		}
	})
}

func TestCloseEndsBothDirections(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		server.Write([]byte("bye"))
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		wantOpError(t, server.Close(), "close", net.ErrClosed)
		_, err := server.Write([]byte("x"))
		wantOpError(t, err, "write", net.ErrClosed)
		_, err = server.Read(make([]byte, 1))
		wantOpError(t, err, "read", net.ErrClosed)
		wantOpError(t, server.SetDeadline(time.Now()), "set", net.ErrClosed)
		wantOpError(t, server.CloseWrite(), "close", net.ErrClosed)

		wantRead(t, client, "bye")
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read %v, want a bare io.EOF", err)
		}
		_, err = client.Write([]byte("x"))
		wantOpError(t, err, "write", syscall.EPIPE)
	})
}

func TestCloseWakesWhoWaits(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		client.Write(make([]byte, window))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := client.Read(make([]byte, 1))
			wantOpError(t, err, "read", net.ErrClosed)
		})
		wg.Go(func() {
			_, err := client.Write(make([]byte, 1))
			wantOpError(t, err, "write", net.ErrClosed)
		})
		synctest.Wait()
		client.Close()
		wg.Wait()
	})
}

func TestHalfClose(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		client.Write([]byte("question"))
		if err := client.CloseWrite(); err != nil {
			t.Error(err)
		}
		_, err := client.Write([]byte("x"))
		wantOpError(t, err, "write", syscall.EPIPE)

		wantRead(t, server, "question")
		wantNoRead(t, server, io.EOF)
		server.Write([]byte("answer"))
		server.Close()
		wantRead(t, client, "answer")
		wantNoRead(t, client, io.EOF)
	})
}

// Linux sends a reset when a socket is closed over unread bytes: how an answer gets lost by a server that does not
// read the request.
func TestCloseOverUnreadBytesResets(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		client.Write([]byte("question"))
		server.Write([]byte("go away"))
		server.Close()
		wantRead(t, client, "go away")
		_, err := client.Read(make([]byte, 1))
		wantOpError(t, err, "read", syscall.ECONNRESET)
		_, err = client.Write([]byte("x"))
		wantOpError(t, err, "write", syscall.ECONNRESET)
	})
}

func TestResetIsSeenByBothEnds(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		server.Write([]byte("half an ans"))
		client.Write(make([]byte, window))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := client.Write([]byte("x"))
			wantOpError(t, err, "write", syscall.ECONNRESET)
		})
		synctest.Wait()
		server.Reset()
		wg.Wait()

		wantRead(t, client, "half an ans")
		for range 2 {
			_, err := client.Read(make([]byte, 1))
			wantOpError(t, err, "read", syscall.ECONNRESET)
			_, err = client.Write([]byte("x"))
			wantOpError(t, err, "write", syscall.ECONNRESET)
		}
		io.CopyN(io.Discard, server, window)
		_, err := server.Read(make([]byte, 1))
		wantOpError(t, err, "read", syscall.ECONNRESET)
		if err := client.Close(); err != nil {
			t.Errorf("close after a reset: %v", err)
		}
	})
}

func TestResetWakesAReader(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		var wg sync.WaitGroup
		for _, c := range []*memnet.Conn{client, server} {
			wg.Go(func() {
				_, err := c.Read(make([]byte, 1))
				wantOpError(t, err, "read", syscall.ECONNRESET)
			})
		}
		synctest.Wait()
		client.Reset()
		wg.Wait()
	})
}

func TestDropTellsNobody(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		server.Write([]byte("before"))
		client.Drop()
		if n, err := client.Write(make([]byte, window)); n != window || err != nil {
			t.Errorf("write after drop: %d, %v", n, err)
		}
		client.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := client.Write([]byte("x"))
		wantOpError(t, err, "write", os.ErrDeadlineExceeded)

		server.Write([]byte("after"))
		server.Reset()
		server.Close()
		wantRead(t, client, "before")
		client.SetReadDeadline(time.Now().Add(24 * time.Hour))
		_, err = client.Read(make([]byte, 1))
		wantOpError(t, err, "read", os.ErrDeadlineExceeded)
	})
}

func TestDeadlines(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		start := time.Now()
		client.SetReadDeadline(start.Add(time.Minute))
		_, err := client.Read(make([]byte, 1))
		wantOpError(t, err, "read", os.ErrDeadlineExceeded)
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("timed out after %v", d)
		}

		server.Write([]byte("late"))
		wantNoRead(t, client, os.ErrDeadlineExceeded) // though there are bytes, as with a socket
		client.SetReadDeadline(time.Time{})
		wantRead(t, client, "late")
	})
}

func TestDeadlineMovedWhileReading(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		start := time.Now()
		client.SetDeadline(start.Add(time.Minute))
		read := make(chan time.Duration)
		go func() {
			client.Read(make([]byte, 1))
			read <- time.Since(start)
		}()
		synctest.Wait()
		client.SetDeadline(start.Add(time.Hour))
		if d := <-read; d != time.Hour {
			t.Errorf("deadline moved to 1h, timed out after %v", d)
		}

		client.SetDeadline(time.Time{})
		go func() {
			_, err := client.Read(make([]byte, 1))
			wantOpError(t, err, "read", os.ErrDeadlineExceeded)
			read <- time.Since(start)
		}()
		synctest.Wait()
		client.SetDeadline(time.Unix(1, 0))
		if d := <-read; d != time.Hour {
			t.Errorf("a deadline in the past took until %v", d)
		}
	})
}

func TestPartialWriteIsCounted(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		client.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := client.Write(make([]byte, window+1))
		if n != window {
			t.Errorf("wrote %d, want %d", n, window)
		}
		wantOpError(t, err, "write", os.ErrDeadlineExceeded)
	})
}

func TestBytesTravelHalfARoundTrip(t *testing.T) {
	pairRTT(t, 100*time.Millisecond, func(t *testing.T, client, server *memnet.Conn) {
		start := time.Now()
		server.Write([]byte("a"))
		time.Sleep(30 * time.Millisecond)
		server.Write([]byte("bc"))
		server.Close()
		if d := time.Since(start); d != 30*time.Millisecond {
			t.Errorf("sending took %v", d)
		}
		client.Write([]byte("on its way into the void"))

		b := make([]byte, 10)
		n, err := client.Read(b)
		if d := time.Since(start); string(b[:n]) != "a" || err != nil || d != 50*time.Millisecond {
			t.Errorf("read %q, %v after %v, want a after 50ms", b[:n], err, d)
		}
		rest, err := io.ReadAll(client)
		if d := time.Since(start); string(rest) != "bc" || err != nil || d != 80*time.Millisecond {
			t.Errorf("read %q, %v after %v, want bc after 80ms", rest, err, d)
		}
		_, err = client.Write([]byte("x"))
		wantOpError(t, err, "write", syscall.EPIPE)
	})
}

func TestRacyUse(t *testing.T) {
	pair(t, func(t *testing.T, client, server *memnet.Conn) {
		var wg sync.WaitGroup
		for range 8 {
			for _, c := range []*memnet.Conn{client, server} {
				wg.Go(func() {
					b := make([]byte, 1024)
					for i := range 50 {
						c.SetReadDeadline(time.Now().Add(time.Duration(i) * time.Microsecond))
						c.Read(b)
						c.SetWriteDeadline(time.Now().Add(time.Duration(i) * time.Microsecond))
						c.Write(b)
						c.LocalAddr()
						c.RemoteAddr()
					}
				})
			}
		}
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			client.CloseWrite()
			server.Close()
		})
		wg.Wait()
	})
}
