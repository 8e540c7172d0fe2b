package hedge_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/hedge"
)

const ms = time.Millisecond

var start = time.Now()

func at(d time.Duration) time.Time { return start.Add(d) }

// twentieth is the default: 5 % more load, at the earliest after 10 ms.
var twentieth = hedge.Config{ExtraLoad: 0.05, Min: 10 * ms}

func delay(t *testing.T, h *hedge.Hedge, now, want time.Duration) {
	t.Helper()
	got, ok := h.Delay(at(now))
	if ok != (want > 0) || got < want || float64(got) > float64(want)*1.07 {
		t.Errorf("after %v: %v, %v; want %v", now, got, ok, want)
	}
}

func observe(h *hedge.Hedge, n int, d, now time.Duration) {
	for range n {
		h.Observe(d, at(now))
	}
}

func TestDelayIsTheQuantileThatExtraLoadNames(t *testing.T) {
	h := hedge.New(twentieth, start)
	for _, i := range rand.Perm(1000) {
		h.Observe(time.Duration(i+1)*ms, start)
	}
	delay(t, h, 0, 950*ms)
}

func TestNotMoreThanExtraLoadIsSlowerThanTheDelay(t *testing.T) {
	for range 200 {
		cfg := hedge.Config{ExtraLoad: 0.01 + 0.3*rand.Float64()}
		h := hedge.New(cfg, start)
		times := make([]time.Duration, 100+rand.IntN(1000))
		for i := range times {
			times[i] = time.Duration(rand.ExpFloat64() * float64(40*ms))
			h.Observe(times[i], start)
		}
		got, ok := h.Delay(start)
		above := 0
		for _, d := range times {
			if d > got {
				above++
			}
		}
		if !ok || float64(above) > cfg.ExtraLoad*float64(len(times))+1e-6 {
			t.Fatalf("%d of %d are slower than %v, want a share of %v", above, len(times), got, cfg.ExtraLoad)
		}
		slices.Sort(times)
		truth := times[len(times)-1-int(cfg.ExtraLoad*float64(len(times)))]
		if float64(got) > float64(max(truth, ms))*1.07 {
			t.Fatalf("%v, want %v", got, truth)
		}
	}
}

func TestNoHedgingWithoutHundredSamples(t *testing.T) {
	h := hedge.New(twentieth, start)
	delay(t, h, 0, 0)
	observe(h, 99, 50*ms, time.Second)
	delay(t, h, 4*time.Second, 0)
	observe(h, 1, 50*ms, 5*time.Second)
	delay(t, h, 6*time.Second, 0) // read every 3 s
	delay(t, h, 7*time.Second, 50*ms)
}

func TestNoHedgingWhereTheQuantileIsOutOfRange(t *testing.T) {
	h := hedge.New(twentieth, start)
	observe(h, 94, 50*ms, 0)
	observe(h, 6, 5*time.Second, 0) // attempt timeouts
	delay(t, h, 0, 0)
	observe(h, 30, 50*ms, 0) // now they are below 5 %
	delay(t, h, 3*time.Second, 50*ms)
}

func TestQuickUpstreamIsHedgedAfterMin(t *testing.T) {
	h := hedge.New(twentieth, start)
	observe(h, 1000, 100*time.Microsecond, 0)
	observe(h, 10, -1, 0)
	delay(t, h, 0, 10*ms)
}

func TestOldTimesAreForgotten(t *testing.T) {
	h := hedge.New(twentieth, start)
	observe(h, 1000, 500*ms, 0)
	delay(t, h, 0, 500*ms)
	for now := 10 * time.Second; now < 30*time.Second; now += time.Second {
		observe(h, 10, 50*ms, now)
	}
	delay(t, h, 29*time.Second, 500*ms)
	delay(t, h, 32*time.Second, 50*ms)
	delay(t, h, 60*time.Second, 0)
	observe(h, 100, 50*ms, time.Hour)
	delay(t, h, time.Hour, 50*ms)
}

func TestFixedDelayNeedsNoSamples_B24(t *testing.T) {
	h := hedge.New(hedge.Config{ExtraLoad: 0.05, Delay: 50 * ms, Min: time.Second}, start)
	for _, now := range []time.Duration{0, time.Hour} {
		if d, ok := h.Delay(at(now)); d != 50*ms || !ok {
			t.Errorf("%v, %v; want exactly 50 ms", d, ok)
		}
	}
}

func TestConfigureKeepsWhatWasMeasured(t *testing.T) {
	h := hedge.New(twentieth, start)
	observe(h, 100, 50*ms, 0)
	h.Configure(hedge.Config{ExtraLoad: 0.05, Delay: 20 * ms}, start)
	delay(t, h, 0, 20*ms)
	h.Configure(twentieth, start)
	delay(t, h, 0, 50*ms)
}

func TestPatienceWithTheLoser(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{ms: 50 * ms, 200 * ms: 200 * ms, 2 * time.Second: time.Second} {
		if got := hedge.Patience(delay); got != want {
			t.Errorf("after %v: %v, want %v", delay, got, want)
		}
	}
}

// account is the shared budget.
type account struct {
	left, asked, spent atomic.Int64
}

func (a *account) CanHedge(time.Time) bool {
	a.asked.Add(1)
	return a.left.Load() > 0
}

func (a *account) TryHedge(time.Time) bool {
	if a.left.Add(-1) < 0 {
		a.left.Add(1)
		return false
	}
	a.spent.Add(1)
	return true
}

func funds(n int64) *account {
	a := new(account)
	a.left.Store(n)
	return a
}

func TestExtraLoadIsEnforced(t *testing.T) {
	for _, share := range []float64{0.05, 0.07, 0.29, 1} {
		h, shared := hedge.New(hedge.Config{ExtraLoad: share}, start), funds(1000)
		var calls, hedges sync.WaitGroup
		for range 100 {
			calls.Go(func() { h.Deposit(start) })
		}
		calls.Wait()
		for range 200 {
			hedges.Go(func() { h.Try(start, shared) })
		}
		hedges.Wait()
		if got, want := shared.spent.Load(), int64(share*100+0.5); got != want {
			t.Errorf("%d hedges for 100 calls at %v, want %d", got, share, want)
		}
	}
}

// Every call is slower than the delay: the extra load stays what it is, in each ten seconds.
func TestSlowUpstreamIsNotDoubled(t *testing.T) {
	h, shared := hedge.New(hedge.Config{ExtraLoad: 0.05, Delay: 10 * ms}, start), funds(1_000_000)
	for now := time.Duration(0); now < 2*time.Minute; now += 10 * ms {
		h.Deposit(at(now))
		h.Try(at(now+10*ms), shared)
	}
	if got := shared.spent.Load(); got < 570 || got > 600 {
		t.Errorf("%d hedges for 12,000 calls, want 600", got)
	}
}

func TestCallsAreForgottenAfterTenSeconds(t *testing.T) {
	h, shared := hedge.New(twentieth, start), funds(100)
	for range 40 {
		h.Deposit(start)
	}
	if !h.Try(at(9*time.Second), shared) {
		t.Error("not granted within ten seconds")
	}
	if h.Try(at(10*time.Second), shared) {
		t.Error("granted for calls of ten seconds ago")
	}
	for range 20 {
		h.Deposit(at(time.Hour))
	}
	if !h.Try(at(time.Hour), shared) || h.Try(at(time.Hour), shared) {
		t.Error("not exactly one for 20 calls")
	}
}

// With an empty shared budget there is no hedge, and what was not spent there is not spent here (failsafe-go/failsafe-go#141).
func TestEmptySharedBudgetSuppresses_failsafe141(t *testing.T) {
	h, shared := hedge.New(twentieth, start), funds(0)
	for range 20 {
		h.Deposit(start)
	}
	if h.Try(start, shared) {
		t.Error("granted")
	}
	shared.left.Store(1)
	if !h.Try(start, shared) {
		t.Error("what was denied was spent")
	}
	if h.Try(start, funds(1)) {
		t.Error("two hedges for 20 calls")
	}
}

func TestShadowSpendsNothingOfTheSharedBudget(t *testing.T) {
	cfg := twentieth
	cfg.Shadow = true
	h, shared := hedge.New(cfg, start), funds(1)
	for range 40 {
		h.Deposit(start)
	}
	would := 0
	for range 10 {
		if h.Try(start, shared) {
			would++
		}
	}
	if would != 2 || shared.spent.Load() != 0 || shared.asked.Load() != 2 {
		t.Errorf("would have sent %d, spent %d; want 2 and none", would, shared.spent.Load())
	}
	shared.left.Store(0)
	h.Configure(cfg, start)
	if h.Try(at(time.Minute), shared) {
		t.Error("would have sent one without a budget")
	}
}
