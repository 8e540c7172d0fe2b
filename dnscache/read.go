package dnscache

import (
	"context"
	"errors"
	"time"
)

// reading is one reader's way through an entry that is not a plain hit.
type reading struct {
	e        *entry
	maxStale time.Duration    // 0: as long as the Resolver allows
	limit    time.Time        // for waiting although there is an old answer
	tries    [families]uint64 // flights that had ended when the reader came
	inHand   bool             // there was an answer, or a remembered error, when it came
	waited   bool
	started  bool // it started a flight itself
}

// errGone tells a reader that the entry was taken out of use meanwhile: the name has to be looked up anew.
var errGone = errors.New("dnscache: entry is out of use")

// read returns what the reader gets: a snapshot with addresses, or an error, which may be errGone. It waits no longer than
// ctx.
func (e *entry) read(ctx context.Context, maxStale time.Duration) (*snapshot, error) {
	rd := &reading{e: e, maxStale: maxStale}
	s := e.snap.Load()
	due := s.flags&flagDue != 0
	rd.inHand = len(s.addrs) > 0 || s.err != nil && !due
	if due {
		s, rd.started = e.kick()
	}
	return rd.settle(ctx, s)
}

// reread is read after force: an answer in hand is not enough.
func (e *entry) reread(ctx context.Context) (*snapshot, error) {
	rd := &reading{e: e}
	s, started := e.force()
	rd.started = started
	rd.arrive(ctx, s)
	for rd.pending(s) && !e.dead.Load() {
		change := e.change()
		if s = e.snap.Load(); rd.pending(s) && !e.dead.Load() {
			if err := await(ctx, change, time.Time{}); err != nil {
				return nil, err
			}
			s = e.snap.Load()
		}
	}
	return rd.give(ctx, s)
}

func (rd *reading) arrive(ctx context.Context, s *snapshot) {
	for f := range families {
		if s.recs[f] != nil {
			rd.tries[f] = s.recs[f].Tries
		}
	}
	if d, ok := ctx.Deadline(); ok {
		now := time.Now()
		rd.limit = now.Add(d.Sub(now) / 4)
	}
}

func (rd *reading) settle(ctx context.Context, s *snapshot) (*snapshot, error) {
	if s.flags&flagWait == 0 && rd.maxStale == 0 {
		return rd.give(ctx, s)
	}
	rd.arrive(ctx, s)
	rd.e.waiters.Add(1)
	defer rd.e.waiters.Add(-1)
	for {
		if _, wait := rd.wait(s); !wait {
			return rd.give(ctx, s)
		}
		change := rd.e.change()
		s = rd.e.snap.Load()
		until, wait := rd.wait(s)
		if !wait {
			return rd.give(ctx, s)
		}
		rd.waited = true
		if err := await(ctx, change, until); err != nil {
			rd.e.core.stats.misses.Add(1)
			rd.e.core.metrics.Looked(ctx, resultMiss)
			return nil, err
		}
		s = rd.e.snap.Load()
	}
}

// await returns when change is closed or until has come, if it is not zero; or with the error of ctx.
func await(ctx context.Context, change <-chan struct{}, until time.Time) error {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-change:
	case <-late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// wait reports whether the reader has something to wait for, and until when if there is a bound.
func (rd *reading) wait(s *snapshot) (time.Time, bool) {
	if rd.e.dead.Load() {
		return time.Time{}, false
	}
	if len(s.addrs) == 0 || rd.tooOld(s) {
		return time.Time{}, rd.pending(s)
	}
	until := s.waitUntil(rd.limit)
	return until, until.After(time.Now())
}

// pending reports whether a flight is in progress that the reader takes part in. One that begins after those have ended
// is for others.
func (rd *reading) pending(s *snapshot) bool {
	for f := range families {
		if fs := s.recs[f]; fs != nil && !fs.Since.IsZero() && fs.Tries == rd.tries[f] {
			return true
		}
	}
	return false
}

// tooOld reports whether an answer is staler than this reader may take.
func (rd *reading) tooOld(s *snapshot) bool {
	return rd.maxStale > 0 && s.flags&flagStale != 0 && time.Since(s.end) > rd.maxStale
}

// give hands out what there is, and counts it.
func (rd *reading) give(ctx context.Context, s *snapshot) (*snapshot, error) {
	e, st := rd.e, &rd.e.core.stats
	ok := len(s.addrs) > 0 && !rd.tooOld(s)
	if !ok && e.dead.Load() {
		return nil, errGone
	}
	switch {
	case rd.waited || !rd.inHand:
		st.misses.Add(1)
		if !rd.started {
			st.coalesced.Add(1)
		}
	default:
		e.hits.n.Add(1)
	}
	if !ok {
		err := rd.failure(s)
		e.core.metrics.Looked(ctx, failureResult(err))
		return nil, err
	}
	rd.count(s)
	if result := rd.result(s); result != "" {
		e.core.metrics.Looked(ctx, result)
	}
	return s, nil
}

// The results of lookups as metrics count them, each lookup once.
const (
	resultMiss      = "miss"
	resultCoalesced = "coalesced"
	resultStale     = "stale"
	resultNegative  = "negative"
	resultError     = "error"
)

// result names what the reader got, "" for a hit.
func (rd *reading) result(s *snapshot) string {
	switch {
	case s.flags&flagStale != 0:
		return resultStale
	case !rd.waited && rd.inHand:
		return ""
	case rd.started:
		return resultMiss
	}
	return resultCoalesced
}

func failureResult(err *Error) string {
	if err.Kind == NotFound {
		return resultNegative
	}
	return resultError
}

func (rd *reading) count(s *snapshot) {
	e, st := rd.e, &rd.e.core.stats
	if s.flags&flagStale != 0 {
		st.stale.Add(1)
		if !e.stale.Swap(true) {
			e.core.event(Event{Kind: EventStaleServed, Time: time.Now(), Name: e.name, Err: staleCause(s)})
		}
	}
	if s.flags&flagHeld != 0 {
		st.held.Add(1)
	}
	if s.flags&flagPartial != 0 {
		st.partial.Add(1)
	}
}

// staleCause is why an answer is stale, nil if nobody has asked yet.
func staleCause(s *snapshot) error {
	for f := range families {
		if fs := s.recs[f]; fs != nil && fs.Aged && fs.Err != nil {
			return fs.Err
		}
	}
	return nil
}

func (rd *reading) failure(s *snapshot) *Error {
	e := rd.e
	err := s.err
	if err == nil { // too old for this reader, or being asked for again
		err = e.errorOf(s)
	}
	if err == nil {
		err = newError(e.name, Failure, "", errNoAnswer, time.Time{})
	}
	if err.Kind == NotFound {
		e.core.stats.negative.Add(1)
	}
	e.core.stats.failed(err.Kind)
	return err
}
