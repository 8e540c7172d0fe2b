package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// A Transport of the user's knows context.Context.Err, but not why.
func TestTheCauseOfALimitOutlivesAForeignTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behind(t, timeouts(2*time.Second, time.Second, -1), func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		do := func(opts client.CallOptions) error {
			_, err := c.Do(newRequest(t, client.WithCall(t.Context(), opts), "GET", up, nil))
			return err
		}
		if err := do(client.CallOptions{}); !errors.Is(err, client.ErrAttemptTimeout) || errors.Is(err, context.Canceled) {
			t.Errorf("attempt: %v", err)
		}
		err := do(client.CallOptions{Attempt: -1})
		if client.ReasonOf(err) != client.ReasonDeadline || errors.Is(err, context.Canceled) || !client.IsTimeout(err) {
			t.Errorf("total: %v", err)
		}
		time.AfterFunc(100*time.Millisecond, func() { c.Close() })
		if err := do(client.CallOptions{}); !errors.Is(err, client.ErrDraining) || errors.Is(err, context.Canceled) {
			t.Errorf("cut: %v", err)
		}
		synctest.Wait()
	})
}

// foreign returns a client over an http.Transport that dials in the lab.
func foreign(t *testing.T, lab *lab, change func(*http.Transport)) *client.Client {
	tr := &http.Transport{DialContext: lab.DialContext}
	change(tr)
	t.Cleanup(tr.CloseIdleConnections)
	return behind(t, client.Policy{}, tr.RoundTrip, func(cfg *client.Config) {
		cfg.Upstreams[0].Hosts = []string{"10.0.0.1"}
	})
}

func TestTheTimeLimitsOfAnHTTPTransportAreTimeouts(t *testing.T) {
	for name, tc := range map[string]struct {
		url    string
		change func(*http.Transport)
	}{
		"headers":   {"http://10.0.0.1/x?secret=1", func(tr *http.Transport) { tr.ResponseHeaderTimeout = time.Second }},
		"handshake": {"https://10.0.0.1/x?secret=1", func(tr *http.Transport) { tr.TLSHandshakeTimeout = time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				for _, port := range []string{"80", "443"} {
					ln, err := lab.Listen("10.0.0.1:" + port) // nobody accepts
					if err != nil {
						t.Fatal(err)
					}
					defer ln.Close()
				}
				c := foreign(t, lab, tc.change)
				start := time.Now()
				_, err := c.Do(newRequest(t, t.Context(), "GET", tc.url, nil))
				if !client.IsTimeout(err) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
					t.Errorf("%v after %v: %v", client.ReasonOf(err), time.Since(start), err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("text: %v", err)
				}
			})
		})
	}
}

func TestPlainHTTPWhereTLSIsExpected(t *testing.T) {
	for name, newClient := range map[string]func(*testing.T, *lab) *client.Client{
		"own pool": func(t *testing.T, lab *lab) *client.Client { return lab.client(client.Policy{}) },
		"foreign":  func(t *testing.T, lab *lab) *client.Client { return foreign(t, lab, func(*http.Transport) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				ln, err := lab.Listen("10.0.0.1:8443")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				go func() {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					conn.Read(make([]byte, 1<<10)) // the hello
					io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
					conn.Close()
				}()
				c := newClient(t, lab)
				_, err = c.Do(newRequest(t, t.Context(), "GET", "https://10.0.0.1:8443/", nil))
				if client.ReasonOf(err) != client.ReasonTLS {
					t.Errorf("%v: %v", client.ReasonOf(err), err)
				}
			})
		})
	}
}

func TestATransportThatReturnsNothingIsToldSo(t *testing.T) {
	c := behind(t, client.Policy{}, func(*http.Request) (*http.Response, error) { return nil, nil })
	_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
	if client.ReasonOf(err) != client.ReasonOther || !strings.Contains(err.Error(), "neither a response nor an error") {
		t.Errorf("err = %v", err)
	}

	both := &countingBody{Reader: strings.NewReader("x")}
	c = behind(t, client.Policy{}, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: both}, io.ErrUnexpectedEOF
	})
	resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
	if resp != nil || !errors.Is(err, io.ErrUnexpectedEOF) || both.closed != 1 {
		t.Errorf("got %v, %v, and its body closed %d times", resp, err, both.closed)
	}
}

func TestNoErrorShowsAQuery(t *testing.T) {
	c := behind(t, client.Policy{}, func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: io.ErrUnexpectedEOF}
	})
	_, err := c.Do(newRequest(t, t.Context(), "GET", up+"/x?secret=1", nil))
	if strings.Contains(err.Error(), "secret") || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a Transport's: %v", err)
	}
	_, err = client.GetJSON[struct{}](t.Context(), c, up+"/x?secret=1\x7f")
	if strings.Contains(err.Error(), "secret") || client.ReasonOf(err) != client.ReasonInvalidRequest || !client.NeverSent(err) {
		t.Errorf("of a URL that is none: %v", err)
	}
}

// A signer that fetches a token makes a call under the attempt's context, whose limits are not those of that call.
func TestACallWithinAnAttemptHasItsCallersDeadlineAndNoTimeoutOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.2:80", hangs)
		tokens := newClient(t, client.Config{Dial: lab.DialContext, Unlisted: timeouts(60*time.Second, 30*time.Second, -1)})
		var inner error
		c := lab.client(timeouts(15*time.Second, time.Second, -1), func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer(func(ctx context.Context, _ *http.Request) error {
				_, inner = tokens.Do(newRequest(t, ctx, "GET", "http://10.0.0.2/", nil))
				return inner
			})
		})
		start := time.Now()
		_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if client.ReasonOf(err) != client.ReasonAttemptTimeout || !errors.Is(err, client.ErrAttemptTimeout) || time.Since(start) != time.Second {
			t.Errorf("outer, after %v: %v", time.Since(start), err)
		}
		if got := client.ReasonOf(inner); got != client.ReasonCanceled {
			t.Errorf("inner: %v, want canceled: it was its caller who left: %v", got, inner)
		}
		settled(t, c)
		settled(t, tokens)
	})
}
