package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// signFunc is a Signer in one function, which is told how many calls came before.
type signFunc struct {
	calls atomic.Int64
	sign  func(n int64) error
}

func (s *signFunc) Sign(context.Context, *http.Request) error { return s.sign(s.calls.Add(1)) }

// The loser is still in its signer when the call ends and is reported: the race detector sees what they share.
func TestACallEndsWhileItsLoserIsBeingSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []client.Report
		signer := &signFunc{sign: func(n int64) error {
			if n == 2 {
				time.Sleep(40 * time.Millisecond)
			}
			return nil
		}}
		c, first, _ := twoBases(t, hedged(10*time.Millisecond), func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer
			cfg.OnCall = func(r client.Report) { reports = append(reports, r) }
		})
		first.Play(sortietest.OK("hello").After(30 * time.Millisecond))
		if got := readAll(t, get(t, c, up)); got != "hello" {
			t.Errorf("got %q", got)
		}
		if len(reports) != 1 || len(reports[0].Attempts) != 2 || reports[0].Attempts[1].Reason != client.ReasonLocalReset {
			t.Errorf("reports %+v", reports)
		}
		time.Sleep(time.Second)
		settled(t, c)
	})
}

// A leg that panics is no good attempt, and what it panicked with is not hidden by the other's success.
func TestAPanicOfTheSecondAttemptIsNotHiddenByTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []client.Report
		signer := &signFunc{sign: func(n int64) error {
			if n == 2 {
				panic("mine")
			}
			return nil
		}}
		c, first, _ := twoBases(t, hedged(10*time.Millisecond), func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer
			cfg.OnCall = func(r client.Report) { reports = append(reports, r) }
		})
		first.Play(sortietest.OK("hello").After(30 * time.Millisecond))
		func() {
			defer func() {
				if v := recover(); v != "mine" {
					t.Errorf("the caller got %v", v)
				}
			}()
			get(t, c, up)
		}()
		if len(reports) != 1 || reports[0].Reason != client.ReasonPanic || reports[0].Attempts[1].Reason != client.ReasonPanic {
			t.Errorf("reports %+v", reports)
		}
		time.Sleep(time.Second)
		settled(t, c)
	})
}

// What a user's GetBody panics with takes nothing with it: neither the endpoint's place nor the first attempt's body.
func TestAPanicInGetBodyLeavesNothingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		c := lab.client(client.Policy{Retry: &client.Retry{}, Balance: &client.Balance{}, Limit: &client.Limit{}})
		for _, broken := range []func() error{
			func() error { panic("mine") },
			func() error { return errors.New("no body") },
		} {
			body := &countingBody{Reader: http.NoBody}
			req := newRequest(t, t.Context(), http.MethodPut, up, body)
			req.ContentLength = -1
			req.GetBody = func() (_ io.ReadCloser, err error) { return nil, broken() }
			func() {
				defer func() { recover() }()
				resp, err := c.Do(req)
				if err == nil {
					resp.Body.Close()
				}
			}()
			if body.closed != 1 {
				t.Errorf("the caller's body was closed %d times", body.closed)
			}
		}
		if s := c.Stats().Upstreams[0]; s.Open != 0 || s.Endpoints[0].Attempts != 0 {
			t.Errorf("%d calls open, %d attempts", s.Open, s.Endpoints[0].Attempts)
		}
		settled(t, c)
	})
}
