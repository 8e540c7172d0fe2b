package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
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

// The loser of a hedge in a Transport that ignores its context is left behind, as a call is: Close does not wait for it.
func TestCloseDoesNotWaitForALoserThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c, err := client.New(client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1", "http://10.0.0.2"}, Policy: hedged(900 * time.Millisecond),
			Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
				if calls.Add(1) == 1 {
					time.Sleep(time.Minute)
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("hello")), Request: req}, nil
			}),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, get(t, c, up))
		start := time.Now()
		c.Close()
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(2 * time.Minute) // the Transport comes to its end
	})
}

// A good answer is not asked for again because the other attempt's key was rejected.
func TestASignAgainOfTheLoserSaysNothingOfTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, hedged(10*time.Millisecond), func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = &replacing{}
			cfg.Upstreams[0].Policy.Budget.PerSecond = 10
		})
		first.Play(sortietest.Status(401).After(20 * time.Millisecond))
		second.Play(sortietest.OK("hello").After(20 * time.Millisecond))
		resp := get(t, c, up)
		readAll(t, resp)
		for _, a := range client.ReportOf(resp).Attempts {
			if a.Kind == client.KindResign && resp.StatusCode == 200 && client.ReportOf(resp).Attempts[1].Status == 200 {
				t.Errorf("attempts %+v: the second one was good", client.ReportOf(resp).Attempts)
			}
		}
		time.Sleep(2 * time.Second)
		settled(t, c)
	})
}

// replacing is a Signer that has another key after each rejection.
type replacing struct{}

func (*replacing) Sign(context.Context, *http.Request) error { return nil }

func (*replacing) Observe(_ context.Context, _ *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized
}

// What GetBody panics with while the second attempt is made leaves the first one to itself, and nothing taken.
func TestAPanicWhileTheSecondAttemptIsMadeLeavesNothingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, _ := twoBases(t, hedged(10*time.Millisecond))
		first.Play(sortietest.OK("hello").After(30 * time.Millisecond))
		func() {
			defer func() { recover() }()
			req := newRequest(t, t.Context(), http.MethodPut, up, strings.NewReader("body"))
			req.GetBody = func() (io.ReadCloser, error) { panic("mine") }
			c.Do(req)
		}()
		time.Sleep(10 * time.Second)
		for _, ep := range c.Stats().Upstreams[0].Endpoints {
			if ep.Attempts != 0 || ep.Active != 0 {
				t.Errorf("%s: %d attempts, %d connections busy", ep.Base, ep.Attempts, ep.Active)
			}
		}
		settled(t, c)
	})
}

// A call at an upstream that a Reload has removed has its time, and then ends: Shutdown knows of none that it cannot reach.
func TestACallAtARemovedUpstreamEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []client.Report
		onCall := func(r client.Report) { reports = append(reports, r) }
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("some"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.OnCall = onCall })
		get(t, c, up) // its body is neither read nor closed
		if err := c.Reload(client.Config{Dial: lab.DialContext, OnCall: onCall}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if len(reports) != 1 || reports[0].Reason != client.ReasonDraining {
			t.Errorf("reports %v", reports)
		}
		start := time.Now()
		if err := c.Shutdown(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("Shutdown took %v: %v", time.Since(start), err)
		}
	})
}
