package breaker

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sony/gobreaker/v2"
)

// What the core is told; its own idea of an error's meaning is never asked.
var (
	errFailed  = errors.New("failed")
	errNeutral = errors.New("neutral")
)

// newCore builds the state machine. All the functions given to it run under its mutex, and must not ask it anything.
func (b *Breaker) newCore() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	bucket := max(b.cfg.Window/10, 1)
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   uint32(max(b.cfg.Probes, 1)),
		Interval:      10 * bucket,
		BucketPeriod:  bucket,
		Timeout:       b.opens,
		ReadyToTrip:   b.trips,
		OnStateChange: b.changed,
		IsSuccessful:  b.counted,
		IsExcluded:    func(err error) bool { return err == errNeutral }, //nolint:errorlint // identity is meant
	})
}

// jittered is drawn once per breaker: endpoints that failed together are not probed together.
func jittered(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*(0.8+0.4*rand.Float64())), 1)
}

// counted sees each result that counts, once, and keeps the number of failures in a row. The core's own would decay as its
// buckets expire: failures that come more slowly than the window would never open the breaker.
func (b *Breaker) counted(err error) bool {
	if err == nil {
		b.inRow.Store(0)
		return true
	}
	b.inRow.Add(1)
	return false
}

// trips is asked after each failure while closed, also after one that began before the window.
func (b *Breaker) trips(c gobreaker.Counts) bool {
	if b.cfg.Consecutive > 0 && b.inRow.Load() >= int64(b.cfg.Consecutive) {
		return true
	}
	// Counts.Requests would include the attempts that run, and the neutral ones.
	ended := c.TotalFailures + c.TotalSuccesses
	return b.cfg.Ratio > 0 && ended > 0 && int64(ended) >= int64(b.cfg.Volume) &&
		float64(c.TotalFailures) >= b.cfg.Ratio*float64(ended)
}

// changed is told of each change of state.
func (b *Breaker) changed(_ string, from, to gobreaker.State) {
	now := time.Now()
	change := Change{From: fromCore(from), To: fromCore(to), At: now}
	b.inRow.Store(0)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = now
	b.taken, b.probes = 0, nil // their permits belong to a generation that is over
	b.full.Store(0)
	if change.To == Open {
		b.until.Store(b.instant(now.Add(b.opens)))
	}
	b.stamp.Store((b.stamp.Load()>>2+1)<<2 | uint64(change.To))
	if !b.retired {
		b.notes.add(change)
	}
}

func fromCore(s gobreaker.State) State {
	switch s {
	case gobreaker.StateClosed:
		return Closed
	case gobreaker.StateHalfOpen:
		return HalfOpen
	}
	return Open
}
