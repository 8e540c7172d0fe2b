package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/internal/memnet"
)

// raw runs a server that does what it likes with each connection once it has read a request.
func (l *lab) raw(address string, do func(*memnet.Conn)) {
	ln, err := l.Listen(address)
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.Copy(io.Discard, req.Body) // what is left unread would make a reset of the close
					do(conn.(*memnet.Conn))
				}
			}()
		}
	}()
	l.t.Cleanup(func() {
		ln.Close()
		<-done
	})
}

func TestEveryFailureHasItsReason(t *testing.T) {
	says := func(text string) func(*lab) {
		return func(l *lab) { l.raw("10.0.0.1:80", func(c *memnet.Conn) { io.WriteString(c, text) }) }
	}
	for _, tc := range []struct {
		name   string
		world  func(*lab)
		policy client.Policy
		reason client.Reason
		is     error // what errors.Is finds
		sent   bool  // the server may have seen the request
	}{
		{name: "refused", world: func(l *lab) {}, reason: client.ReasonConnectRefused, is: syscall.ECONNREFUSED},
		{name: "black hole", world: func(l *lab) { l.BlackHole("10.0.0.1:80") }, reason: client.ReasonConnectTimeout, is: context.DeadlineExceeded},
		{name: "black hole, attempt limit first", world: func(l *lab) { l.BlackHole("10.0.0.1:80") },
			policy: timeouts(15*time.Second, time.Second, 0), reason: client.ReasonConnectTimeout, is: context.DeadlineExceeded},
		{name: "closed without an answer", world: says(""), reason: client.ReasonConnectionLost, is: io.EOF, sent: true},
		{name: "reset", world: func(l *lab) { l.raw("10.0.0.1:80", func(c *memnet.Conn) { c.Reset() }) },
			reason: client.ReasonRemoteReset, is: syscall.ECONNRESET, sent: true},
		{name: "not HTTP", world: says("SSH-2.0-OpenSSH_9.2\r\n\r\n"), reason: client.ReasonProtocol, sent: true},
		{name: "header cut short", world: says("HTTP/1.1 200 OK\r\nContent-Length: 1"), reason: client.ReasonConnectionLost, sent: true},
		{name: "header without colon", world: says("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), reason: client.ReasonProtocol, sent: true},
		{name: "header too large", world: says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 11<<20) + "\r\n\r\n"), reason: client.ReasonProtocol, sent: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				tc.world(lab)
				var seen reports
				c := lab.client(tc.policy, seen.config)
				body := &countingBody{Reader: strings.NewReader("body")}
				resp, err := c.Do(newRequest(t, t.Context(), "POST", up+"/x?secret=1", body))
				if resp != nil {
					t.Fatalf("a response beside the error: %v", resp)
				}
				if got := client.ReasonOf(err); got != tc.reason {
					t.Errorf("reason %v, want %v: %v", got, tc.reason, err)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%v is not %v", err, tc.is)
				}
				if client.NeverSent(err) == tc.sent {
					t.Errorf("NeverSent = %v: %v", client.NeverSent(err), err)
				}
				if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
					t.Errorf("text: %q", err)
				}
				if body.closed != 1 {
					t.Errorf("body closed %d times", body.closed)
				}
				r := seen.only(t)
				if r.Reason != tc.reason || len(r.Attempts) != 1 || r.Attempts[0].Reason != tc.reason || r.Account.Sum() != r.Duration {
					t.Errorf("report %+v", r)
				}
				settled(t, c)
			})
		})
	}
}

func TestABodyThatBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		do func(*memnet.Conn)
		is error
	}{
		"ends early": {func(c *memnet.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345") }, io.ErrUnexpectedEOF},
		"reset": {func(c *memnet.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
			time.Sleep(time.Second)
			c.Reset()
		}, syscall.ECONNRESET},
		"bad chunk": {func(c *memnet.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.raw("10.0.0.1:80", tc.do)
				c := lab.client(client.Policy{})
				resp := get(t, c, up)
				_, err := io.ReadAll(resp.Body)
				var e *client.Error
				if !errors.As(err, &e) || e.Reason != client.ReasonBodyBroken || e.Status != 200 || client.NeverSent(err) {
					t.Errorf("err = %v", err)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%v is not %v", err, tc.is)
				}
				resp.Body.Close()
				settled(t, c)
			})
		})
	}
}

func TestABrokenRequestBodyIsTheCallersFault(t *testing.T) {
	why := errors.New("disk on fire")
	for name, tc := range map[string]struct {
		body   io.Reader
		length int64
	}{
		"fails":     {io.MultiReader(strings.NewReader("abc"), failing{why}), 10},
		"too short": {strings.NewReader("abc"), 10},
		"too long":  {strings.NewReader("abcdefghijkl"), 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
					if b, err := io.ReadAll(r.Body); err == nil && len(b) < 10 {
						t.Error("the server saw a complete body")
					}
					<-r.Context().Done()
				})
				c := lab.client(client.Policy{})
				body := &countingBody{Reader: tc.body}
				req := newRequest(t, t.Context(), "POST", up, body)
				req.ContentLength = tc.length
				_, err := c.Do(req)
				if client.ReasonOf(err) != client.ReasonRequestBody || name == "fails" && !errors.Is(err, why) {
					t.Errorf("err = %v", err)
				}
				if body.closed != 1 {
					t.Errorf("body closed %d times", body.closed)
				}
				settled(t, c)
			})
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestInvalidHeadersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("x"))
		c := lab.client(client.Policy{})
		for name, change := range map[string]func(*http.Request){
			"name":   func(r *http.Request) { r.Header["X Y"] = []string{"z"} },
			"value":  func(r *http.Request) { r.Header["X"] = []string{"a\nb"} },
			"method": func(r *http.Request) { r.Method = "G E T" },
		} {
			req := newRequest(t, t.Context(), "GET", up, nil)
			change(req)
			if _, err := c.Do(req); client.ReasonOf(err) != client.ReasonInvalidRequest || !client.NeverSent(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		settled(t, c)
	})
}

// What net, the kernel and a foreign Transport say, without a pool in between.
func TestForeignErrorsHaveReasonsToo(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	read := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	}
	for _, tc := range []struct {
		err    error
		reason client.Reason
	}{
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, client.ReasonDNS},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "timeout", IsTimeout: true}}, client.ReasonDNS},
		{dial(syscall.ECONNREFUSED), client.ReasonConnectRefused},
		{dial(syscall.EHOSTUNREACH), client.ReasonConnectFailed},
		{dial(syscall.ECONNRESET), client.ReasonConnectFailed},
		{dial(syscall.ETIMEDOUT), client.ReasonConnectTimeout},
		{dial(syscall.EMFILE), client.ReasonLocalResource},
		{dial(syscall.EACCES), client.ReasonLocalResource},
		{dial(syscall.EADDRNOTAVAIL), client.ReasonPortBudget},
		{read(syscall.ECONNRESET), client.ReasonRemoteReset},
		{read(syscall.EPIPE), client.ReasonRemoteReset},
		{read(syscall.ETIMEDOUT), client.ReasonConnectionLost},
		{io.EOF, client.ReasonConnectionLost},
		{fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF), client.ReasonConnectionLost},
		{errors.New("who knows"), client.ReasonOther},
	} {
		c := newClient(t, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"},
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return nil, tc.err }),
		}}})
		body := &countingBody{Reader: strings.NewReader("body")}
		_, err := c.Do(newRequest(t, t.Context(), "POST", up, body))
		if got := client.ReasonOf(err); got != tc.reason || !errors.Is(err, tc.err) {
			t.Errorf("%v: reason %v, want %v", tc.err, got, tc.reason)
		}
		if body.closed != 1 { // the Transport above forgets it
			t.Errorf("%v: body closed %d times", tc.err, body.closed)
		}
	}
}

func TestErrorTypesAreTheClosedSet(t *testing.T) {
	known := map[string]bool{}
	for s := range strings.FieldsSeq(`timeout connect_timeout dns_error connection_refused connection_failed connection_reset
		tls_error protocol_error body_error credential_error port_budget queue_full no_endpoint breaker_open no_upstream
		draining panic _OTHER`) {
		known[s] = true
	}
	names := map[string]bool{}
	for r := client.ReasonOK; !strings.HasPrefix(r.String(), "reason("); r++ {
		if names[r.String()] {
			t.Errorf("two reasons are called %v", r)
		}
		names[r.String()] = true
		if et := r.ErrorType(); et != "" && !known[et] {
			t.Errorf("%v has the error type %q", r, et)
		}
	}
	if len(names) != 32 {
		t.Errorf("%d reasons, want 32", len(names))
	}
	if got := client.Reason(200).String(); got != "reason(200)" {
		t.Error(got)
	}
}

func TestAPooledConnectionThatNobodyReturnsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{Conns: &client.Conns{MaxConns: 1}})
		get(t, c, up) // its body is never closed
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
		if !strings.Contains(err.Error(), "waiting for a connection to 10.0.0.1:80 (1 open, 1 busy") {
			t.Errorf("err = %v", err)
		}
		if client.ReasonOf(err) != client.ReasonDeadline || !client.NeverSent(err) {
			t.Errorf("reason %v", client.ReasonOf(err))
		}
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); client.ReasonOf(err) != client.ReasonConnWait {
			t.Errorf("after MaxWait: %v", err)
		}
	})
}
