package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

// ruled is ejecting with only the given rules.
func ruled(change func(*balance.Eject)) balance.Config {
	e := balance.Eject{Volume: 20, Interval: 10 * time.Second, Base: 30 * time.Second, MaxTime: 300 * time.Second, MaxPercent: 50}
	change(&e)
	return balance.Config{Eject: &e}
}

var (
	byConnect     = ruled(func(e *balance.Eject) { e.Connect = 3 })
	byConsecutive = ruled(func(e *balance.Eject) { e.Consecutive = 5 })
	byMargin      = ruled(func(e *balance.Eject) { e.Margin = 0.3 })
)

// outcomes reports n outcomes, of which the given share, evenly spread, are failures.
func (f *field) outcomes(ep *balance.Endpoint, n int, failing float64) {
	owed := 0.0
	for range n {
		if owed += failing; owed >= 1-1e-9 {
			owed--
			f.observe(ep, balance.Failed, ms)
		} else {
			f.observe(ep, balance.OK, 10*ms)
		}
	}
}

// interval lets one interval pass in which each endpoint has n outcomes with its share of failures.
func (f *field) interval(n int, failing ...float64) {
	for i, share := range failing {
		f.outcomes(f.primary[i], n, share)
	}
	f.pass(10*time.Second + ms)
	f.observe(f.primary[0], balance.Neutral, 0) // the first of the next one ends it
}

func (f *field) expectEjected(n int, cause balance.Cause) {
	f.Helper()
	out := f.ejected()
	for ep, s := range out {
		if s.Ejection.Cause != cause {
			f.Errorf("%s was ejected by %v, want %v", ep.Address(), s.Ejection.Cause, cause)
		}
	}
	if len(out) != n {
		f.Errorf("%d ejected, want %d", len(out), n)
	}
}

func TestFailedDialsInARowEject(t *testing.T) {
	f := newWarm(t, byConnect, 4, 0)
	for _, o := range []balance.Outcome{balance.DialFailed, balance.DialFailed, balance.OK, balance.DialFailed, balance.DialFailed, balance.Failed, balance.DialFailed, balance.DialFailed, balance.Neutral} {
		f.observe(f.primary[0], o, 0)
	}
	f.expectEjected(0, 0)
	f.observe(f.primary[0], balance.DialFailed, 0)
	f.expectEjected(1, balance.ByConnect)
}

func TestFailuresInARowEject(t *testing.T) {
	f := newWarm(t, byConsecutive, 4, 0)
	f.fail(f.primary[0], 4)
	f.warm(f.primary[0])
	f.fail(f.primary[0], 2)
	f.observe(f.primary[0], balance.DialFailed, 0) // is one too
	f.observe(f.primary[0], balance.Neutral, 0)
	f.fail(f.primary[0], 1)
	f.expectEjected(0, 0)
	f.fail(f.primary[0], 1)
	f.expectEjected(1, balance.ByConsecutive)
	for ep, s := range f.ejected() {
		if ep != f.primary[0] || s.Ejection.InRow != 5 || s.Ejection.At != f.now || s.Ejection.Times != 1 {
			t.Errorf("%+v", s)
		}
	}
	for ep := range f.shares(1000, nil) {
		if ep == f.primary[0] {
			t.Error("an ejected endpoint was picked")
		}
	}
}

// 50,000 calls at 0.01 % errors are five failures; they mean nothing (resty's lifetime count).
func TestFailuresOfALifetimeDoNotEject(t *testing.T) {
	cfg := ejecting
	f := newWarm(t, balance.Config{Eject: &cfg}, 2, 0)
	for range 50 {
		f.outcomes(f.primary[0], 1000, 0.0001)
		f.outcomes(f.primary[0], 1, 1)
		f.outcomes(f.primary[1], 1000, 0)
		f.pass(time.Second)
	}
	f.expectEjected(0, 0)
}

func TestNeutralOutcomesMoveNothing_gobreaker105(t *testing.T) {
	f := newWarm(t, balance.Config{Eject: &ejecting}, 2, 0)
	before := f.Stats(f.now)
	for range 120 {
		f.observe(f.primary[0], balance.Neutral, 0)
	}
	f.pass(11 * time.Second)
	f.observe(f.primary[0], balance.Neutral, 0)
	after := f.Stats(f.now)
	if got, want := after.Endpoints[0], before.Endpoints[0]; got.InRow != 0 || got.Suspect != 0 || got.Ejected != 0 || after.Mean != before.Mean || got.Cost >= want.Cost {
		t.Errorf("%+v, was %+v", got, want)
	}
}

func TestThreeDeadOfTenAreEjected_grpcjava12537(t *testing.T) {
	f := newWarm(t, byMargin, 10, 0)
	f.interval(30, 0)
	f.interval(30, 1, 0, 0, 1, 0, 0, 0.05, 0, 1, 0.02)
	f.expectEjected(3, balance.ByMargin)
	for _, s := range f.ejected() {
		if s.Ejection.Share < 0.95 || s.Ejection.Median != 0 {
			t.Errorf("%+v", s.Ejection)
		}
	}
}

func TestMarginIsAboveTheMedian(t *testing.T) {
	for _, tc := range []struct {
		failing []float64
		ejected int
	}{
		{[]float64{0.3, 0, 0, 0}, 1},
		{[]float64{0.25, 0, 0, 0}, 0},
		{[]float64{0.45, 0.2, 0.2, 0.2}, 0},
		{[]float64{0.5, 0.2, 0.2, 0.2}, 1},
		{[]float64{1, 0}, 1}, // the median of two lies between them
		{[]float64{0.5, 0}, 0},
		{[]float64{1, 1, 1, 0, 0}, 0}, // most fail alike: it is the service
		{[]float64{1, 1, 1, 1}, 0},
		{[]float64{1, 1, 0, 0, 0}, 2},
		{[]float64{1, 0.8, 0.6, 0, 0, 0, 0}, 3},
		{[]float64{0.6, 0.8, 1, 0, 0}, 1}, // the median is 0.6, and the worst stands out even so
	} {
		f := newWarm(t, byMargin, len(tc.failing), 0)
		f.interval(20, tc.failing...)
		f.interval(20, tc.failing...)
		if got := len(f.ejected()); got != tc.ejected {
			t.Errorf("%v: %d ejected, want %d", tc.failing, got, tc.ejected)
		}
	}
}

func TestWorstGoFirstWhereNotAllMay(t *testing.T) {
	f := newWarm(t, ruled(func(e *balance.Eject) { e.Margin, e.MaxPercent = 0.3, 20 }), 5, 0)
	f.interval(0)
	f.interval(20, 0, 0.5, 0.9, 0, 0)
	if out := f.ejected(); len(out) != 1 || out[f.primary[2]].Ejected == 0 {
		t.Errorf("ejected %v", out)
	}
}

func TestMarginNeedsVolume(t *testing.T) {
	f := newWarm(t, byMargin, 4, 0)
	f.interval(0)
	for range 5 {
		f.interval(15, 1, 0, 0, 0)
	}
	f.expectEjected(0, 0)
	f.interval(20, 1, 0, 0, 0)
	f.expectEjected(1, balance.ByMargin)
}

func TestBoundOfEjections_gateway8140_envoy26877(t *testing.T) {
	for _, tc := range []struct{ size, percent, want int }{
		{1, 50, 0}, {1, 100, 0}, // never the last
		{2, 50, 1}, {2, 10, 1}, {2, 100, 1}, // one always may
		{3, 50, 1}, {3, 66, 1}, {3, 67, 2}, {3, 100, 2},
		{4, 50, 2}, {5, 50, 2}, {9, 50, 4}, {10, 50, 5}, {10, 10, 1}, {10, 100, 9},
	} {
		f := newWarm(t, ruled(func(e *balance.Eject) { e.Consecutive, e.MaxPercent = 5, tc.percent }), tc.size, 0)
		for range 3 { // they stand in line, and still nobody more goes
			for _, ep := range f.primary {
				f.fail(ep, 5)
			}
		}
		if got := len(f.ejected()); got != tc.want {
			t.Errorf("%d endpoints, %d %%: %d ejected, want %d", tc.size, tc.percent, got, tc.want)
		}
	}
}

// Whatever fails, and when: never more are ejected than the bound, never all, and each for its time.
func TestEjectionStaysInItsBounds(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		e := ejecting
		e.MaxPercent = rnd.IntN(101)
		size := 1 + rnd.IntN(12)
		f := newWarm(t, balance.Config{Eject: &e}, size, rnd.IntN(3))
		bound := min(max(1, size*e.MaxPercent/100), size-1)
		for range 2000 {
			f.pass(time.Duration(rnd.IntN(200)) * ms)
			ep := f.primary[rnd.IntN(size)]
			switch health := float64(seed%4) / 4; {
			case rnd.Float64() < health:
				f.warm(ep)
			case rnd.IntN(2) == 0:
				f.fail(ep, 1)
			default:
				f.observe(ep, balance.DialFailed, 0)
			}
			out := f.ejected()
			if len(out) > bound {
				t.Fatalf("seed %d: %d of %d ejected, at most %d", seed, len(out), size, bound)
			}
			for _, s := range out {
				if length := s.Ejection.For; length < 30*time.Second || length > 360*time.Second || s.Ejected > length {
					t.Fatalf("seed %d: %+v", seed, s)
				}
			}
		}
	}
}

func TestTimeGrowsWithEachEjectionAndIsForgiven(t *testing.T) {
	f := newWarm(t, ruled(func(e *balance.Eject) { e.Consecutive, e.MaxTime = 5, 100*time.Second }), 4, 0)
	ep := f.primary[0]
	eject := func(failures int, base time.Duration) {
		t.Helper()
		f.fail(ep, failures-1)
		f.expectEjected(0, 0)
		f.fail(ep, 1)
		s := f.ejected()[ep]
		if s.Ejected < base || s.Ejected > base*12/10 {
			t.Errorf("ejected for %v, want %v and up to a fifth more", s.Ejected, base)
		}
		f.pass(s.Ejected)
	}
	eject(5, 30*time.Second)
	eject(1, 60*time.Second) // no success since: one failure is enough
	eject(1, 90*time.Second)
	eject(1, 100*time.Second) // the bound
	f.warm(ep)
	eject(5, 100*time.Second)
	f.warm(ep)
	for range 4 { // of five
		f.interval(0)
	}
	eject(5, 60*time.Second)
	f.warm(ep)
	for range 10 {
		f.interval(0)
	}
	eject(5, 30*time.Second)
}

// What was not ejected only because others are gets no forgiveness for that.
func TestUnhealthyIntervalsAreNotForgiven(t *testing.T) {
	f := newWarm(t, ruled(func(e *balance.Eject) { e.Margin, e.Base, e.MaxTime, e.MaxPercent = 0.3, 12*time.Second, time.Hour, 25 }), 4, 0)
	f.interval(0)
	f.interval(20, 1, 0, 0, 0)
	f.pass(14500 * ms)
	f.warm(f.primary[0])
	f.interval(20, 0.9, 1, 0, 0) // another one takes the only place
	if out := f.ejected(); len(out) != 1 || out[f.primary[1]].Ejected == 0 {
		t.Fatalf("ejected %v", out)
	}
	if got := f.Stats(f.now).Endpoints[0].Times; got != 1 {
		t.Errorf("%d ejections not forgiven, want 1", got)
	}
}

func TestEjectionTimesAreSpread(t *testing.T) {
	shortest, longest := time.Hour, time.Duration(0)
	for range 300 {
		f := newWarm(t, byConsecutive, 2, 0)
		f.fail(f.primary[0], 5)
		d := f.ejected()[f.primary[0]].Ejected
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < 30*time.Second || shortest > 31*time.Second || longest > 36*time.Second || longest < 35*time.Second {
		t.Errorf("from %v to %v, want 30 s to 36 s", shortest, longest)
	}
}

func TestLateOutcomesNeitherProlongNorEndAnEjection(t *testing.T) {
	f := newWarm(t, byConsecutive, 4, 0)
	ep := f.primary[0]
	f.fail(ep, 5)
	before := f.ejected()[ep]
	f.fail(ep, 50) // attempts that were under way
	f.warm(ep)
	if after := f.ejected()[ep]; after.Ejected != before.Ejected || after.Times != 1 {
		t.Errorf("%+v, was %+v", after, before)
	}
	f.pass(before.Ejected)
	f.fail(ep, 1)
	f.expectEjected(1, balance.ByRelapse)
}

func TestEndOfAnEjectionIsASlowStart(t *testing.T) {
	cfg := byConsecutive
	cfg.SlowStart, cfg.Decay, cfg.Picker = slowStart, 1000*time.Hour, balance.RoundRobin
	f := newWarm(t, cfg, 4, 0)
	ep := f.primary[0]
	f.fail(ep, 5)
	f.pass(f.ejected()[ep].Ejected)
	f.warm(ep)
	if share := shareOf(f, ep); share < 0.02 || share > 0.05 {
		t.Errorf("share %.3f, want a tenth of a quarter", share)
	}
	f.pass(slowStart)
	near(t, "after slow start", draws, shareOf(f, ep), 0.25)
}

func TestAllUnhealthyIsAPanicAndNotAnOutage_istio20135(t *testing.T) {
	for _, picker := range pickers {
		f := newWarm(t, balance.Config{Picker: picker, SlowStart: slowStart, Eject: &ejecting}, 5, 0)
		for range 3 {
			for _, ep := range f.primary {
				f.fail(ep, 5)
			}
		}
		// Two of five are ejected; of the rest two breakers are open, so one fifth is available.
		var left []*balance.Endpoint
		out := f.ejected()
		for _, ep := range f.primary {
			if out[ep].Ejected == 0 && len(left) < 2 {
				f.breakers[ep].shut = true
				left = append(left, ep)
			}
		}
		f.Refresh()
		p := f.pick(keys(0))
		p.Endpoint.Release()
		shares := f.shares(1000, keys)
		for _, ep := range f.primary {
			share := shares[ep]
			if shut := f.breakers[ep].shut; shut && share > 0 || !shut && share < 0.25 {
				t.Errorf("%v: share %.3f, breaker open: %v", picker, share, shut)
			}
		}
		if !p.Panic || p.Wish != balance.Fresh {
			t.Errorf("%v: %+v, want panic", picker, p)
		}
		for _, ep := range left {
			f.breakers[ep].shut = false
		}
		f.Refresh()
		if p := f.pick(keys(0)); p.Panic || out[p.Endpoint].Ejected > 0 {
			t.Errorf("%v: %+v with three fifths available", picker, p)
		}
	}
}

func TestPanicCanBeOff(t *testing.T) {
	f := newWarm(t, ruled(func(e *balance.Eject) { e.Consecutive, e.MaxPercent = 5, 100 }), 5, 0)
	for _, ep := range f.primary {
		f.fail(ep, 5)
	}
	p := f.pick(balance.Query{})
	if p.Panic || f.ejected()[p.Endpoint].Ejected > 0 {
		t.Errorf("%+v", p)
	}
}

func TestShadowEjectsNobodyAndTells(t *testing.T) {
	e := ejecting
	e.Shadow = true
	f := newWarm(t, balance.Config{Eject: &e, SlowStart: slowStart, Decay: time.Hour, Picker: balance.RoundRobin}, 2, 0)
	f.fail(f.primary[0], 5)
	f.warm(f.primary[0])
	would := 0
	for range 100 {
		p := f.pick(balance.Query{})
		p.Endpoint.Release()
		if p.WouldEject != (p.Endpoint == f.primary[0]) || p.Wish != balance.Fresh {
			t.Fatalf("%+v", p)
		}
		if p.WouldEject {
			would++
		}
	}
	if would != 50 {
		t.Errorf("%d of 100 picks went to the endpoint, want its full share", would)
	}
	f.pass(40 * time.Second) // nor is it in slow start when that would have ended
	near(t, "afterwards", draws, shareOf(f, f.primary[0]), 0.5)
	f.pass(-40 * time.Second)
	if s := f.ejected()[f.primary[0]]; !s.Ejection.Shadow {
		t.Errorf("%+v", s)
	}
}

func TestWithoutEjectNobodyIs(t *testing.T) {
	f := newWarm(t, balance.Config{}, 3, 0)
	f.fail(f.primary[0], 1000)
	f.expectEjected(0, 0)
}

func TestReloadKeepsEjections(t *testing.T) {
	f := newWarm(t, byConsecutive, 3, 0)
	f.fail(f.primary[0], 5)
	before := f.ejected()
	f.Configure(balance.Config{Eject: &ejecting, Picker: balance.RoundRobin})
	f.Set(f.primary[:2], nil)
	if after := f.ejected(); len(after) != 1 || after[f.primary[0]].Ejected != before[f.primary[0]].Ejected {
		t.Errorf("%v, was %v", after, before)
	}
	f.Configure(balance.Config{})
	if got := f.shares(1000, nil)[f.primary[0]]; got != 0 && f.pick(balance.Query{}).Wish != balance.Fresh {
		t.Errorf("share %v", got)
	}
}
