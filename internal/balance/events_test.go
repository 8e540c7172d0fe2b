package balance_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

func TestEjectionsAreToldInOrderOutsideLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []balance.Ejection // no lock: one at a time is promised
		var f *field
		cfg := balance.Config{Eject: &ejecting, OnEject: func(e balance.Ejection) {
			told = append(told, e)
			f.Stats(f.now) // may ask
			f.pick(balance.Query{}).Endpoint.Release()
			time.Sleep(ms)
		}}
		f = newWarm(t, cfg, 8, 0)
		var observers sync.WaitGroup
		for _, ep := range f.primary {
			observers.Go(func() {
				for range 20 {
					ep.Observe(balance.Observation{Outcome: balance.Failed}, f.now)
					time.Sleep(ms)
				}
			})
		}
		observers.Wait()
		if len(told) != 4 {
			t.Fatalf("told %d ejections, want 4 of 8 endpoints", len(told))
		}
		for i, e := range told {
			if e.Endpoint == nil || e.Cause != balance.ByConsecutive || i > 0 && e.At.Before(told[i-1].At) {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestNothingIsToldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave, told := make(chan struct{}), make(chan struct{}), 0
		f := newWarm(t, balance.Config{Eject: &ejecting, OnEject: func(balance.Ejection) {
			told++
			close(entered)
			<-leave
		}}, 6, 0)
		go f.fail(f.primary[0], 5)
		<-entered
		f.fail(f.primary[1], 5)
		closed := false
		go func() {
			f.Balancer.Close()
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("Close did not wait for the hook")
		}
		close(leave)
		synctest.Wait()
		f.fail(f.primary[2], 5)
		if !closed || told != 1 {
			t.Errorf("closed %v, told %d times", closed, told)
		}
	})
}
