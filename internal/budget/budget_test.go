package budget_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/budget"
)

var start = time.Now()

func at(d time.Duration) time.Time { return start.Add(d) }

// fifth is 20 % without a reserve.
var fifth = budget.Config{Percent: 20, Window: 10 * time.Second}

func deposit(b *budget.Budget, n int, now time.Time) {
	for range n {
		b.Deposit(now)
	}
}

// granted asks n times and counts the grants.
func granted(try func(time.Time) bool, n int, now time.Time) (count int) {
	for range n {
		if try(now) {
			count++
		}
	}
	return count
}

func TestHundredSimultaneousFailuresGetTwentyRetries(t *testing.T) {
	b := budget.New(fifth, start)
	var retries atomic.Int64
	var calls, failures sync.WaitGroup
	for range 100 {
		calls.Go(func() { b.Deposit(start) })
	}
	calls.Wait()
	for range 100 {
		failures.Go(func() {
			if b.TryRetry(start) {
				retries.Add(1)
			}
		})
	}
	failures.Wait()
	if got := retries.Load(); got != 20 {
		t.Errorf("%d retries, want 20", got)
	}
}

// In the same millisecond a thousand calls fail: those beyond the budget learn so before any back-off.
func TestThousandFailuresInOneMillisecond_envoy30205(t *testing.T) {
	for perSecond, want := range map[float64]int{0: 200, 1: 210, 10: 300} {
		b := budget.New(budget.Config{Percent: 20, PerSecond: perSecond, Window: 10 * time.Second}, start)
		deposit(b, 1000, start)
		if got := granted(b.TryRetry, 1000, at(time.Millisecond)); got != want {
			t.Errorf("reserve of %v/s: %d retries, want %d", perSecond, got, want)
		}
	}
}

// Six callers in a total outage: each call costs one attempt and asks for two retries. The share of retries stays what it
// was, however many of the callers are retrying.
func TestBudgetDoesNotShrinkAsCallsTurnIntoRetries_envoymobile811(t *testing.T) {
	b := budget.New(fifth, start)
	calls, retries := 0, 0
	for now := time.Duration(0); now < time.Minute; now += 100 * time.Millisecond {
		deposit(b, 6, at(now))
		calls += 6
		retries += granted(b.TryRetry, 12, at(now))
		if off := float64(retries) - 0.2*float64(calls); off > 1 || off < -1 {
			t.Fatalf("after %v: %d retries for %d calls", now, retries, calls)
		}
	}
}

func TestOneCallASecond_failsafe106(t *testing.T) {
	for perSecond, want := range map[float64]int{1: 60, 0: 12} {
		b := budget.New(budget.Config{Percent: 20, PerSecond: perSecond, Window: 10 * time.Second}, start)
		retries := 0
		var since []time.Duration // of the retries within a window
		for now := time.Duration(0); now < time.Minute; now += time.Second {
			b.Deposit(at(now))
			if !b.TryRetry(at(now + 50*time.Millisecond)) {
				continue
			}
			retries++
			since = append(since, now)
			for now-since[0] >= 10*time.Second {
				since = since[1:]
			}
			if perSecond == 0 && len(since) > 2 {
				t.Errorf("%d retries in the window before %v, want 2 for 10 calls", len(since), now)
			}
		}
		if retries < want-1 || retries > want {
			t.Errorf("reserve of %v/s: %d of 60 calls retried, want %d", perSecond, retries, want)
		}
	}
}

func TestHedgesHaveNoReserve(t *testing.T) {
	b := budget.New(budget.Config{Percent: 20, PerSecond: 10, Window: 10 * time.Second}, start)
	if b.CanHedge(start) || b.TryHedge(start) {
		t.Error("a hedge was granted without a call")
	}
	deposit(b, 10, start)
	for range 3 {
		if !b.CanHedge(start) {
			t.Error("asking spends")
		}
	}
	if got := granted(b.TryHedge, 5, start); got != 2 {
		t.Errorf("%d hedges for 10 calls, want 2", got)
	}
	if got := granted(b.TryRetry, 200, start); got != 100 {
		t.Errorf("%d retries, want the reserve of 100", got)
	}
	deposit(b, 400, start)
	if b.TryHedge(start) {
		t.Error("a hedge was granted although retries have overdrawn the account")
	}
}

func TestLeftIsTheNumberOfRetriesLeft(t *testing.T) {
	b := budget.New(budget.Config{Percent: 20, PerSecond: 1, Window: 10 * time.Second}, start)
	want := func(now time.Duration, want float64) {
		t.Helper()
		if got := b.Left(at(now)); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %v %v left, want %v", now, got, want)
		}
	}
	want(0, 10)
	deposit(b, 12, start)
	want(0, 12.4)
	granted(b.TryRetry, 100, start)
	want(0, 0.4)
	deposit(b, 5, at(5*time.Second))
	want(9*time.Second+999*time.Millisecond, 1.4)
	want(10*time.Second, 11) // the first bucket is gone
	want(15*time.Second, 10)
	want(time.Hour, 10)
}

func TestLateReadingOfTheClockIsHarmless(t *testing.T) {
	b := budget.New(fifth, start)
	deposit(b, 10, at(20*time.Second))
	deposit(b, 10, at(5*time.Second))
	deposit(b, 10, at(-time.Hour))
	if got := granted(b.TryRetry, 30, at(19*time.Second)); got != 6 {
		t.Errorf("%d retries, want 6", got)
	}
}

func TestEveryPercentageIsExact(t *testing.T) {
	for percent := 1; percent <= 100; percent++ {
		// As a share such as hedging's arrives: 0.29 * 100 is a little less than 29.
		b := budget.New(budget.Config{Percent: float64(percent) / 100 * 100, Window: time.Second}, start)
		deposit(b, 100, start)
		if got := granted(b.TryRetry, 200, start); got != percent {
			t.Errorf("%d %%: %d retries for 100 calls", percent, got)
		}
	}
}

func TestNothingIsGrantedByTheZeroConfig(t *testing.T) {
	b := budget.New(budget.Config{}, start)
	deposit(b, 1000, start)
	if b.TryRetry(start) || b.TryHedge(start) || b.Left(start) != 0 {
		t.Error("granted")
	}
}

func TestConfigureKeepsTheAccount(t *testing.T) {
	b := budget.New(fifth, start)
	deposit(b, 100, start)
	granted(b.TryRetry, 15, start)
	b.Configure(budget.Config{Percent: 10, Window: 10 * time.Second}, start)
	if got := b.Left(start); got != -5 {
		t.Errorf("%v left, want −5", got)
	}
	b.Configure(budget.Config{Percent: 20, Window: time.Minute}, at(9*time.Second))
	if got := b.Left(at(50 * time.Second)); got != 5 {
		t.Errorf("%v left, want 5 for a longer window", got)
	}
	if got := b.Left(at(70 * time.Second)); got != 0 {
		t.Errorf("%v left, want 0 after that window", got)
	}
}

// A model that remembers every event must come to the same decisions.
func TestBudgetAgreesWithItsDefinition(t *testing.T) {
	const width = time.Second
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := budget.Config{Percent: float64(1 + rnd.IntN(100)), PerSecond: float64(rnd.IntN(3)), Window: 10 * width}
		b := budget.New(cfg, start)
		cost := 100 / cfg.Percent
		var events []struct {
			bucket int64
			tokens float64
		}
		now := time.Duration(0)
		for range 3000 {
			now += time.Duration(rnd.ExpFloat64() * float64(20*time.Millisecond) * float64(1+rnd.IntN(20)))
			bucket, balance := int64(now/width), 0.0
			note := func(tokens float64) {
				events = append(events, struct {
					bucket int64
					tokens float64
				}{bucket, tokens})
			}
			for _, e := range events {
				if bucket-e.bucket < 10 {
					balance += e.tokens
				}
			}
			reserve := cfg.PerSecond * 10 * cost
			switch rnd.IntN(4) {
			case 0:
				if got, want := b.TryRetry(at(now)), balance+reserve >= cost-1e-6; got != want {
					t.Fatalf("seed %d, %v: retry %v with %v tokens of %v", seed, now, got, balance+reserve, cost)
				} else if got {
					note(-cost)
				}
			case 1:
				if got, want := b.TryHedge(at(now)), balance >= cost-1e-6; got != want {
					t.Fatalf("seed %d, %v: hedge %v with %v tokens of %v", seed, now, got, balance, cost)
				} else if got {
					note(-cost)
				}
			default:
				b.Deposit(at(now))
				note(1)
			}
		}
	}
}
