package balance_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

// shut closes off all but so many of the endpoints.
func (f *field) leave(eps []*balance.Endpoint, n int) {
	for i, ep := range eps {
		f.breakers[ep].shut = i >= n
	}
	f.Refresh()
}

func TestSpillIsGradual(t *testing.T) {
	for _, tc := range []struct {
		primary, secondary [2]int // available, known
		factor             float64
		want               float64 // share that stays
		panic              bool
	}{
		{[2]int{4, 4}, [2]int{4, 4}, 1.4, 1, false},
		{[2]int{72, 100}, [2]int{4, 4}, 1.4, 1, false},
		{[2]int{71, 100}, [2]int{4, 4}, 1.4, 0.994, false},
		{[2]int{2, 4}, [2]int{4, 4}, 1.4, 0.7, false},
		{[2]int{1, 4}, [2]int{4, 4}, 1.4, 0.35, false},
		{[2]int{1, 4}, [2]int{1, 4}, 1.4, 0.5, true},
		{[2]int{1, 4}, [2]int{1, 2}, 1.4, 0.35, false},  // 35 + 70
		{[2]int{1, 5}, [2]int{2, 5}, 1.4, 1. / 3, true}, // 28 + 56
		{[2]int{0, 4}, [2]int{3, 4}, 1.4, 0, false},
		{[2]int{0, 4}, [2]int{1, 4}, 1.4, 0, true},
		{[2]int{0, 0}, [2]int{4, 4}, 1.4, 0, false}, // no addresses
		{[2]int{1, 4}, [2]int{0, 0}, 1.4, 1, true},
		{[2]int{2, 4}, [2]int{4, 4}, 1, 0.5, false},
		{[2]int{2, 4}, [2]int{4, 4}, 0, 1, false}, // no spill
	} {
		f := newWarm(t, balance.Config{SpillFactor: tc.factor, Eject: &ejecting}, tc.primary[1], tc.secondary[1])
		f.leave(f.primary, tc.primary[0])
		f.leave(f.secondary, tc.secondary[0])
		const n = 10_000
		stayed, panics := 0, 0
		for range n {
			p := f.pick(balance.Query{})
			if p.Endpoint == nil {
				t.Fatalf("%+v: nothing picked", tc)
			}
			p.Endpoint.Release()
			if p.Tier == balance.Primary {
				stayed++
			}
			if p.Panic {
				panics++
			}
		}
		near(t, "stayed", n, float64(stayed)/n, tc.want)
		if s := f.Stats(f.now); tc.factor > 0 && tc.secondary[1] > 0 && (s.Share < tc.want-0.001 || s.Share > tc.want+0.001) {
			t.Errorf("%+v: %+v", tc, s)
		}
		if panics > 0 != tc.panic {
			t.Errorf("%+v: %d panics", tc, panics)
		}
	}
}

func TestCallsFromOutsideNeverComeIn(t *testing.T) {
	f := newWarm(t, balance.Config{SpillFactor: 1.4, Eject: &ejecting}, 4, 4)
	f.leave(f.secondary, 1)
	for range 1000 {
		p := f.pick(balance.Query{Tier: balance.Secondary})
		if p.Tier != balance.Secondary || p.Endpoint != f.secondary[0] || !p.Panic || p.Known != 4 {
			t.Fatalf("%+v, want panic in the second tier: nobody can take over", p)
		}
		p.Endpoint.Release()
	}
	if s := f.Stats(f.now); !s.Panic[balance.Secondary] || s.Panic[balance.Primary] {
		t.Errorf("%+v", s)
	}
	if p := f.pick(balance.Query{}); p.Panic {
		t.Errorf("%+v: the first tier bears it all", p)
	}
}

// Without active checks: the calls' own failures are enough for all traffic to leave a dead tier.
func TestDeadTierSpillsByPassiveSignalsAlone_istio14099(t *testing.T) {
	f := newWarm(t, balance.Config{SpillFactor: 1.4, SlowStart: slowStart, Eject: &ejecting}, 4, 2)
	row := map[*balance.Endpoint]int{}
	failed, late := 0, 0
	for i := range 2000 {
		f.pass(10 * ms)
		q := balance.Query{}
		for { // a call moves on while there is an untried endpoint
			p := f.pick(q)
			ep := p.Endpoint
			if ep == nil {
				failed++
				break
			}
			ep.Release()
			if p.Tier == balance.Secondary {
				f.observe(ep, balance.OK, 20*ms)
				break
			}
			f.observe(ep, balance.DialFailed, 0)
			if row[ep]++; row[ep] == 10 { // as a breaker does
				f.breakers[ep].shut = true
				f.Refresh()
			}
			if i >= 200 {
				late++
			}
			q.Tried, q.Untried = append(q.Tried, ep), true
		}
	}
	if failed != 0 || late != 0 {
		t.Errorf("%d of 2,000 calls failed, %d attempts went to the dead tier after two seconds", failed, late)
	}
}

func TestViewOfTheTiersIsRenewedTenTimesASecond(t *testing.T) {
	f := newWarm(t, balance.Config{SpillFactor: 1.4}, 4, 4)
	f.pick(balance.Query{})
	for _, ep := range f.primary {
		f.breakers[ep].shut = true
	}
	f.pass(101 * ms)
	if p := f.pick(balance.Query{}); p.Wish != balance.Fresh || p.Tier != balance.Secondary {
		t.Errorf("%+v after a tenth of a second", p)
	}
	for _, ep := range f.primary {
		f.breakers[ep].shut = false
	}
	f.pass(time.Second)
	if p := f.pick(balance.Query{}); p.Tier != balance.Primary {
		t.Errorf("%+v after the breakers closed", p)
	}
	f.Set(nil, f.secondary)
	if p := f.pick(balance.Query{}); p.Wish != balance.Fresh || p.Tier != balance.Secondary {
		t.Errorf("%+v at once after the set has changed", p)
	}
}
