package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// ignoringPanics runs f, whose panic is another test's business.
func ignoringPanics(f func()) {
	defer func() { recover() }()
	f()
}

func TestASignerMayDoAsItLikesWithTheBody(t *testing.T) {
	for name, tc := range map[string]struct {
		sign signer
		sent string // "" if nothing is sent
	}{
		"reads and replaces": {func(_ context.Context, r *http.Request) error {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(append(b, " signed"...)))
			return nil
		}, "body signed"},
		"replaces unread": {func(_ context.Context, r *http.Request) error {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("other")), 5
			return nil
		}, "other"},
		"wraps": {func(_ context.Context, r *http.Request) error {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, io.Discard), r.Body}
			return nil
		}, "body"},
		"reads and fails":  {func(_ context.Context, r *http.Request) error { io.ReadAll(r.Body); return errors.New("no") }, ""},
		"reads and panics": {func(_ context.Context, r *http.Request) error { io.ReadAll(r.Body); panic("no") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
				c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.Upstreams[0].Signer = tc.sign })
				body := &countingBody{Reader: strings.NewReader("body")}
				got := ""
				ignoringPanics(func() {
					if resp, err := c.Do(newRequest(t, t.Context(), "POST", up, body)); err == nil {
						got = readAll(t, resp)
					}
				})
				if got != tc.sent {
					t.Errorf("sent %q, want %q", got, tc.sent)
				}
				if body.closed != 1 {
					t.Errorf("the caller's body was closed %d times", body.closed)
				}
				settled(t, c)
			})
		})
	}
}

func TestTheBodyOfASignerThatFailsIsClosedToo(t *testing.T) {
	own := &countingBody{Reader: strings.NewReader("signed")}
	c := behind(t, client.Policy{}, (&wire{}).RoundTrip, func(cfg *client.Config) {
		cfg.Upstreams[0].Signer = signer(func(_ context.Context, r *http.Request) error {
			r.Body = own
			return errors.New("no")
		})
	})
	body := &countingBody{Reader: strings.NewReader("body")}
	c.Do(newRequest(t, t.Context(), "POST", up, body))
	if body.closed != 1 || own.closed != 1 {
		t.Errorf("the caller's body was closed %d times, the signer's %d times", body.closed, own.closed)
	}
}

func TestATransportThatForgetsTheBody(t *testing.T) {
	answer := func() *http.Response { return &http.Response{StatusCode: 200, Body: http.NoBody} }
	for name, transport := range map[string]roundTrip{
		"unread":           func(*http.Request) (*http.Response, error) { return answer(), nil },
		"read":             func(r *http.Request) (*http.Response, error) { io.ReadAll(r.Body); return answer(), nil },
		"read, then fails": func(r *http.Request) (*http.Response, error) { io.ReadAll(r.Body); return nil, errors.New("no") },
		"read, then panics": func(r *http.Request) (*http.Response, error) {
			io.ReadAll(r.Body)
			panic("no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := behind(t, client.Policy{}, transport)
			body := &countingBody{Reader: strings.NewReader("body")}
			ignoringPanics(func() { c.Do(newRequest(t, t.Context(), "POST", up, body)) })
			if body.closed != 1 {
				t.Errorf("the caller's body was closed %d times", body.closed)
			}
			settled(t, c)
		})
	}
}

func TestARefusalWhoseHookPanicsClosesTheBodyOnce(t *testing.T) {
	c := newClient(t, client.Config{Strict: true, OnCall: func(client.Report) { panic("hook") }})
	body := &countingBody{Reader: strings.NewReader("body")}
	ignoringPanics(func() { c.Do(newRequest(t, t.Context(), "POST", "http://elsewhere.example", body)) })
	if body.closed != 1 {
		t.Errorf("body closed %d times", body.closed)
	}
}

func TestABodyWhoseClosePanicsTakesNothingWithIt(t *testing.T) {
	for name, url := range map[string]string{"refused": "http://169.254.169.254/", "answered": up} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := behind(t, client.Policy{Limit: &client.Limit{Max: 1, Queue: -1}}, func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Body: http.NoBody}, nil // and the request's is forgotten
				})
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic was swallowed")
						}
					}()
					c.Do(newRequest(t, t.Context(), "POST", url, explosive{}))
				}()
				settled(t, c)
				resp := get(t, c, up) // there is a slot
				resp.Body.Close()
				start := time.Now()
				if err := c.Close(); err != nil || time.Since(start) != 0 {
					t.Errorf("Close returned %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// An explosive body panics when it is closed.
type explosive struct{}

func (explosive) Read([]byte) (int, error) { return 0, io.EOF }
func (explosive) Close() error             { panic("close") }

func TestCloseDuringReadIsTheCallersEndOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		var seen reports
		c := lab.client(client.Policy{Timeout: &client.Timeout{Progress: -1}}, seen.config)
		resp := get(t, c, up)
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			read <- err
		}()
		time.Sleep(time.Second)
		resp.Body.Close()
		if err := <-read; err != http.ErrBodyReadAfterClose {
			t.Errorf("the reader got %v", err)
		}
		final := seen.only(t)
		time.Sleep(time.Second)
		if r := client.ReportOf(resp); r.String() != final.String() || r.Account.Sum() != time.Second || r.Duration != time.Second {
			t.Errorf("OnCall saw %v, and later it is %v", final, r)
		}
		if final.Reason != client.ReasonOK || final.Unclosed {
			t.Errorf("report %v", final)
		}
		settled(t, c)
	})
}
