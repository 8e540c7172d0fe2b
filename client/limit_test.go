package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

// failsafe-go v0.9.8 gave the slot back at the headers, and admitted the second call.
func TestASlotIsHeldUntilTheBodyEnds_failsafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{Limit: &client.Limit{Max: 1, QueueWait: time.Second}})
		first := get(t, c, up)

		start := time.Now()
		_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if !errors.Is(err, client.ErrOverflow) || !client.Refused(err) || !client.NeverSent(err) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if !strings.Contains(err.Error(), "all 1 slots are taken, 0 calls were waiting, and this one waited 1s") {
			t.Errorf("text: %v", err)
		}

		time.AfterFunc(300*time.Millisecond, func() { readAll(t, first) })
		second := get(t, c, up)
		readAll(t, second)
		r := client.ReportOf(second)
		if d, _ := r.Account.Get(metrics.PhaseQueue); d != 300*time.Millisecond || r.QueueWait != d || r.Account.Sum() != r.Duration {
			t.Errorf("queued %v, account %v of %v", r.QueueWait, r.Account, r.Duration)
		}
	})
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(10*time.Second))
		c := lab.client(client.Policy{Limit: &client.Limit{Max: 2, Queue: 3, QueueWait: time.Minute}})
		var ended atomic.Int32
		for range 5 {
			go func() {
				resp, err := c.Do(newRequest(t, context.Background(), "GET", up, nil))
				if err == nil {
					readAll(t, resp)
					ended.Add(1)
				}
			}()
		}
		synctest.Wait()
		start := time.Now()
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); !errors.Is(err, client.ErrOverflow) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		time.Sleep(31 * time.Second)
		if got := ended.Load(); got != 5 {
			t.Errorf("%d calls ended, want the two and the three that waited", got)
		}
		settled(t, c)
	})
}

func TestTheWaitForASlotIsTheCallsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		opts   client.CallOptions
		caller time.Duration
		reason client.Reason
	}{
		"total":    {client.CallOptions{Total: time.Second}, time.Hour, client.ReasonDeadline},
		"caller's": {client.CallOptions{}, time.Second, client.ReasonDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", answers("hello"))
				c := lab.client(client.Policy{Limit: &client.Limit{Max: 1, QueueWait: time.Minute}})
				get(t, c, up)
				ctx, cancel := context.WithTimeout(client.WithCall(t.Context(), tc.opts), tc.caller)
				defer cancel()
				start := time.Now()
				_, err := c.Do(newRequest(t, ctx, "GET", up, nil))
				if client.ReasonOf(err) != tc.reason || !client.IsTimeout(err) || !client.NeverSent(err) || time.Since(start) != time.Second {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestShutdownRefusesThoseWhoWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{Limit: &client.Limit{Max: 1, QueueWait: time.Minute}})
		first := get(t, c, up)
		waiting := make(chan error)
		go func() {
			_, err := c.Do(newRequest(t, context.Background(), "GET", up, nil))
			waiting <- err
		}()
		synctest.Wait()
		ended := make(chan error)
		go func() { ended <- c.Shutdown(context.Background()) }()
		if err := <-waiting; !errors.Is(err, client.ErrDraining) || !client.Refused(err) {
			t.Errorf("err = %v", err)
		}
		readAll(t, first)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestEveryPathGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{Timeout: &client.Timeout{}, Limit: &client.Limit{Max: 1, Queue: -1}})
		for range 3 {
			c.Do(newRequest(t, canceledContext(t), "GET", up, nil))
			get(t, c, up).Body.Close()
			ctx, cancel := context.WithCancel(t.Context())
			getWith(t, ctx, c, up) // not closed
			cancel()
			synctest.Wait()
			get(t, c, up) // not closed: the total ends it
			time.Sleep(16 * time.Second)
		}
		readAll(t, get(t, c, up))
		settled(t, c)
	})
}

func TestAShadowLimitRefusesNothingAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{Limit: &client.Limit{Max: 1, Queue: -1, Shadow: true}})
		get(t, c, up)
		resp := get(t, c, up)
		readAll(t, resp)
		if r := client.ReportOf(resp); len(r.Shadow) != 1 || r.Shadow[0] != "limit: full" {
			t.Errorf("shadow %q", r.Shadow)
		}
	})
}
