package balance_test

import (
	"math"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

const slowStart = 30 * time.Second

func ramping(picker balance.Picker) balance.Config {
	return balance.Config{Picker: picker, SlowStart: slowStart, Decay: time.Hour} // costs stay equal
}

// joined is a set of settled endpoints that newcomers have joined, and answered, at the given age.
func joined(t testing.TB, picker balance.Picker, settled, newcomers int, age time.Duration) (*field, []*balance.Endpoint) {
	f := newWarm(t, ramping(picker), settled, 0)
	var fresh []*balance.Endpoint
	for range newcomers {
		fresh = append(fresh, f.join())
	}
	f.warm(fresh...)
	f.pass(age)
	return f, fresh
}

const draws = 10_000

func shareOf(f *field, ep *balance.Endpoint) float64 { return f.shares(draws, keys)[ep] }

// sigma is a standard deviation of the difference of two shares.
func sigma(share float64) float64 { return math.Sqrt(2 * share / draws) }

func TestShareOfANewcomerRisesToItsFull_envoy19437(t *testing.T) {
	for _, picker := range pickers {
		for _, settled := range []int{1, 3, 9} {
			full := 1 / float64(settled+1)
			last := 0.0
			for i, age := range []time.Duration{0, 3 * time.Second, 8 * time.Second, 15 * time.Second, 22 * time.Second, slowStart, time.Hour} {
				f, fresh := joined(t, picker, settled, 1, age)
				share := shareOf(f, fresh[0])
				if share < last-5*sigma(full) || share > full+5*sigma(full) {
					t.Errorf("%v, %d settled: share %.4f after %v, was %.4f, full is %.4f", picker, settled, share, age, last, full)
				}
				if i == 0 && (share > full*0.2 || share == 0) {
					t.Errorf("%v, %d settled: begins with %.4f of %.4f", picker, settled, share, full)
				}
				last = share
			}
			near(t, picker.String(), draws, last, full)
		}
	}
}

func TestSecondNewcomerNeverRaisesTheFirstOnesShare_envoy26290(t *testing.T) {
	for _, picker := range pickers {
		for _, settled := range []int{1, 4} {
			for _, age := range []time.Duration{0, 15 * time.Second} {
				f, fresh := joined(t, picker, settled, 1, age)
				alone := shareOf(f, fresh[0])
				second := f.join()
				f.warm(second)
				if both := shareOf(f, fresh[0]); both > alone+5*sigma(alone) {
					t.Errorf("%v, %d settled: share %.4f beside a second one, %.4f alone", picker, settled, both, alone)
				}
			}
		}
	}
}

func TestNewcomerHasTrafficWithinTwoSeconds(t *testing.T) {
	for _, picker := range pickers {
		f := newWarm(t, ramping(picker), 3, 0)
		ep := f.join()
		seen := 0
		for i := range 80 { // 40 calls a second
			p := f.pick(keys(i))
			if p.Endpoint == ep {
				seen++
			}
			f.pass(25 * ms)
			f.observe(p.Endpoint, balance.OK, 10*ms)
			p.Endpoint.Release()
		}
		if seen == 0 || seen > 20 {
			t.Errorf("%v: %d of 80 calls, want some and not the most", picker, seen)
		}
	}
}

// Until it has answered it is sent one attempt, and then no more than its share of a burst (httplb: 9 of the next 10).
func TestBurstDoesNotFloodANewcomer_httplb(t *testing.T) {
	for _, picker := range pickers {
		f := newWarm(t, ramping(picker), 3, 0)
		ep := f.join()
		for i := range 300 {
			f.pick(keys(i))
		}
		if got := ep.Pending(); got != 1 {
			t.Errorf("%v: %d attempts before the first answer, want 1", picker, got)
		}
		for _, age := range []time.Duration{0, 6 * time.Second, 18 * time.Second} {
			f, fresh := joined(t, picker, 3, 1, age)
			for i := range 600 {
				f.pick(keys(i))
			}
			factor := max(0.1, age.Seconds()/slowStart.Seconds())
			settled := 0
			for _, ep := range f.primary[:3] {
				settled += ep.Pending()
			}
			if got, bound := fresh[0].Pending(), math.Ceil(factor*float64(settled)/3); float64(got) > bound {
				t.Errorf("%v after %v: %d of 600 pending, at most %v", picker, age, got, bound)
			}
		}
	}
}

func TestHangingNewcomerHoldsUpOneCall(t *testing.T) {
	f := newWarm(t, ramping(balance.LeastConnections), 3, 0)
	ep := f.join()
	for range 1000 {
		if p := f.pick(balance.Query{}); p.Endpoint != ep {
			p.Endpoint.Release()
		}
		f.pass(ms)
	}
	if ep.Pending() != 1 {
		t.Errorf("%d calls hang there", ep.Pending())
	}
}

func TestSetThatIsNewAsAWholeHasNeitherGateNorRamp(t *testing.T) {
	for _, picker := range pickers {
		f := newField(t, ramping(picker), 4, 0)
		for i := range 40 {
			f.pick(keys(i))
		}
		for _, ep := range f.primary {
			if ep.Pending() < 2 {
				t.Errorf("%v: %d pending at start, want about 10", picker, ep.Pending())
			}
			f.warm(ep)
			for ep.Pending() > 0 {
				ep.Release()
			}
		}
		for _, s := range f.Stats(f.now).Endpoints {
			if s.Factor != 1 || !s.Warm {
				t.Errorf("%v: %+v", picker, s)
			}
		}
		// All old ones are replaced at once: nobody is settled among the new.
		f.primary = nil
		for range 4 {
			f.primary = append(f.primary, f.endpoint("10.0.9.", len(f.primary)))
		}
		f.Set(f.primary, nil)
		f.warm(f.primary...)
		for ep, share := range f.shares(draws, keys) {
			near(t, picker.String()+" "+ep.Address(), draws, share, 0.25)
		}
	}
}

func TestFirstOfANewSetToAnswerHoldsNobodyBack(t *testing.T) {
	for _, picker := range pickers {
		f := newField(t, ramping(picker), 4, 0)
		f.warm(f.primary[0])
		for i := range 40 {
			f.pick(keys(i))
		}
		sum := 0
		for _, ep := range f.primary[1:] {
			sum += ep.Pending()
		}
		if sum < 10 && picker != balance.PeakEWMA { // which waits for their first answers anyway
			t.Errorf("%v: %d of 40 pending at three of four", picker, sum)
		}
	}
}

func TestEndpointThatComesBackKeepsWhatItLearnt(t *testing.T) {
	f := newWarm(t, ramping(balance.PeakEWMA), 3, 0)
	gone := f.primary[0]
	f.fail(gone, 2)
	f.Set(f.primary[1:], nil)
	f.observe(gone, balance.Failed, ms) // late
	f.Set(f.primary, nil)
	s := f.Stats(f.now).Endpoints[0]
	if s.Endpoint != gone || !s.Warm || s.Factor != 1 || s.InRow != 3 || s.Cost == 0 {
		t.Errorf("%+v", s)
	}
}

func TestHalfOpenEndpointIsDrawnLikeANewOne(t *testing.T) {
	for _, picker := range pickers {
		f := newWarm(t, ramping(picker), 4, 0)
		ep := f.primary[1]
		f.breakers[ep].probing = true
		f.pass(time.Hour)
		share := shareOf(f, ep)
		if share < 0.01 || share > 0.05 {
			t.Errorf("%v: share %.4f half-open, want a tenth of a quarter", picker, share)
		}
		f.breakers[ep].probing = false
		f.Rewarm(ep)
		if share = shareOf(f, ep); share < 0.01 || share > 0.05 {
			t.Errorf("%v: share %.4f just closed, want the same", picker, share)
		}
		f.pass(slowStart)
		near(t, picker.String()+" closed for long", draws, shareOf(f, ep), 0.25)
	}
}

// Rewarm is what the client does when a breaker closes.
func (f *field) Rewarm(ep *balance.Endpoint) { ep.Rewarm(f.now) }

func TestSlowStartIsIgnoredWhereThereIsNothingElse(t *testing.T) {
	for _, picker := range pickers {
		f, fresh := joined(t, picker, 1, 2, 0)
		f.breakers[f.primary[0]].shut = true
		const n = 3000
		shares := f.shares(n, keys)
		if got := shares[fresh[0]] + shares[fresh[1]]; got < 1-1e-9 {
			t.Errorf("%v: %.3f of the picks found an endpoint", picker, got)
		}
		near(t, picker.String(), n, shares[fresh[0]], 0.5)
		for i := range 100 {
			f.pick(keys(i))
		}
		if fresh[0].Pending()+fresh[1].Pending() != 100 {
			t.Errorf("%v: a burst was refused", picker)
		}
	}
}

func TestSlowStartCanBeOff(t *testing.T) {
	for _, picker := range pickers {
		f := newWarm(t, balance.Config{Picker: picker, Decay: time.Hour}, 3, 0)
		ep := f.join()
		f.warm(ep)
		near(t, picker.String(), draws, shareOf(f, ep), 0.25)
	}
}
