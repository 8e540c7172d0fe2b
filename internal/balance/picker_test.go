package balance_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

// burden leaves n attempts pending at an endpoint.
func (f *field) burden(ep *balance.Endpoint, n int) {
	var others []*balance.Endpoint
	for _, other := range f.primary {
		if other != ep {
			others = append(others, other)
		}
	}
	for range n {
		if p := f.pick(balance.Query{Denied: others}); p.Endpoint != ep {
			f.Fatal("picked another endpoint than the only one left")
		}
	}
}

func TestIdleEndpointOfTwoGetsEverything_B2(t *testing.T) {
	for name, field := range map[string]func(testing.TB, balance.Config, int, int) *field{"new": newField, "warm": newWarm} {
		f := field(t, balance.Config{}, 2, 0)
		a, b := f.primary[0], f.primary[1]
		f.burden(a, 500)
		if s := f.shares(10_000, nil); s[a] != 0 || s[b] < 1-1e-9 {
			t.Errorf("%s: shares %v", name, s)
		}
	}
}

func TestOnlyEndpointIsPicked_B2(t *testing.T) {
	for _, picker := range pickers {
		f := newField(t, balance.Config{Picker: picker}, 1, 0)
		if p := f.pick(balance.Query{Key: "k"}); p.Endpoint != f.primary[0] || p.Wish != balance.Fresh || p.Known != 1 {
			t.Errorf("%v: %+v", picker, p)
		}
	}
}

// Of three endpoints at distinct costs the cheapest wins two of the three pairs, the dearest none: if each pair is as
// likely as the others.
func TestPairsAreDistinctAndUniform_B2(t *testing.T) {
	f := newField(t, balance.Config{}, 3, 0)
	for i, ep := range f.primary {
		f.observe(ep, balance.OK, time.Duration(i+1)*10*ms)
	}
	const n = 60_000
	var wins [3]int
	for range n {
		ep := f.pick(balance.Query{}).Endpoint
		for i := range f.primary {
			if f.primary[i] == ep {
				wins[i]++
			}
		}
		ep.Release()
	}
	if wins[2] != 0 {
		t.Errorf("the dearest won %d times, so it was paired with itself", wins[2])
	}
	uniform(t, wins[:2], []float64{n * 2. / 3, n / 3.})
}

func TestEqualEndpointsGetEqualShares(t *testing.T) {
	for _, picker := range pickers {
		for _, size := range []int{2, 3, 7} {
			f := newWarm(t, balance.Config{Picker: picker}, size, 0)
			const n = 20_000
			shares := f.shares(n, keys)
			var counts []int
			for _, ep := range f.primary {
				counts = append(counts, int(shares[ep]*n+0.5))
			}
			uniform(t, counts, equal(n, size))
		}
	}
}

func TestLeastConnectionsTakesTheFewest(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.LeastConnections}, 4, 0)
	for range 400 {
		f.pick(balance.Query{})
	}
	for _, ep := range f.primary {
		if ep.Pending() != 100 {
			t.Errorf("%d pending, want 100", ep.Pending())
		}
	}
	f.primary[2].Release()
	if p := f.pick(balance.Query{}); p.Endpoint != f.primary[2] {
		t.Error("not where there was least")
	}
}

func TestRoundRobinTakesEachInTurn(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.RoundRobin}, 5, 0)
	first := f.pick(balance.Query{}).Endpoint
	for i := range 5 {
		if f.primary[i] == first {
			for k := 1; k < 50; k++ {
				if got := f.pick(balance.Query{}).Endpoint; got != f.primary[(i+k)%5] {
					t.Fatalf("pick %d was out of turn", k)
				}
			}
		}
	}
}

func TestRoundRobinBeginsAnywhere(t *testing.T) {
	first := map[string]bool{}
	for range 200 {
		f := newWarm(t, balance.Config{Picker: balance.RoundRobin}, 4, 0)
		first[f.pick(balance.Query{}).Endpoint.Address()] = true
	}
	if len(first) != 4 {
		t.Errorf("began at %d of 4 endpoints", len(first))
	}
}

// The neighbour of an endpoint that is left out has no more than the others.
func TestRoundRobinSpreadsTheTurnsOfTheMissing(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.RoundRobin}, 5, 0)
	f.breakers[f.primary[2]].shut = true
	for ep, share := range f.shares(8000, nil) {
		near(t, ep.Address(), 8000, share, 0.25)
	}
}

func TestInOrderTakesTheFirstAvailable(t *testing.T) {
	f := newField(t, balance.Config{Picker: balance.InOrder}, 3, 0)
	for i, ep := range f.primary {
		if p := f.pick(balance.Query{}); p.Endpoint != ep {
			t.Errorf("pick %d went elsewhere", i)
		}
		f.breakers[ep].shut = true
	}
}

func TestLowCostWinsAgainstPending(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	quick, slow := f.primary[0], f.primary[1]
	f.observe(quick, balance.OK, 10*ms)
	f.observe(slow, balance.OK, 40*ms)
	for range 3 { // 10 ms * (pending + 1) < 40 ms
		if p := f.pick(balance.Query{}); p.Endpoint != quick {
			t.Error("the slow one was picked")
		}
	}
	seen := f.shares(1000, nil)
	near(t, "at equal load", 1000, seen[slow], 0.5)
	f.burden(quick, 1)
	if p := f.pick(balance.Query{}); p.Endpoint != slow {
		t.Error("the slow one was not picked, although the quick one has more to do")
	}
}

func TestEndpointWithoutSampleIsTriedOnce(t *testing.T) {
	f := newField(t, balance.Config{}, 2, 0)
	known, fresh := f.primary[0], f.primary[1]
	f.observe(known, balance.OK, 10*ms)
	if p := f.pick(balance.Query{}); p.Endpoint != fresh {
		t.Error("an idle endpoint without a sample was not tried")
	}
	for range 100 {
		if p := f.pick(balance.Query{}); p.Endpoint != known {
			t.Fatal("a second attempt went where the first had not been answered")
		}
	}
}
