package balance_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

// Everything at once: nothing is lost, and in the end nothing is pending.
func TestPicksSurviveRealParallelism(t *testing.T) {
	for _, picker := range pickers {
		f := newField(t, balance.Config{Picker: picker, SpillFactor: 1.4, SlowStart: time.Second, Eject: &ejecting}, 4, 2)
		all := append(append([]*balance.Endpoint(nil), f.primary...), f.secondary...)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for i := range 2000 {
					now := f.now.Add(time.Duration(i) * ms)
					p := f.Pick(&balance.Query{Now: now, Key: "k", Tried: all[:rand.IntN(3)]})
					if p.Endpoint == nil {
						t.Error("nothing was picked")
						return
					}
					o := balance.Outcome(rand.IntN(4))
					p.Endpoint.Observe(balance.Observation{Outcome: o, Time: 10 * ms, Answered: o == balance.OK}, now)
					p.Endpoint.Release()
				}
			})
		}
		callers.Go(func() {
			for i := range 200 {
				f.Set(all[:1+i%4], all[4:])
				f.Configure(balance.Config{Picker: picker, SpillFactor: 1.4, SlowStart: time.Duration(i%2) * time.Second, Eject: &ejecting})
				f.Stats(f.now)
				all[i%6].Rewarm(f.now)
			}
		})
		callers.Wait()
		for _, ep := range all {
			if ep.Pending() != 0 {
				t.Errorf("%v: %d pending", picker, ep.Pending())
			}
		}
	}
}

// A gate that lets somebody else pick first, in the middle of a pick.
type interloper struct{ first func() }

func (g *interloper) Ready(time.Time) (admits, probing bool) {
	if first := g.first; first != nil {
		g.first = nil
		first()
	}
	return true, false
}

// Two pick at the same moment: a newcomer that has not answered still gets one attempt, and it is counted once.
func TestGateHoldsAgainstRaces(t *testing.T) {
	f := newWarm(t, ramping(balance.LeastConnections), 2, 0)
	gate := &interloper{}
	old, newcomer := f.NewEndpoint("10.0.2.1:80", gate), f.endpoint("10.0.2.", 2)
	f.warm(old)
	f.Set([]*balance.Endpoint{newcomer, old}, nil)
	f.pick(balance.Query{Denied: []*balance.Endpoint{newcomer}})
	var theirs balance.Pick
	gate.first = func() { theirs = f.pick(balance.Query{}) }
	ours := f.pick(balance.Query{})
	if theirs.Endpoint != newcomer || ours.Endpoint != old || newcomer.Pending() != 1 || old.Pending() != 2 {
		t.Errorf("they are at %s, we at %s; %d and %d pending",
			theirs.Endpoint.Address(), ours.Endpoint.Address(), newcomer.Pending(), old.Pending())
	}
}
