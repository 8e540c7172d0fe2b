package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// behind returns a client whose upstream "up" is a Transport of the user's.
func behind(t testing.TB, policy client.Policy, transport roundTrip, change ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, Transport: transport, Policy: policy,
	}}}
	for _, c := range change {
		c(&cfg)
	}
	return newClient(t, cfg)
}

// A slowClock is a context whose Deadline takes its time once, when told to: a way to stop a call between two stages. It
// is used in bubbles only.
type slowClock struct {
	context.Context
	slow atomic.Bool
	by   time.Duration
}

// Deadline sleeps on the virtual clock of a bubble.
func (c *slowClock) Deadline() (time.Time, bool) {
	if c.slow.CompareAndSwap(true, false) {
		time.Sleep(c.by)
	}
	return c.Context.Deadline()
}

func TestATotalThatEndsBetweenHeadersAndDeliveryEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := &slowClock{Context: t.Context(), by: 2 * time.Second}
		var seen reports
		policy := timeouts(2*time.Second, -1, -1)
		policy.Retry = &client.Retry{}
		c := behind(t, policy, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			ctx.slow.Store(true) // asked for when the retry stage weighs another attempt
			return &http.Response{StatusCode: 503, Body: io.NopCloser(strings.NewReader("busy"))}, nil
		}, seen.config)
		resp, err := c.Do(newRequest(t, ctx, "GET", up, nil))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := resp.Body.Read(make([]byte, 1)); client.ReasonOf(err) != client.ReasonDeadline || !client.IsTimeout(err) {
			t.Errorf("the body of a call whose time is over: %v", err)
		}
		if r := seen.only(t); r.Reason != client.ReasonDeadline || r.Stopped != client.StoppedDeadline || r.Duration != 3*time.Second {
			t.Errorf("report %v, stopped %q", r, r.Stopped)
		}
		settled(t, c)
	})
}

func TestATotalThatEndsWithTheHeadersIsNoRace(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			var seen reports
			c := behind(t, timeouts(time.Second, -1, -1), func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x"))}, nil
			}, seen.config)
			resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			ended := func(r client.Reason) bool { return r == client.ReasonOK || r == client.ReasonDeadline }
			if !ended(client.ReasonOf(err)) || !ended(seen.only(t).Reason) {
				t.Errorf("%v, report %v", err, seen.all)
			}
			settled(t, c)
		})
	}
}

func TestAStatusOfZeroIsUnderTheTotalToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen reports
		c := behind(t, timeouts(3*time.Second, time.Second, -1), func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: io.NopCloser(strings.NewReader("x"))}, nil
		}, seen.config)
		get(t, c, up) // not closed
		time.Sleep(3*time.Second + 1)
		if r := seen.only(t); r.Reason != client.ReasonDeadline || !r.Unclosed || r.Duration != 3*time.Second {
			t.Errorf("report %v", r)
		}
		settled(t, c)
	})
}

func TestAResponseLaterThanTheAttemptsLimitIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen reports
		late := &countingBody{Reader: strings.NewReader("late")}
		c := behind(t, timeouts(3*time.Second, time.Second, -1), func(*http.Request) (*http.Response, error) {
			time.Sleep(1500 * time.Millisecond) // whatever the context says
			return &http.Response{StatusCode: 200, Body: late}, nil
		}, seen.config)
		resp, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if resp != nil || !errors.Is(err, client.ErrAttemptTimeout) {
			t.Errorf("got %v, %v", resp, err)
		}
		if late.closed != 1 || seen.only(t).Duration != 1500*time.Millisecond {
			t.Errorf("body closed %d times, report %v", late.closed, seen.all)
		}
		settled(t, c)
	})
}

func TestACallThatIsCutBeforeItsFirstAttemptMakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.9:80", hangs)
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams = nil
			cfg.Proxy = func(*http.Request) (*url.URL, error) { // asked for the endpoint, before the attempt
				time.Sleep(500 * time.Millisecond)
				return nil, nil
			}
		})
		ended := make(chan error, 1)
		go func() {
			_, err := c.Do(newRequest(t, context.Background(), "GET", "http://10.0.0.9/", nil))
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) != 400*time.Millisecond {
			t.Errorf("Close returned %v after %v", err, time.Since(start))
		}
		if err := <-ended; !errors.Is(err, client.ErrDraining) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestShutdownWaitsForTheHookOfTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Second))
		var running atomic.Int32
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.OnCall = func(client.Report) {
				running.Add(1)
				time.Sleep(10 * time.Millisecond)
				running.Add(-1)
			}
		})
		resp := get(t, c, up)
		go io.Copy(io.Discard, resp.Body)
		start := time.Now()
		if err := c.Shutdown(t.Context()); err != nil || time.Since(start) != time.Second+10*time.Millisecond || running.Load() != 0 {
			t.Errorf("Shutdown returned %v after %v, with %d hooks running", err, time.Since(start), running.Load())
		}
	})
}

func TestCloseNamesTheCallItLeavesBehindAndSilencesItsHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen reports
		c := behind(t, client.Policy{}, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Minute) // deaf to its context
			return nil, errors.New("too late")
		}, seen.config)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Do(newRequest(t, context.Background(), "GET", up, nil))
		}()
		synctest.Wait()
		start := time.Now()
		err := c.Close()
		if err == nil || !strings.Contains(err.Error(), "up: 1 open") || !strings.Contains(err.Error(), "1 did not end") {
			t.Errorf("Close says %v", err)
		}
		if time.Since(start) != time.Second {
			t.Errorf("Close took %v", time.Since(start))
		}
		<-ended
		if len(seen.all) != 0 {
			t.Errorf("a hook ran after Close: %v", seen.all)
		}
	})
}

func TestEachCallerOfShutdownGetsItsOwnContextsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		c := lab.client(client.Policy{})
		get(t, c, up) // not closed
		first := make(chan error, 1)
		go func() { first <- c.Shutdown(context.Background()) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second: %v", err)
		}
		if err := <-first; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first, whose context goes on: %v", err)
		}
	})
}

func TestACallThatWasAnsweredAndCutIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		c := lab.client(client.Policy{})
		resp := get(t, c, up)
		time.AfterFunc(time.Second, func() { c.Close() })
		_, err := io.ReadAll(resp.Body)
		if !errors.Is(err, client.ErrDraining) || client.Refused(err) || client.NeverSent(err) {
			t.Errorf("Refused %v, NeverSent %v: %v", client.Refused(err), client.NeverSent(err), err)
		}
		synctest.Wait()
	})
}

func TestCloseEndsConnectionsThatNoTableKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a goroutine left over fails the bubble
		lab := newLab(t)
		lab.serve("10.1.0.1:80", slowBody(time.Hour))
		lab.serve("10.1.0.2:80", slowBody(time.Hour))
		c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.MaxUnlisted = 1 })
		var readers sync.WaitGroup
		for _, url := range []string{"http://10.1.0.1/", "http://10.1.0.2/"} {
			resp := get(t, c, url)
			readers.Go(func() { io.Copy(io.Discard, resp.Body) })
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("Close returned %v after %v", err, time.Since(start))
		}
		readers.Wait()
		if open := len(lab.Conns("10.1.0.1:80")) + len(lab.Conns("10.1.0.2:80")); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	})
}

func TestCloseIdleConnectionsLeavesRunningCallsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Second))
		c := lab.client(client.Policy{})
		busy, idle, reused := get(t, c, up), get(t, c, up), get(t, c, up)
		unlisted := get(t, c, "http://10.0.0.1/")
		for _, resp := range []*http.Response{idle, reused, unlisted} {
			readAll(t, resp)
		}
		time.Sleep(time.Second)
		busyAgain := get(t, c, up)
		c.HTTP().CloseIdleConnections() // http.Client finds the method by itself
		synctest.Wait()
		if open := len(lab.Conns("10.0.0.1:80")); open != 2 {
			t.Errorf("%d connections are open, want those of the calls that run", open)
		}
		if readAll(t, busy) != "done" || readAll(t, busyAgain) != "done" {
			t.Error("a call was cut")
		}
		settled(t, c)
	})
}
