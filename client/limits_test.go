package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

func timeouts(total, attempt, progress time.Duration) client.Policy {
	return client.Policy{Timeout: &client.Timeout{Total: total, Attempt: attempt, Progress: progress}}
}

func TestTheFirstLimitEndsAHangingCall(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name   string
		policy client.Policy
		caller time.Duration // deadline of the caller's context; 0 is none
		opts   client.CallOptions
		after  time.Duration
		reason client.Reason
	}{
		{"attempt", timeouts(15*s, 5*s, 0), 0, client.CallOptions{}, 5 * s, client.ReasonAttemptTimeout},
		{"total", timeouts(3*s, -1, 1), 0, client.CallOptions{}, 3 * s, client.ReasonDeadline},
		{"defaults", client.Policy{Timeout: &client.Timeout{}}, 0, client.CallOptions{}, 5 * s, client.ReasonAttemptTimeout},
		{"the caller's deadline, earlier", timeouts(15*s, 5*s, 0), 2 * s, client.CallOptions{}, 2 * s, client.ReasonDeadline},
		{"a later deadline does not switch the attempt's off (resty: 1 s)", timeouts(15*s, 100*time.Millisecond, 0), s, client.CallOptions{}, 100 * time.Millisecond, client.ReasonAttemptTimeout},
		{"the call's own total", timeouts(15*s, 5*s, 0), 0, client.CallOptions{Total: s}, s, client.ReasonDeadline},
		{"the call's own attempt", timeouts(15*s, 5*s, 0), 0, client.CallOptions{Attempt: 4 * s}, 4 * s, client.ReasonAttemptTimeout},
		{"the call's own, without a policy", client.Policy{}, 0, client.CallOptions{Total: s}, s, client.ReasonDeadline},
		{"the call without an attempt limit", timeouts(15*s, 5*s, 0), 0, client.CallOptions{Attempt: -1}, 15 * s, client.ReasonDeadline},
		{"only the caller's", client.Policy{}, 7 * s, client.CallOptions{}, 7 * s, client.ReasonDeadline},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", hangs)
				var seen reports
				c := lab.client(tc.policy, seen.config)
				ctx := client.WithCall(t.Context(), tc.opts)
				if tc.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.caller)
					defer cancel()
				}
				start := time.Now()
				_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
				if got := time.Since(start); got != tc.after {
					t.Errorf("ended after %v, want %v", got, tc.after)
				}
				if got := client.ReasonOf(err); got != tc.reason {
					t.Errorf("reason %v, want %v: %v", got, tc.reason, err)
				}
				if !errors.Is(err, context.DeadlineExceeded) || !client.IsTimeout(err) || errors.Is(err, context.Canceled) {
					t.Errorf("it is no timeout, or a cancellation as well: %v", err)
				}
				if r := seen.only(t); r.Duration != tc.after || r.Account.Sum() != tc.after {
					t.Errorf("duration %v, account %v", r.Duration, r.Account)
				}
				settled(t, c)
			})
		})
	}
}

func TestTheAttemptLimitStopsAtTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			for range 10 {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		c := lab.client(timeouts(15*time.Second, 2*time.Second, 1500*time.Millisecond))
		if got := readAll(t, get(t, c, up)); got != "xxxxxxxxxx" {
			t.Errorf("read %q", got)
		}
	})
}

// failsafe-go v0.9.8: a body that stalls escapes the timeout.
// stallsAfterFive sends half of its body.
func stallsAfterFive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "10")
	io.WriteString(w, "12345")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func TestABodyThatStallsIsCutByTheProgressLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", stallsAfterFive)
		c := lab.client(timeouts(15*time.Second, 200*time.Millisecond, time.Second))
		resp := get(t, c, up)
		start := time.Now()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "12345" || time.Since(start) != time.Second {
			t.Errorf("read %q in %v", body, time.Since(start))
		}
		if client.ReasonOf(err) != client.ReasonBodyStalled || !errors.Is(err, client.ErrBodyStalled) || !client.IsTimeout(err) {
			t.Errorf("err = %v", err)
		}
		if _, again := resp.Body.Read(make([]byte, 1)); !errors.Is(again, client.ErrBodyStalled) {
			t.Errorf("read again: %v", again)
		}
		settled(t, c)
	})
}

func TestTheCallersOwnPauseIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("0123456789"))
		c := lab.client(timeouts(-1, time.Second, time.Second))
		resp := get(t, c, up)
		time.Sleep(time.Minute)
		if got := readAll(t, resp); got != "0123456789" {
			t.Errorf("read %q", got)
		}
		r := client.ReportOf(resp)
		if d, _ := r.Account.Get(metrics.PhaseCaller); d != time.Minute || r.Duration != time.Minute {
			t.Errorf("caller %v of %v", d, r.Duration)
		}
	})
}

func TestTheTotalCoversTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(100 * time.Millisecond)
			}
		})
		c := lab.client(timeouts(3*time.Second, time.Second, time.Second))
		start := time.Now()
		_, err := io.ReadAll(get(t, c, up).Body)
		if time.Since(start) != 3*time.Second || client.ReasonOf(err) != client.ReasonDeadline || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		settled(t, c)
	})
}

func TestABodyNobodyClosesIsReportedWhenTheTotalIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("0123456789"))
		var seen reports
		c := lab.client(timeouts(3*time.Second, time.Second, time.Second), seen.config)
		resp := get(t, c, up)
		time.Sleep(4 * time.Second)
		r := seen.only(t)
		if !r.Unclosed || r.Duration != 3*time.Second || r.Reason != client.ReasonDeadline {
			t.Errorf("report %v, unclosed %v", r, r.Unclosed)
		}
		settled(t, c)
		if _, err := io.ReadAll(resp.Body); client.ReasonOf(err) != client.ReasonDeadline {
			t.Errorf("a late read: %v", err)
		}
		resp.Body.Close()
		seen.only(t)
	})
}

func TestACallersContextThatEndsReleasesAnUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("0123456789"))
		var seen reports
		c := lab.client(client.Policy{}, seen.config)
		ctx, cancel := context.WithCancelCause(t.Context())
		getWith(t, ctx, c, up)
		why := errors.New("page closed")
		cancel(why)
		synctest.Wait()
		if r := seen.only(t); r.Reason != client.ReasonCanceled || !r.Unclosed {
			t.Errorf("report %v", r)
		}
		settled(t, c)
	})
}

// A deadline to which the caller has given a cause of its own is a timeout all the same, wherever it meets the call.
func TestACallersDeadlineKeepsItsCause(t *testing.T) {
	waits := signer(func(ctx context.Context, _ *http.Request) error {
		<-ctx.Done()
		return ctx.Err()
	})
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		signer  client.Signer
	}{
		"headers": {hangs, nil},
		"body":    {stallsAfterFive, nil},
		"signer":  {answers("ok"), waits},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", tc.handler)
				c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.Upstreams[0].Signer = tc.signer })
				why := errors.New("the page's time is over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
				defer cancel()
				resp, err := c.Do(newRequest(t, ctx, "GET", up, nil))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				if client.ReasonOf(err) != client.ReasonDeadline || !errors.Is(err, why) || !errors.Is(err, context.DeadlineExceeded) ||
					errors.Is(err, context.Canceled) {
					t.Errorf("err = %v", err)
				}
				settled(t, c)
			})
		})
	}
}

func TestTheCallersCancellationKeepsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", hangs)
		c := lab.client(client.Policy{Timeout: &client.Timeout{}})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("page closed")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
		if !client.IsCanceled(err) || !errors.Is(err, context.Canceled) || !errors.Is(err, why) || client.IsTimeout(err) {
			t.Errorf("err = %v", err)
		}
		settled(t, c)
	})
}
