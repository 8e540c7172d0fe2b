package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

var ejecting = balance.Eject{
	Connect: 3, Consecutive: 5, Margin: 0.3, Volume: 20, Interval: 10 * time.Second,
	Base: 30 * time.Second, MaxTime: 300 * time.Second, MaxPercent: 50, Panic: 50,
}

// wishing is a balancer with all its wishes: two endpoints in each tier.
func wishing(t testing.TB, picker balance.Picker) *field {
	return newWarm(t, balance.Config{Picker: picker, SpillFactor: 2, Eject: &ejecting}, 2, 2) // at 2, half a tier bears all
}

func (f *field) wants(what string, q balance.Query, w balance.Wish, among ...*balance.Endpoint) {
	f.Helper()
	for range 200 {
		p := f.pick(q)
		if p.Endpoint == nil {
			f.Errorf("%s: nothing was picked", what)
			return
		}
		p.Endpoint.Release()
		member := false
		for _, ep := range among {
			member = member || ep == p.Endpoint
		}
		if p.Wish != w || !member {
			f.Errorf("%s: %v at %s", what, p.Wish, p.Endpoint.Address())
			return
		}
	}
}

func TestWishesAreMetInTheirOrder(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		f := wishing(t, picker)
		a, b, x, y := f.primary[0], f.primary[1], f.secondary[0], f.secondary[1]
		tried := func(eps ...*balance.Endpoint) balance.Query { return balance.Query{Tried: eps, Key: "k"} }

		f.wants("nothing tried", tried(), balance.Fresh, a, b)
		f.wants("one tried", tried(a), balance.Fresh, b)
		f.wants("a tier tried", tried(a, b), balance.Spilled, x, y)
		f.wants("all but one tried", tried(a, b, x), balance.Spilled, y)
		f.wants("all tried", tried(a, b, x, y), balance.Again, a, b)
		f.wants("from the second tier nothing spills", balance.Query{Tier: balance.Secondary, Tried: []*balance.Endpoint{x, y}}, balance.Again, x, y)

		f.fail(a, 5)
		if len(f.ejected()) != 1 {
			t.Fatal("not ejected")
		}
		f.wants("the other tier before ejected ones", tried(b), balance.Spilled, x, y)
		f.wants("tried before ejected", tried(b, x, y), balance.Again, b)
		f.breakers[b].shut = true
		f.Refresh()
		f.wants("the other tier's tried before ejected", tried(x, y), balance.Again, x, y)
		f.breakers[x].shut, f.breakers[y].shut = true, true
		f.Balancer.Configure(balance.Config{Picker: picker, SpillFactor: 2, Eject: func() *balance.Eject { e := ejecting; e.Panic = 0; return &e }()})
		f.wants("ejected as the last resort", tried(x, y), balance.LastResort, a)
		f.wants("even if tried", tried(a, x, y), balance.LastResort, a)
		f.breakers[a].shut = true
		if p := f.pick(tried()); p.Endpoint != nil || p.Known != 4 {
			t.Errorf("%v: %+v although all breakers are open", picker, p)
		}
	}
}

func TestNothingKnownIsTold(t *testing.T) {
	f := newField(t, balance.Config{SpillFactor: 1.4, Eject: &ejecting}, 0, 0)
	if p := f.pick(balance.Query{}); p.Endpoint != nil || p.Known != 0 {
		t.Errorf("%+v", p)
	}
	if p := newField(t, balance.Config{}, 0, 1).pick(balance.Query{}); p.Endpoint != nil || p.Known != 0 {
		t.Errorf("without spill: %+v", p)
	}
}

func TestDeniedIsNeverPicked(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		f := wishing(t, picker)
		f.fail(f.primary[0], 5)
		f.wants("denied", balance.Query{Key: "k", Denied: []*balance.Endpoint{f.primary[0], f.primary[1], f.secondary[0]}}, balance.Spilled, f.secondary[1])
		if p := f.pick(balance.Query{Key: "k", Denied: append(f.secondary, f.primary...)}); p.Endpoint != nil {
			t.Errorf("%v: %+v", picker, p)
		}
	}
}

func TestMoveNeedsAnUntriedEndpoint(t *testing.T) {
	f := wishing(t, balance.PeakEWMA)
	q := balance.Query{Now: f.now, Untried: true, Tried: []*balance.Endpoint{f.primary[0], f.primary[1], f.secondary[0]}}
	if !f.HasUntried(&q) {
		t.Error("one is left")
	}
	f.wants("a move", q, balance.Spilled, f.secondary[1])
	q.Tried = append(q.Tried, f.secondary[1])
	if p := f.pick(q); f.HasUntried(&q) || p.Endpoint != nil {
		t.Errorf("%+v although all were tried", p)
	}
	if f.primary[0].Pending() != 0 {
		t.Error("asking counts as pending")
	}
}

func TestHedgeAvoidsSuspectsProbesAndPanic(t *testing.T) {
	f := newWarm(t, balance.Config{Eject: &ejecting}, 3, 0)
	a, b, c := f.primary[0], f.primary[1], f.primary[2]
	q := balance.Query{Hedge: true, Tried: []*balance.Endpoint{a}}
	f.wants("a hedge", q, balance.Fresh, b, c)
	f.fail(b, 2)
	f.wants("one suspect", q, balance.Fresh, c)
	f.breakers[c].probing = true
	if p := f.pick(q); p.Endpoint != nil {
		t.Errorf("%+v for a hedge", p)
	}
	f.wants("an ordinary attempt", balance.Query{Tried: q.Tried}, balance.Fresh, b, c)

	f.breakers[c].probing = false
	f.fail(b, 3)
	f.breakers[a].shut = true // one of three is left
	f.Refresh()
	if p := f.pick(q); p.Endpoint != nil {
		t.Errorf("%+v for a hedge, in panic", p)
	}
	if p := f.pick(balance.Query{}); !p.Panic {
		t.Errorf("%+v, want panic", p)
	}
}

// Whatever the states, something is picked as long as any breaker admits, and what is denied never is.
func TestSomethingIsPickedWhileAnyBreakerAdmits(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		picker := append(pickers, balance.InOrder)[rnd.IntN(5)]
		f := newField(t, balance.Config{Picker: picker, SpillFactor: 1.4, SlowStart: 30 * time.Second, Eject: &ejecting}, 1+rnd.IntN(5), rnd.IntN(4))
		all := append(append([]*balance.Endpoint(nil), f.primary...), f.secondary...)
		var pending []*balance.Endpoint
		for range 2000 {
			f.pass(time.Duration(rnd.IntN(300)) * ms)
			ep := all[rnd.IntN(len(all))]
			switch rnd.IntN(12) {
			case 0:
				f.breakers[ep].shut = !f.breakers[ep].shut
			case 1:
				f.breakers[ep].probing = !f.breakers[ep].probing
			case 2:
				f.fail(ep, rnd.IntN(6))
			case 3:
				f.observe(ep, balance.DialFailed, 0)
			case 4:
				if len(f.primary) < 8 {
					all = append(all, f.join())
				}
			case 5, 6:
				f.warm(ep)
			}
			for len(pending) > 0 && rnd.IntN(3) > 0 {
				pending[0].Release()
				pending = pending[1:]
			}
			q := balance.Query{Key: []string{"", "k"}[rnd.IntN(2)]}
			for _, ep := range all {
				if rnd.IntN(4) == 0 {
					q.Tried = append(q.Tried, ep)
				}
				if rnd.IntN(8) == 0 {
					q.Denied = append(q.Denied, ep)
				}
			}
			admitting := 0
			denied := map[*balance.Endpoint]bool{}
			for _, ep := range q.Denied {
				denied[ep] = true
			}
			for _, ep := range all {
				if !f.breakers[ep].shut && !denied[ep] {
					admitting++
				}
			}
			p := f.pick(q)
			switch {
			case p.Known != len(all):
				t.Fatalf("seed %d: knows %d of %d", seed, p.Known, len(all))
			case (p.Endpoint != nil) != (admitting > 0):
				t.Fatalf("seed %d: %v picked %+v, %d admit", seed, picker, p, admitting)
			case p.Endpoint == nil:
			case denied[p.Endpoint] || f.breakers[p.Endpoint].shut:
				t.Fatalf("seed %d: %v picked what does not admit", seed, picker)
			default:
				pending = append(pending, p.Endpoint)
			}
		}
	}
}
