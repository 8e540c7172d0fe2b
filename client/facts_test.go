package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// An outcome is one way in which a call ends, with what the table of reasons says of it.
type outcome struct {
	name      string
	send      roundTrip // what the Transport does; nil: it answers 200
	sign      func() error
	body      io.Reader // of the request; nil: one in memory
	opts      client.CallOptions
	leave     time.Duration // after which the caller cancels; 0: never
	reason    client.Reason
	verdict   string // "good", "bad" or "neutral" for the endpoint
	repeat    string // "any", "idem" or "no"
	errorType string
}

// A status is a Transport that answers with it.
type status int

// send takes its time, in a bubble, so that the endpoint has a cost.
func (code status) send(*http.Request) (*http.Response, error) {
	time.Sleep(200 * time.Millisecond)
	return &http.Response{StatusCode: int(code), Body: http.NoBody}, nil
}

func fails(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func waits(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// broken answers 200 with a body that is read by the function.
func broken(read func(ctx context.Context) error) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, read(r.Context()) }))}, nil
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var outcomes = []outcome{
	{name: "200", send: status(200).send, reason: client.ReasonOK, verdict: "good", repeat: "no"},
	{name: "304", send: status(304).send, reason: client.ReasonOK, verdict: "good", repeat: "no"},
	{name: "404", send: status(404).send, reason: client.ReasonStatus, verdict: "good", repeat: "no", errorType: "404"},
	{name: "408", send: status(408).send, reason: client.ReasonStatus, verdict: "good", repeat: "idem", errorType: "408"},
	{name: "429", send: status(429).send, reason: client.ReasonStatus, verdict: "neutral", repeat: "idem", errorType: "429"},
	{name: "500", send: status(500).send, reason: client.ReasonStatus, verdict: "bad", repeat: "no", errorType: "500"},
	{name: "501", send: status(501).send, reason: client.ReasonStatus, verdict: "good", repeat: "no", errorType: "501"},
	{name: "503", send: status(503).send, reason: client.ReasonStatus, verdict: "bad", repeat: "idem", errorType: "503"},
	{name: "505", send: status(505).send, reason: client.ReasonStatus, verdict: "good", repeat: "no", errorType: "505"},
	{name: "caller leaves", send: waits, leave: 4 * time.Second, reason: client.ReasonCanceled, verdict: "neutral", repeat: "no"},
	{name: "deadline, soon", send: waits, opts: client.CallOptions{Total: 500 * time.Millisecond},
		reason: client.ReasonDeadline, verdict: "neutral", repeat: "no", errorType: "timeout"},
	{name: "deadline, late", send: waits, opts: client.CallOptions{Total: 4 * time.Second},
		reason: client.ReasonDeadline, verdict: "bad", repeat: "no", errorType: "timeout"},
	{name: "no headers", send: waits, reason: client.ReasonAttemptTimeout, verdict: "bad", repeat: "idem", errorType: "timeout"},
	{name: "stalls", send: broken(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		reason: client.ReasonBodyStalled, verdict: "bad", repeat: "no", errorType: "timeout"},
	{name: "breaks", send: broken(func(context.Context) error { return io.ErrUnexpectedEOF }),
		reason: client.ReasonBodyBroken, verdict: "bad", repeat: "no", errorType: "body_error"},
	{name: "no such name", send: fails(&net.DNSError{Err: "no such host", IsNotFound: true}),
		reason: client.ReasonDNS, verdict: "neutral", repeat: "any", errorType: "dns_error"},
	{name: "lost", send: fails(io.EOF), reason: client.ReasonConnectionLost, verdict: "bad", repeat: "idem", errorType: "connection_reset"},
	{name: "reset", send: fails(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}),
		reason: client.ReasonRemoteReset, verdict: "bad", repeat: "idem", errorType: "connection_reset"},
	{name: "no HTTP", send: fails(textproto.ProtocolError("what?")),
		reason: client.ReasonProtocol, verdict: "bad", repeat: "idem", errorType: "protocol_error"},
	{name: "caller's body fails", body: failing{errors.New("disk on fire")},
		send: func(r *http.Request) (*http.Response, error) {
			_, err := io.ReadAll(r.Body)
			return nil, err
		}, reason: client.ReasonRequestBody, verdict: "neutral", repeat: "no", errorType: "body_error"},
	{name: "no credentials", sign: func() error { return errors.New("no credentials") },
		reason: client.ReasonCredential, verdict: "neutral", repeat: "no", errorType: "credential_error"},
	{name: "out of files", send: fails(&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}),
		reason: client.ReasonLocalResource, verdict: "neutral", repeat: "no", errorType: "connection_failed"},
	{name: "out of ports", send: fails(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}),
		reason: client.ReasonPortBudget, verdict: "neutral", repeat: "any", errorType: "port_budget"},
	{name: "panics", send: func(*http.Request) (*http.Response, error) { panic("transport") },
		reason: client.ReasonPanic, verdict: "neutral", repeat: "no", errorType: "panic"},
	{name: "who knows", send: fails(errors.New("who knows")), reason: client.ReasonOther, verdict: "bad", repeat: "idem", errorType: "_OTHER"},
}

// A stage plays outcomes to a client.
type stage struct {
	*client.Client
	t    *testing.T
	now  outcome
	sent int // attempts of the last call that reached the signer
	reports
}

func newStage(t *testing.T, policy client.Policy) *stage {
	s := &stage{t: t}
	policy.Timeout = &client.Timeout{Progress: 2 * time.Second}
	s.Client = behind(t, policy, func(r *http.Request) (*http.Response, error) {
		if s.now.send == nil {
			return status(200).send(r)
		}
		return s.now.send(r)
	}, func(cfg *client.Config) {
		cfg.OnCall = s.add
		cfg.Upstreams[0].Signer = signer(func(context.Context, *http.Request) error {
			s.sent++
			if s.now.sign != nil {
				return s.now.sign()
			}
			return nil
		})
	})
	return s
}

// play makes a call that ends so, and returns its report.
func (s *stage) play(method string, o outcome) client.Report {
	s.t.Helper()
	s.now, s.sent = o, 0
	ctx, cancel := context.WithCancel(client.WithCall(s.t.Context(), o.opts))
	defer cancel()
	if o.leave > 0 {
		time.AfterFunc(o.leave, cancel)
	}
	if o.body == nil {
		o.body = strings.NewReader("body")
	}
	ignoringPanics(func() {
		resp, err := s.Do(newRequest(s.t, ctx, method, up, o.body))
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	settled(s.t, s.Client)
	return s.all[len(s.all)-1]
}

func (s *stage) open() bool { return s.play("GET", outcomes[0]).Reason == client.ReasonBreakerOpen }

func TestTheTableOfReasons(t *testing.T) {
	for _, o := range outcomes {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, client.Policy{})
				if r := s.play("GET", o); r.Reason != o.reason || r.ErrorType() != o.errorType || len(r.Attempts) != 1 || r.Attempts[0].Reason != o.reason {
					t.Errorf("%v with error type %q, want %v with %q", r, r.ErrorType(), o.reason, o.errorType)
				}
				if got := verdictOf(t, o); got != o.verdict {
					t.Errorf("it is %s for the breaker, want %s", got, o.verdict)
				}
				if got := repeatOf(t, o); got != o.repeat {
					t.Errorf("repeated: %s, want %s", got, o.repeat)
				}
			})
		})
	}
}

// verdictOf finds out what an outcome does to a breaker that two failures in a row open.
func verdictOf(t *testing.T, o outcome) string {
	breaker := client.Policy{Breaker: &client.Breaker{Consecutive: 2, Ratio: 1, Volume: 1000}}
	s := newStage(t, breaker)
	s.play("GET", o)
	s.play("GET", o)
	if s.open() {
		return "bad"
	}
	bad := outcome{send: status(500).send}
	s = newStage(t, breaker)
	s.play("GET", bad)
	s.play("GET", o)
	s.play("GET", bad)
	if s.open() {
		return "neutral" // the row of failures goes on past it
	}
	return "good"
}

func repeatOf(t *testing.T, o outcome) string {
	s := newStage(t, client.Policy{Retry: &client.Retry{Attempts: 2}})
	s.play("GET", o)
	get := s.sent
	s.play("POST", o)
	switch post := s.sent; {
	case get == 2 && post == 2:
		return "any"
	case get == 2 && post == 1:
		return "idem"
	case get == 1 && post == 1:
		return "no"
	}
	return "strangely"
}

func TestTheTableOfReasonsForDials(t *testing.T) {
	fails := func(err error) func(*testing.T) dialer {
		return func(*testing.T) dialer {
			return func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: err}
			}
		}
	}
	for name, tc := range map[string]struct {
		dial      func(*testing.T) dialer
		reason    client.Reason
		opens     bool // two of them open the breaker
		again     bool // also a POST
		errorType string
	}{
		"refused":     {fails(os.NewSyscallError("connect", syscall.ECONNREFUSED)), client.ReasonConnectRefused, true, true, "connection_refused"},
		"timed out":   {fails(os.NewSyscallError("connect", syscall.ETIMEDOUT)), client.ReasonConnectTimeout, true, true, "connect_timeout"},
		"unreachable": {fails(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), client.ReasonConnectFailed, true, true, "connection_failed"},
		"no TLS":      {speaksPlain, client.ReasonTLS, true, true, "tls_error"},
		"untrusted":   {untrusted, client.ReasonCertificate, true, false, "tls_error"},
		"files":       {fails(os.NewSyscallError("socket", syscall.EMFILE)), client.ReasonLocalResource, false, false, "connection_failed"},
		"ports":       {fails(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)), client.ReasonPortBudget, false, true, "port_budget"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				dial := tc.dial(t)
				do := func(policy client.Policy, calls int) (last client.Report) {
					var seen reports
					c := newClient(t, client.Config{OnCall: seen.add, Upstreams: []client.Upstream{{
						Name: "up", Hosts: []string{"up.example"}, External: []string{"https://10.0.0.1"}, Policy: policy,
					}}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
						dials++
						return dial(ctx, network, address)
					}})
					for range calls {
						c.Do(newRequest(t, t.Context(), "POST", up, strings.NewReader("body")))
					}
					settled(t, c)
					return seen.all[calls-1]
				}
				if r := do(client.Policy{}, 1); r.Reason != tc.reason || r.ErrorType() != tc.errorType {
					t.Errorf("%v with error type %q, want %v with %q", r, r.ErrorType(), tc.reason, tc.errorType)
				}
				r := do(client.Policy{Breaker: &client.Breaker{Consecutive: 2}}, 3)
				if opened := r.Reason == client.ReasonBreakerOpen; opened != tc.opens {
					t.Errorf("after two of them: %v", r)
				}
				dials = 0
				do(client.Policy{Retry: &client.Retry{Attempts: 2}}, 1)
				if again := dials == 2; again != tc.again {
					t.Errorf("%d dials", dials)
				}
			})
		})
	}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// speaksPlain is a server that has never heard of TLS.
func speaksPlain(*testing.T) dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			there.Read(make([]byte, 64<<10))
			io.WriteString(there, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}()
		return here, nil
	}
}

// untrusted is a server whose authority nobody knows.
func untrusted(t *testing.T) dialer {
	n := sortietest.NewNetwork()
	server := &sortietest.Upstream{Network: n, Address: "10.0.0.1:443", TLS: true}
	server.Start(t)
	return n.DialContext
}
