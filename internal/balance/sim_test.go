package balance_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

// A sim is a field in which attempts take time: an upstream as its clients see it, without a network.
type sim struct {
	*field
	began   time.Time
	queue   happenings
	servers map[*balance.Endpoint]server
	picked  map[*balance.Endpoint]int
	done    map[balance.Outcome]int
	moves   int // further attempts that a call may make after a failed dial
}

// A server says how its next attempt goes, given the time since the beginning and how many it has in hand.
type server func(since time.Duration, pending int) (time.Duration, balance.Outcome)

type happening struct {
	at time.Time
	do func()
}

type happenings []happening

func (h happenings) Len() int           { return len(h) }
func (h happenings) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h happenings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)        { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func steady(d time.Duration) server {
	return func(time.Duration, int) (time.Duration, balance.Outcome) {
		return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())), balance.OK
	}
}

func failing(d time.Duration, o balance.Outcome) server {
	return func(time.Duration, int) (time.Duration, balance.Outcome) { return d, o }
}

// newSim returns an upstream with a server behind each endpoint, all of them new.
func newSim(t testing.TB, cfg balance.Config, servers ...server) *sim {
	f := newField(t, cfg, len(servers), 0)
	s := &sim{
		field: f, began: f.now,
		servers: map[*balance.Endpoint]server{}, picked: map[*balance.Endpoint]int{}, done: map[balance.Outcome]int{},
	}
	for i, ep := range f.primary {
		s.servers[ep] = servers[i]
	}
	return s
}

func (s *sim) in(d time.Duration, do func()) { heap.Push(&s.queue, happening{s.now.Add(d), do}) }

// call sends one call and lets then hear of its end.
func (s *sim) call(q balance.Query, then func(balance.Outcome)) {
	p := s.pick(q)
	ep := p.Endpoint
	if ep == nil {
		s.Fatal("nothing was picked")
	}
	s.picked[ep]++
	d, o := s.servers[ep](s.now.Sub(s.began), ep.Pending())
	s.in(d, func() {
		s.observe(ep, o, d)
		ep.Release()
		if o == balance.DialFailed && len(q.Tried) < s.moves {
			s.call(balance.Query{Key: q.Key, Tried: append(q.Tried, ep)}, then)
			return
		}
		s.done[o]++
		if then != nil {
			then(o)
		}
	})
}

// arrivals sends calls at random times, so many a second.
func (s *sim) arrivals(perSecond float64) {
	s.in(time.Duration(rand.ExpFloat64()*float64(time.Second)/perSecond), func() {
		s.call(keys(rand.IntN(1<<20)), nil)
		s.arrivals(perSecond)
	})
}

// workers send one call after another.
func (s *sim) workers(n int) {
	var work func(balance.Outcome)
	work = func(balance.Outcome) { s.call(keys(rand.IntN(1<<20)), work) }
	for range n {
		s.in(time.Duration(rand.IntN(10))*ms, func() { work(balance.OK) })
	}
}

// run lets time pass and returns the share of the picks of each endpoint, and the number of calls that ended.
func (s *sim) run(d time.Duration) (shares []float64, done map[balance.Outcome]int) {
	clear(s.picked)
	clear(s.done)
	end := s.now.Add(d)
	for len(s.queue) > 0 && !s.queue[0].at.After(end) {
		next := heap.Pop(&s.queue).(happening)
		s.now = next.at
		next.do()
	}
	s.now = end
	total := 0
	for _, n := range s.picked {
		total += n
	}
	for _, ep := range s.primary {
		shares = append(shares, float64(s.picked[ep])/float64(max(total, 1)))
	}
	return shares, s.done
}

func TestQuickFailureIsNotMistakenForIdleness_fasthttp865(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		for _, o := range []balance.Outcome{balance.Failed, balance.DialFailed} {
			s := newSim(t, balance.Config{Picker: picker}, failing(ms, o), steady(50*ms))
			s.arrivals(100)
			if shares, _ := s.run(time.Minute); shares[0] >= 0.05 {
				t.Errorf("%v: the failing endpoint has a share of %.3f, ejection is off", picker, shares[0])
			}
		}
	}
}

// One burst of slow answers: a minute later the endpoint has its share again, at 20 calls a second and without checks.
func TestOnceSlowEndpointHasItsShareAgain_traefik12306(t *testing.T) {
	slow := func(since time.Duration, _ int) (time.Duration, balance.Outcome) {
		if since > 30*time.Second && since < 33*time.Second {
			return 5 * time.Second, balance.OK
		}
		return steady(10*ms)(since, 0)
	}
	s := newSim(t, balance.Config{}, slow, steady(10*ms), steady(10*ms), steady(10*ms))
	s.arrivals(20)
	s.run(30 * time.Second)
	during, _ := s.run(10 * time.Second)
	if during[0] > 0.15 {
		t.Errorf("share %.3f while it is slow", during[0])
	}
	s.run(53 * time.Second) // a minute after the burst
	sum := 0.0
	const rounds = 40
	for range rounds {
		shares, _ := s.run(10 * time.Second)
		sum += shares[0] / rounds
	}
	if sum < 0.225 || sum > 0.275 {
		t.Errorf("share %.3f, want a quarter", sum)
	}
}

// Least connections, and one endpoint has silently gone: its calls wait for the dial to fail, the others' do not.
func TestSilentEndpointCostsItsShareOnly_envoy39737(t *testing.T) {
	for _, picker := range []balance.Picker{balance.LeastConnections, balance.PeakEWMA, balance.RoundRobin} {
		silent := func(since time.Duration, _ int) (time.Duration, balance.Outcome) {
			if since > 5*time.Second {
				return time.Second, balance.DialFailed // the dial's time limit
			}
			return 10 * ms, balance.OK
		}
		s := newSim(t, balance.Config{Picker: picker, Eject: &ejecting, SlowStart: slowStart}, silent, steady(10*ms), steady(10*ms), steady(10*ms))
		s.moves = 3
		s.workers(40)
		s.run(3 * time.Second)
		_, done := s.run(2 * time.Second)
		usual := float64(done[balance.OK]) / 2
		_, done = s.run(time.Second)
		if got := float64(done[balance.OK]) / usual; picker != balance.RoundRobin && got < 0.5 {
			t.Errorf("%v: in the first second %.2f of the usual calls were served", picker, got)
		}
		s.run(time.Second)
		shares, done := s.run(4 * time.Second)
		if got := float64(done[balance.OK]) / 4 / usual; got < 0.95 || shares[0] > 0.01 || done[balance.DialFailed] > 0 {
			t.Errorf("%v: then %.2f of the usual calls, share %.4f, %d failed", picker, got, shares[0], done[balance.DialFailed])
		}
	}
}

// One of four hangs: its share falls below a twentieth.
func TestHangingEndpointLosesItsShare(t *testing.T) {
	for _, picker := range pickers {
		for name, eject := range map[string]*balance.Eject{"alone": nil, "with ejection": &ejecting} {
			s := newSim(t, balance.Config{Picker: picker, Eject: eject, SlowStart: slowStart},
				failing(5*time.Second, balance.Failed), steady(20*ms), steady(30*ms), steady(40*ms))
			s.arrivals(100)
			s.run(30 * time.Second)
			bound := 0.05
			if picker == balance.RoundRobin && eject == nil {
				bound = 0.07 // in turn, for the five seconds until its first attempt fails
			}
			if shares, _ := s.run(time.Minute); shares[0] >= bound {
				t.Errorf("%v, %s: the share of the hanging endpoint is %.3f", picker, name, shares[0])
			}
		}
	}
}

// With one of two refusing connections, no call fails, and the dead one is dialled a handful of times (httplb: half fail).
func TestOneOfTwoRefuses_B1(t *testing.T) {
	for _, picker := range pickers {
		for name, d := range map[string]time.Duration{"refuses": ms, "swallows": 100 * ms} {
			s := newSim(t, balance.Config{Picker: picker, Eject: &ejecting, SlowStart: slowStart}, failing(d, balance.DialFailed), steady(5*ms))
			s.moves = 3
			for range 200 {
				over := false
				s.call(keys(rand.IntN(1000)), func(o balance.Outcome) {
					over = true
					if o != balance.OK {
						t.Errorf("%v: a call ended with %v", picker, o)
					}
				})
				for !over {
					s.run(ms)
				}
			}
			if f := s.Stats(s.now).Endpoints[0]; f.InRow > 10 {
				t.Errorf("%v, %s: dialled %d times", picker, name, f.InRow)
			}
		}
	}
}

// Unequal endpoints: peak EWMA gives the quick ones more, and no one starves.
func TestSharesFollowTheCost(t *testing.T) {
	busy := func(d time.Duration) server { // as a server with few cores: slower with each attempt in hand
		return func(_ time.Duration, pending int) (time.Duration, balance.Outcome) {
			return d * time.Duration(pending), balance.OK
		}
	}
	s := newSim(t, balance.Config{}, busy(2*ms), busy(4*ms), busy(8*ms), busy(16*ms))
	s.arrivals(400)
	s.run(20 * time.Second)
	shares, _ := s.run(time.Minute)
	for i := 1; i < 4; i++ {
		if shares[i] > shares[i-1]+0.02 || shares[i] < 0.01 {
			t.Errorf("shares %.3f", shares)
			break
		}
	}
}
