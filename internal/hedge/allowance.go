package hedge

import "time"

const (
	buckets    = 10
	bucketTime = time.Second
)

// An allowance is the account of the last ten seconds: calls, and the hedges made for them.
type allowance struct {
	age       int64 // number of the current bucket
	calls     [buckets]int64
	hedges    [buckets]int64
	sumCalls  int64
	sumHedges int64
}

// take counts a hedge if, with it, hedges are at most the given share of the calls.
func (a *allowance) take(t time.Duration, share float64) bool {
	a.advance(t)
	// The margin is what a product such as 100 * 0.29 loses in floating point.
	if float64(a.sumCalls)*share-float64(a.sumHedges) < 1-1e-9 {
		return false
	}
	a.add(t, 0, 1)
	return true
}

// add counts calls and hedges now.
func (a *allowance) add(t time.Duration, calls, hedges int64) {
	a.advance(t)
	i := a.age % buckets
	a.calls[i] += calls
	a.hedges[i] += hedges
	a.sumCalls += calls
	a.sumHedges += hedges
}

func (a *allowance) advance(t time.Duration) {
	for now := int64(t / bucketTime); a.age < now; {
		a.age = max(a.age+1, now-buckets+1)
		i := a.age % buckets
		a.sumCalls -= a.calls[i]
		a.sumHedges -= a.hedges[i]
		a.calls[i], a.hedges[i] = 0, 0
	}
}
