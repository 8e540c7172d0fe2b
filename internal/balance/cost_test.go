package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

func (f *field) cost(ep *balance.Endpoint) time.Duration {
	d, _ := ep.Cost(f.now)
	return d
}

func (f *field) expectCost(ep *balance.Endpoint, want time.Duration) {
	f.Helper()
	if got := f.cost(ep); (got - want).Abs() > want/1000+time.Microsecond {
		f.Errorf("cost %v, want %v", got, want)
	}
}

func TestCostGoesUpAtOnceAndDownSlowly(t *testing.T) {
	f := newField(t, balance.Config{Decay: 10 * time.Second}, 2, 0)
	ep := f.primary[0]
	if d, ok := ep.Cost(f.now); ok || d != 0 {
		t.Errorf("cost %v before there is a sample", d)
	}
	f.observe(ep, balance.OK, 100*ms)
	f.expectCost(ep, 100*ms)
	f.observe(ep, balance.OK, 300*ms)
	f.expectCost(ep, 300*ms)
	f.pass(10 * time.Second)
	f.expectCost(ep, seconds(0.3/math.E)) // as if 0 had been seen
	f.observe(ep, balance.OK, 100*ms)
	f.expectCost(ep, seconds(0.1*(1-1/math.E)+0.3/math.E))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// A slower answer never leaves a lower cost than a quicker one would have.
func TestCostRisesWithTheSample(t *testing.T) {
	for range 2000 {
		first, age := time.Duration(rand.IntN(200))*ms, time.Duration(rand.IntN(30_000))*ms
		a, b := time.Duration(rand.IntN(200))*ms, time.Duration(rand.IntN(200))*ms
		after := func(d time.Duration) time.Duration {
			f := newField(t, balance.Config{}, 1, 0)
			f.observe(f.primary[0], balance.OK, max(first, 50*ms))
			f.pass(age)
			f.observe(f.primary[0], balance.OK, d)
			return f.cost(f.primary[0])
		}
		if x, y := after(min(a, b)), after(max(a, b)); x > y {
			t.Fatalf("%v after %v and %v, but %v after %v", x, age, min(a, b), y, max(a, b))
		}
	}
}

func TestFailureNeverLowersTheCost(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	ep := f.primary[0]
	f.observe(ep, balance.OK, 50*ms)
	for range 2000 {
		f.pass(time.Duration(rand.IntN(5000)) * ms)
		before := f.cost(ep)
		f.observe(ep, []balance.Outcome{balance.Failed, balance.DialFailed, balance.Neutral}[rand.IntN(3)], time.Duration(rand.IntN(3))*ms)
		if after := f.cost(ep); after < before-1 {
			t.Fatalf("from %v to %v", before, after)
		}
	}
	fresh := f.primary[1]
	f.observe(fresh, balance.Failed, ms)
	if got := f.cost(fresh); got < 50*ms {
		t.Errorf("a first attempt that failed in 1 ms made a cost of %v, the others take 50 ms", got)
	}
}

func TestEndpointThatGoesOnFailingQuicklyStaysAsDearAsItWas_fasthttp865(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	ep := f.primary[0]
	f.observe(ep, balance.OK, 50*ms)
	for range 600 {
		f.pass(100 * ms)
		f.observe(ep, balance.Failed, ms)
	}
	if got := f.cost(ep); got < 45*ms {
		t.Errorf("after a minute of failures in 1 ms the cost is %v, want 50 ms", got)
	}
}

func TestLateReadingOfTheClockIsHarmless(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	ep, late := f.primary[0], f.now
	f.pass(10 * time.Second)
	f.observe(ep, balance.OK, 50*ms)
	ep.Observe(balance.Observation{Outcome: balance.OK, Time: 50 * ms}, late)
	f.expectCost(ep, 50*ms)
}

func TestLostHedgeIsALowerBound(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	ep := f.primary[0]
	f.observe(ep, balance.OK, 50*ms)
	f.observe(ep, balance.Neutral, 20*ms)
	f.expectCost(ep, 50*ms)
	f.observe(ep, balance.Neutral, 150*ms)
	f.expectCost(ep, 150*ms)
}

func TestOneSlowAnswerCountsForFiveMeans(t *testing.T) {
	f := newWarm(t, balance.Config{}, 2, 0) // at 10 ms
	f.observe(f.primary[0], balance.Failed, 5*time.Second)
	f.expectCost(f.primary[0], 50*ms)
}

func TestMeanIsTheRunningAverageOfSuccesses(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	if f.Mean() != 0 {
		t.Errorf("mean %v without a sample", f.Mean())
	}
	for i := range 1000 {
		f.pass(50 * ms)
		f.observe(f.primary[i%2], balance.OK, time.Duration(20+20*(i%2))*ms)
		f.observe(f.primary[0], balance.Failed, ms)
		f.observe(f.primary[0], balance.Neutral, time.Hour)
	}
	if m := f.Mean(); m < 29*ms || m > 31*ms {
		t.Errorf("mean %v, want 30 ms", m)
	}
	before := f.Mean()
	f.pass(50 * ms)
	f.observe(f.primary[0], balance.OK, time.Hour)
	if m := f.Mean(); m > before*11/10 {
		t.Errorf("one answer moved the mean from %v to %v", before, m)
	}
	for range 1200 {
		f.pass(50 * ms)
		f.observe(f.primary[0], balance.OK, 90*ms)
	}
	if m := f.Mean(); m < 89*ms || m > 91*ms {
		t.Errorf("mean %v after a minute at 90 ms", m)
	}
}

func TestFirstSampleIsNoMeasureForLong(t *testing.T) {
	f := newField(t, balance.Config{}, 1, 0)
	f.observe(f.primary[0], balance.OK, 300*ms) // cold
	for range 100 {
		f.observe(f.primary[0], balance.OK, 10*ms)
	}
	if m := f.Mean(); m > 14*ms {
		t.Errorf("mean %v after 100 samples of 10 ms", m)
	}
}

func TestMeanOfManyAtATime(t *testing.T) {
	f := newField(t, balance.Config{}, 4, 0)
	done := make(chan struct{})
	for _, ep := range f.primary {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 2000 {
				ep.Observe(balance.Observation{Outcome: balance.OK, Time: 10 * ms}, f.now)
			}
		}()
	}
	for range f.primary {
		<-done
	}
	if m := f.Mean(); (m - 10*ms).Abs() > 10*time.Microsecond {
		t.Errorf("mean %v", m)
	}
}
