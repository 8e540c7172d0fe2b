package limit_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
)

func TestSecondCallWaitsForTheFirstToEnd_B6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 1})
		call(t, l, 0).has(t, limit.Granted)
		second := call(t, l, time.Hour)
		time.Sleep(time.Minute) // the first has its headers long since; its body is not read
		second.waits(t)
		l.Release()
		second.has(t, limit.Granted)
		if second.result.Waited != time.Minute {
			t.Errorf("waited %v", second.result.Waited)
		}
	})
}

func TestQueueIsBoundedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 2, Queue: 3})
		for range 2 {
			call(t, l, time.Second).has(t, limit.Granted)
		}
		for range 3 {
			call(t, l, time.Second).waits(t)
		}
		over := call(t, l, time.Second)
		over.has(t, limit.Full)
		if r := over.result; r.Limit != 2 || r.Ahead != 3 || r.Waited != 0 {
			t.Errorf("%+v, want a limit of 2 and 3 ahead", r)
		}
		time.Sleep(2 * time.Second)
		counts(t, l, 2, 0)
	})
}

func TestWhoWillNotWaitIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []limit.Config{{Max: 1, Queue: 10}, {Max: 1}} {
			l := limit.New(cfg)
			call(t, l, 0).has(t, limit.Granted)
			call(t, l, time.Duration(cfg.Queue-10)).has(t, limit.Full)
		}
	})
}

func TestSlotsAreGivenInTheOrderOfComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 100})
		call(t, l, 0)
		var callers []*caller
		for range 50 {
			callers = append(callers, call(t, l, time.Hour))
		}
		for i, c := range callers {
			c.waits(t)
			l.Release()
			c.has(t, limit.Granted)
			if i < len(callers)-1 {
				callers[i+1].waits(t)
			}
		}
		l.Release()
		counts(t, l, 0, 0)
	})
}

func TestWaitEndsWithPatienceOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 10})
		call(t, l, 0)
		impatient, cancelled, patient := call(t, l, time.Second), call(t, l, time.Hour), call(t, l, time.Hour)
		cancelled.cancel()
		cancelled.has(t, limit.Canceled)
		time.Sleep(time.Second)
		impatient.has(t, limit.TimedOut)
		counts(t, l, 1, 1)
		l.Release()
		patient.has(t, limit.Granted)
		counts(t, l, 1, 0)
	})
}

// A thousand cancelled waits leak no slot, wherever they stood in the queue (golang/go#34941).
func TestThousandCancelledWaitsLeaveNothingBehind_go34941(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 2000})
		call(t, l, 0)
		var callers []*caller
		for range 1001 {
			callers = append(callers, call(t, l, time.Hour))
		}
		last := callers[500]
		callers = slices.Delete(callers, 500, 501)
		rand.Shuffle(len(callers), func(i, j int) { callers[i], callers[j] = callers[j], callers[i] })
		for _, c := range callers {
			c.cancel()
		}
		synctest.Wait()
		counts(t, l, 1, 1)
		l.Release()
		last.has(t, limit.Granted)
		l.Release()
		counts(t, l, 0, 0)
	})
}

func TestSmallerLimitWaitsForCallsToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 10, Queue: 10})
		for range 10 {
			call(t, l, 0)
		}
		waiting := call(t, l, time.Hour)
		l.Configure(limit.Config{Max: 3, Queue: 10})
		for range 7 {
			l.Release()
			waiting.waits(t)
		}
		l.Release()
		waiting.has(t, limit.Granted)
		counts(t, l, 3, 0)
		call(t, l, 0).has(t, limit.Full)
	})
}

func TestLargerLimitServesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 10})
		call(t, l, 0)
		var callers []*caller
		for range 4 {
			callers = append(callers, call(t, l, time.Hour))
		}
		l.Configure(limit.Config{Max: 4})
		for _, c := range callers[:3] {
			c.has(t, limit.Granted)
		}
		callers[3].waits(t) // the queue became smaller; who stands in it stays
		call(t, l, time.Hour).has(t, limit.Full)
		l.Release()
		callers[3].has(t, limit.Granted)
	})
}

func TestCloseEndsTheQueueAndNotTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 10})
		call(t, l, 0)
		first, second := call(t, l, time.Hour), call(t, l, time.Hour)
		l.Close()
		first.has(t, limit.Closed)
		second.has(t, limit.Closed)
		call(t, l, time.Hour).has(t, limit.Closed)
		l.Release()
		counts(t, l, 0, 0)
		call(t, l, time.Hour).has(t, limit.Granted)
	})
}

func TestShadowGrantsAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 2, Queue: 2, Shadow: true})
		for i, want := range []limit.Result{
			{Limit: 2},
			{Limit: 2},
			{Limit: 2, Would: limit.Queued},
			{Limit: 2, Would: limit.Queued, Ahead: 1},
			{Limit: 2, Would: limit.Full, Ahead: 2},
			{Limit: 2, Would: limit.Full, Ahead: 2},
		} {
			if got := l.Acquire(t.Context(), time.Second); got != want {
				t.Errorf("call %d: %+v, want %+v", i+1, got, want)
			}
		}
		if r := l.Acquire(t.Context(), 0); r.Outcome != limit.Granted || r.Would != limit.Full {
			t.Errorf("without patience: %+v", r)
		}
		counts(t, l, 7, 0)
	})
}

func TestTurningToShadowFreesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Max: 1, Queue: 2})
		call(t, l, 0)
		waiting := call(t, l, time.Hour)
		l.Configure(limit.Config{Max: 1, Queue: 2, Shadow: true})
		waiting.has(t, limit.Granted)
	})
}

// Under any traffic there are never more calls than slots, nobody waits beside a free one, and all slots come back.
func TestLimitHoldsUnderAnyTraffic(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			size := 1 + rnd.IntN(8)
			l := limit.New(limit.Config{Max: size, Queue: rnd.IntN(20)})
			var inside, refused atomic.Int64
			var callers sync.WaitGroup
			for range 500 {
				time.Sleep(time.Duration(rnd.IntN(20)) * ms)
				wait, hold := time.Duration(rnd.IntN(200))*ms, time.Duration(rnd.IntN(150))*ms
				callers.Go(func() {
					if r := l.Acquire(t.Context(), wait); r.Outcome != limit.Granted {
						refused.Add(1)
						return
					}
					if n := inside.Add(1); n > int64(size) {
						t.Errorf("seed %d: %d calls in %d slots", seed, n, size)
					}
					time.Sleep(hold)
					inside.Add(-1)
					l.Release()
				})
				synctest.Wait()
				if s := l.Stats(); s.Waiting > 0 && s.InFlight < size {
					t.Errorf("seed %d: %+v", seed, s)
				}
			}
			callers.Wait()
			counts(t, l, 0, 0)
			if refused.Load() == 0 || refused.Load() == 500 {
				t.Errorf("seed %d: %d refused, so this shows nothing", seed, refused.Load())
			}
		})
	}
}

func TestSlotsSurviveRealParallelism(t *testing.T) {
	l := limit.New(limit.Config{Max: 4, Queue: 4})
	var inside atomic.Int64
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for range 500 {
				if l.Acquire(t.Context(), time.Duration(i)*time.Microsecond).Outcome != limit.Granted {
					continue
				}
				if n := inside.Add(1); n > 4 {
					t.Errorf("%d calls in 4 slots", n)
				}
				inside.Add(-1)
				l.Release()
			}
		})
	}
	callers.Wait()
	counts(t, l, 0, 0)
}
