package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/limit"
)

// A line is an upstream as the gradient sees it: windows of samples, in its own time.
type line struct {
	t   *testing.T
	l   *limit.Limit
	now time.Time
}

func newLine(t *testing.T, a limit.Adaptive) *line {
	if a.MaxHealthy == 0 {
		a.MaxHealthy = 2500 * ms
	}
	return &line{t: t, l: limit.New(limit.Config{Max: 256, Queue: 64, Adaptive: &a}), now: time.Now()}
}

// usual are the defaults beside a limit of 256 and an attempt timeout of 5 s.
var usual = limit.Adaptive{Min: 8, Init: 20, Max: 256}

// window passes n samples over exactly one window's time, while the given share of the slots is taken, and returns the limit.
func (li *line) window(n int, load float64, sample func(i int) limit.Sample) int {
	taken := 0
	for range int(load * float64(li.l.Stats().Limit)) {
		if li.l.Acquire(li.t.Context(), 0).Outcome == limit.Granted {
			taken++
		}
	}
	start := li.now
	for i := range n {
		li.now = start.Add(time.Duration(i) * time.Second / time.Duration(n-1))
		li.l.Observe(sample(i), li.now)
	}
	for range taken {
		li.l.Release()
	}
	li.now = li.now.Add(10 * ms)
	return li.l.Stats().Limit
}

func (li *line) windows(count, n int, load float64, sample func(i int) limit.Sample) (limit int) {
	for range count {
		limit = li.window(n, load, sample)
	}
	return limit
}

func took(d time.Duration) func(int) limit.Sample {
	return func(int) limit.Sample { return limit.Sample{Time: d} }
}

func timeouts(int) limit.Sample {
	return limit.Sample{Time: 5 * time.Second, Failed: true, Overloaded: true}
}

func TestConstantTimeoutsHoldItAtMin_concurrencylimits137(t *testing.T) {
	a := usual
	a.Init = 256
	li := newLine(t, a)
	windows := 1
	for li.window(50, 1, timeouts) > 8 {
		if windows++; windows > 40 {
			break
		}
	}
	if windows != 33 {
		t.Errorf("from 256 to 8 in %d windows, want 33", windows)
	}
	for range 600 { // ten minutes
		if got := li.window(50, 1, timeouts); got != 8 {
			t.Fatalf("the limit is %d", got)
		}
	}
	if b := li.l.Stats().Baseline; b != 0 {
		t.Errorf("the outage was learnt as normal: %v", b)
	}
	windows = 1
	for li.window(50, 1, took(50*ms)) < 100 {
		if windows++; windows > 40 {
			break
		}
	}
	if windows > 20 {
		t.Errorf("back at 100 after %d windows, want 20", windows)
	}
}

// Slow answers that never time out are an outage too, and so is a tenth of "too many requests".
func TestSickWindowsShrinkItAndTeachNothing_failsafe127(t *testing.T) {
	for name, sample := range map[string]func(int) limit.Sample{
		"slow": took(3 * time.Second),
		"a tenth of 429": func(i int) limit.Sample {
			return limit.Sample{Time: 50 * ms, Overloaded: i%10 == 0}
		},
	} {
		t.Run(name, func(t *testing.T) {
			li := newLine(t, limit.Adaptive{Min: 8, Init: 100, Max: 256})
			before := li.windows(20, 50, 0, took(50*ms))
			base := li.l.Stats().Baseline
			if after := li.windows(10, 50, 1, sample); after > before*36/100 {
				t.Errorf("from %d to %d in 10 windows, want a third", before, after)
			}
			if got := li.l.Stats().Baseline; got != base {
				t.Errorf("the baseline moved from %v to %v", base, got)
			}
		})
	}
}

func TestGrowsOnlyWhereItIsUsed(t *testing.T) {
	li := newLine(t, usual)
	if got := li.windows(50, 50, 0.3, took(50*ms)); got != 20 {
		t.Errorf("at a third of its slots it grew to %d", got)
	}
	if got := li.windows(1, 50, 0.6, took(50*ms)); got != 24 {
		t.Errorf("at half of its slots it is %d, want 24", got)
	}
	li.windows(2, 50, 1, took(50*ms))
	li.windows(1, 50, 0.3, took(50*ms)) // the calls of the window before were still running when it began
	if before, got := li.l.Stats().Limit, li.windows(20, 50, 0.3, took(50*ms)); got != before {
		t.Errorf("after the load it grew on from %d to %d", before, got)
	}
	if got := li.windows(100, 50, 1, took(50*ms)); got != 256 {
		t.Errorf("it is %d, want Max", got)
	}
}

func TestThoseWhoWaitProfitFromItsGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		li := newLine(t, usual)
		for range 20 {
			call(t, li.l, 0).has(t, limit.Granted)
		}
		waiting := call(t, li.l, time.Hour)
		li.window(50, 0, took(50*ms))
		waiting.has(t, limit.Granted)
	})
}

func TestSlowdownShrinksItByDegrees(t *testing.T) {
	li := newLine(t, limit.Adaptive{Min: 8, Init: 100, Max: 256})
	li.windows(60, 50, 0, took(100*ms))
	if got := li.window(50, 0, took(140*ms)); got != 100 {
		t.Errorf("1.4 times slower: %d, want no change", got)
	}
	if got := li.window(50, 0, took(200*ms)); got < 86 || got > 90 {
		t.Errorf("twice as slow: %d, want a fall by an eighth", got)
	}
	if got := li.window(50, 0, took(1000*ms)); got < 64 || got > 68 {
		t.Errorf("ten times slower: %d, want a fall by a quarter", got)
	}
}

func TestRejectionsNeverLowerTheBaseline_concurrencylimits176(t *testing.T) {
	li := newLine(t, usual)
	li.windows(60, 50, 0, took(50*ms))
	before := li.l.Stats().Baseline
	for _, share := range []int{2, 1} { // half, then all
		li.windows(200, 50, 0, func(i int) limit.Sample {
			if i%share == 0 {
				return limit.Sample{Time: ms, Failed: true}
			}
			return limit.Sample{Time: 50 * ms}
		})
		if got := li.l.Stats().Baseline; got < before-ms {
			t.Errorf("1 failure in %d: baseline %v, was %v", share, got, before)
		}
	}
	if got := li.window(50, 1, took(50*ms)); got < 20 {
		t.Errorf("the limit fell to %d", got)
	}
}

func TestNothingIsLearntFromQuickFailuresAlone(t *testing.T) {
	li := newLine(t, usual)
	got := li.windows(100, 50, 1, func(int) limit.Sample { return limit.Sample{Time: ms, Failed: true} })
	if b := li.l.Stats().Baseline; b != 0 || got != 20 {
		t.Errorf("baseline %v, limit %d", b, got)
	}
}

func TestSlowDriftIsLearntAsNormal(t *testing.T) {
	li := newLine(t, limit.Adaptive{Min: 8, Init: 100, Max: 256})
	d := 50 * ms
	for range 400 {
		li.window(50, 0.6, took(d))
		d += ms
	}
	if got := li.l.Stats(); got.Limit != 256 {
		t.Errorf("%+v after a drift to %v, want Max", got, d)
	}
}

func TestBaselineFallsFasterOnceTheUpstreamIsQuick(t *testing.T) {
	li := newLine(t, usual)
	li.windows(100, 50, 0, took(1000*ms))
	windows := 0
	for li.l.Stats().Baseline > 220*ms && windows < 200 {
		li.window(50, 0, took(100*ms))
		windows++
	}
	if windows > 30 {
		t.Errorf("%d windows until the baseline was near", windows)
	}
}

func TestWindowNeedsTwentySamplesOrTenSeconds(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration
		steps int // limits passed in a minute of timeouts
	}{
		{10 * ms, 59},
		{100 * ms, 31}, // 20 samples take 1.9 s
		{1000 * ms, 5}, // eleven samples, ten seconds
		{time.Minute, 0},
	} {
		li := newLine(t, limit.Adaptive{Min: 1, Init: 10_000, Max: 10_000})
		steps, last := 0, li.l.Stats().Limit
		for now := time.Duration(0); now < time.Minute; now += tc.every {
			li.l.Observe(timeouts(0), li.now.Add(now))
			if got := li.l.Stats().Limit; got != last {
				steps, last = steps+1, got
			}
		}
		if steps < tc.steps-1 || steps > tc.steps+1 {
			t.Errorf("a sample each %v: %d windows in a minute, want %d", tc.every, steps, tc.steps)
		}
	}
}

func TestIdleTimeIsNoWindow(t *testing.T) {
	li := newLine(t, usual)
	li.window(50, 0, took(50*ms))
	li.now = li.now.Add(time.Hour)
	li.l.Observe(timeouts(0), li.now) // the first of a new window, and not the end of an old one
	if got := li.l.Stats().Limit; got != 20 {
		t.Errorf("one sample after an hour moved the limit to %d", got)
	}
}

func TestConfigureKeepsWhatWasLearnt(t *testing.T) {
	li := newLine(t, usual)
	li.windows(20, 50, 1, took(50*ms))
	before := li.l.Stats()
	a := usual
	a.Max, a.MaxHealthy = 60, time.Second
	li.l.Configure(limit.Config{Max: 60, Adaptive: &a})
	if got := li.l.Stats(); got.Baseline != before.Baseline || got.Limit != 60 {
		t.Errorf("%+v after %+v", got, before)
	}
	li.l.Configure(limit.Config{Max: 70})
	if got := li.l.Stats(); got.Limit != 70 || got.Baseline != 0 {
		t.Errorf("%+v, want a fixed limit", got)
	}
	li.l.Observe(timeouts(0), li.now)
}
