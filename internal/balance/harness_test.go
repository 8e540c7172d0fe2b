package balance_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

const ms = time.Millisecond

// A field is a balancer and its endpoints, in a time of its own.
type field struct {
	testing.TB
	*balance.Balancer

	now       time.Time
	primary   []*balance.Endpoint
	secondary []*balance.Endpoint
	breakers  map[*balance.Endpoint]*breaker
}

// A breaker is a gate that does what the test says.
type breaker struct{ shut, probing bool }

func (b *breaker) Ready(time.Time) (admits, probing bool) { return !b.shut, b.probing }

// newField returns a balancer with so many endpoints in each tier, none of which has answered yet.
func newField(t testing.TB, cfg balance.Config, primary, secondary int) *field {
	now := time.Now()
	f := &field{TB: t, Balancer: balance.New(cfg, now), now: now, breakers: map[*balance.Endpoint]*breaker{}}
	for i := range primary {
		f.primary = append(f.primary, f.endpoint("10.0.0.", i))
	}
	for i := range secondary {
		f.secondary = append(f.secondary, f.endpoint("192.0.2.", i))
	}
	f.Set(f.primary, f.secondary)
	t.Cleanup(f.Close)
	return f
}

// newWarm is newField where every endpoint has answered once, all at the same cost.
func newWarm(t testing.TB, cfg balance.Config, primary, secondary int) *field {
	f := newField(t, cfg, primary, secondary)
	f.warm(f.primary...)
	f.warm(f.secondary...)
	return f
}

func (f *field) endpoint(network string, i int) *balance.Endpoint {
	gate := &breaker{}
	ep := f.NewEndpoint(network+string(rune('1'+i))+":80", gate)
	f.breakers[ep] = gate
	return ep
}

// join adds an endpoint to the primary tier.
func (f *field) join() *balance.Endpoint {
	ep := f.endpoint("10.0.1.", len(f.primary))
	f.primary = append(f.primary, ep)
	f.Set(f.primary, f.secondary)
	return ep
}

func (f *field) warm(eps ...*balance.Endpoint) {
	for _, ep := range eps {
		f.observe(ep, balance.OK, 10*ms)
	}
}

func (f *field) observe(ep *balance.Endpoint, o balance.Outcome, d time.Duration) {
	ep.Observe(balance.Observation{Outcome: o, Time: d, Answered: o == balance.OK}, f.now)
}

func (f *field) fail(ep *balance.Endpoint, n int) {
	for range n {
		f.observe(ep, balance.Failed, ms)
	}
}

func (f *field) pass(d time.Duration) { f.now = f.now.Add(d) }

// pick picks, and leaves the attempt pending.
func (f *field) pick(q balance.Query) balance.Pick {
	q.Now = f.now
	return f.Pick(&q)
}

// shares returns the share of each endpoint in n picks, each of which ends at once.
func (f *field) shares(n int, query func(i int) balance.Query) map[*balance.Endpoint]float64 {
	out := map[*balance.Endpoint]float64{}
	for i := range n {
		var q balance.Query
		if query != nil {
			q = query(i)
		}
		if p := f.pick(q); p.Endpoint != nil {
			p.Endpoint.Release()
			out[p.Endpoint] += 1 / float64(n)
		}
	}
	return out
}

// keys is the query of shares for which rendezvous has a key.
func keys(i int) balance.Query { return balance.Query{Key: "item " + strconv.Itoa(i)} }

// ejected tells which endpoints are.
func (f *field) ejected() map[*balance.Endpoint]balance.EndpointStats {
	out := map[*balance.Endpoint]balance.EndpointStats{}
	for _, s := range f.Stats(f.now).Endpoints {
		if s.Ejected > 0 {
			out[s.Endpoint] = s
		}
	}
	return out
}

// uniform fails the test if counts are not what their expectations say: chi-square with n−1 degrees of freedom, at a
// significance of about one in fifty million.
func uniform(t testing.TB, counts []int, expected []float64) {
	t.Helper()
	chi, freedom := 0.0, float64(len(counts)-1)
	for i, n := range counts {
		d := float64(n) - expected[i]
		chi += d * d / expected[i]
	}
	// Wilson and Hilferty: the cube root of chi-square over its degrees of freedom is nearly normal.
	limit := freedom * math.Pow(1-2/(9*freedom)+5.5*math.Sqrt(2/(9*freedom)), 3)
	if chi > limit {
		t.Errorf("counts %v, expected %v: chi-square %.1f, at most %.1f would be chance", counts, expected, chi, limit)
	}
}

func equal(n, cells int) []float64 {
	out := make([]float64, cells)
	for i := range out {
		out[i] = float64(n) / float64(cells)
	}
	return out
}

// near fails the test unless got is within five and a half standard deviations of the share want of n draws.
func near(t testing.TB, what string, n int, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 5.5*math.Sqrt(want*(1-want)/float64(n))+1e-9 {
		t.Errorf("%s: share %.4f, want %.4f", what, got, want)
	}
}

var pickers = []balance.Picker{balance.PeakEWMA, balance.LeastConnections, balance.RoundRobin, balance.Rendezvous}
