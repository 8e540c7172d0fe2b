package dnscache

import (
	"context"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
	"github.com/sortie-go/sortie/metrics"
)

// record is one family of a name: the owner of a value of internal/fresh, which keeps time and flights. Its methods Fetch,
// Plan, Delay, Eager and Changed are fresh.Owner.
type record struct {
	e     *entry
	f     family
	value *fresh.Value[*answer]

	// guarded by entry.mu
	failures  int    // in a row
	negatives int    // in a row
	alone     bool   // a flight asks without a walk
	joined    uint64 // the last flight that has decided whether it does, counted from 1
	lost      bool
	hold      *hold // nil: none

	// for Explain
	lastErr error // why the last question brought no address
	server  string
	asked   bool
}

// hold is the time in which DNS denies a name that had addresses, and they are kept: the answer to "resolver healthy,
// zone emptied by mistake".
type hold struct {
	since  time.Time // of the first denial
	last   time.Time // of the newest
	before time.Time // of the one before
	asked  int
}

const (
	// rareAfter failures in a row, a family beside a good one is asked only every rareEvery.
	rareAfter = 3
	rareEvery = 5 * time.Minute

	// minDenials is how far apart the last two denials must be: one moment of a zone is no deletion.
	minDenials = 2 * time.Second
)

// Fetch asks for this family, and says how long that took.
func (r *record) Fetch(ctx context.Context, _ string) fresh.Outcome[*answer] {
	start := time.Now()
	r.e.core.checkFiles(start)
	found, other := r.find(ctx)
	r.e.core.metrics.Asked(r.e.name, time.Since(start), errorTypeOf(found.kind))
	return r.take(found, other)
}

// errorTypeOf is what is wrong with a finding: an absent name is, an absent family of a name is not.
func errorTypeOf(k kind) metrics.ErrorType {
	switch k {
	case hasAddrs, hasNone:
		return metrics.NoError
	case silent:
		return metrics.ErrorTimeout
	}
	return metrics.ErrorDNS
}

// find asks alone, under the full name that answered last, or as part of a walk.
func (r *record) find(ctx context.Context) (finding, sibling) {
	w, cand := r.e.join(r.f)
	if w == nil {
		found := r.ask(ctx, cand)
		if w = r.e.rejoin(r.f, found); w == nil {
			return found, r.sibling()
		}
	}
	select {
	case <-w.done[r.f]:
		return w.found[r.f], w.other[r.f]
	case <-ctx.Done():
		return finding{kind: silent, err: errTimeout}, otherUnknown
	}
}

// ask puts one question, when there is a place for it.
func (r *record) ask(ctx context.Context, cand candidate) finding {
	c := r.e.core
	ctx, cancel := context.WithTimeout(ctx, c.cfg.timeout)
	defer cancel()
	places := c.placesFor(r.e)
	if !places.acquire(ctx) {
		return finding{kind: silent, err: errBusy}
	}
	defer places.release()
	if cand.hosts {
		o, _ := c.askHosts(ctx, cand.name)
		return o[r.f]
	}
	return c.ask(ctx, cand.name, r.f)
}

// holdsAddrs reports whether there are addresses to be kept.
func (r *record) holdsAddrs() bool { return good(r.value.Peek()) }

// good reports whether a snapshot holds addresses that may be given out.
func good(s *fresh.Snapshot[*answer]) bool {
	return s != nil && s.Value != nil && s.Value.kind == hasAddrs && s.State != fresh.Expired
}

// sibling says what is known of the other family, for a question that this one asked alone.
func (r *record) sibling() sibling {
	other := r.e.recs[r.f.other()]
	switch {
	case other == nil:
		return otherNegative
	case other.holdsAddrs():
		return otherGood
	}
	return otherUnknown
}

// take decides what an outcome does to the record (see the table in doc.go).
func (r *record) take(found finding, other sibling) fresh.Outcome[*answer] {
	now := time.Now()
	if found.kind == hasAddrs && r.f == v6 && !r.e.hasPreference() {
		found.routed = r.e.core.cfg.routed(found.addrs[0])
	}
	r.e.mu.Lock()
	out, events := r.takeLocked(found, other, now)
	r.e.mu.Unlock()
	for _, ev := range events {
		r.e.core.event(ev)
	}
	return out
}

func (r *record) takeLocked(found finding, other sibling, now time.Time) (fresh.Outcome[*answer], []Event) {
	r.lastErr, r.server, r.asked = found.err, found.server, true
	switch {
	case found.kind == hasAddrs:
		events := r.settle(now, nil)
		r.negatives = 0
		a := r.e.core.newAnswer(found, false, now)
		return fresh.Outcome[*answer]{Value: a, Verdict: fresh.Replace}, events
	case found.kind.negative():
		return r.denied(found, other, now)
	case found.kind == localFailed:
		err := &findingError{finding: found, delay: r.e.core.backoff(r.failures + 1)}
		return fresh.Outcome[*answer]{Err: err, Transient: true}, nil
	}
	return r.failed(found, other, now)
}

// settle ends failures and hold, and says so.
func (r *record) settle(now time.Time, events []Event) []Event {
	if r.lost {
		events = append(events, r.event(EventFamilyBack, now, nil))
	}
	if r.hold != nil {
		events = append(events, r.event(EventHoldEnded, now, nil))
	}
	r.failures, r.lost, r.hold = 0, false, nil
	return events
}

// denied takes an answer that the name has no address of this family.
func (r *record) denied(found finding, other sibling, now time.Time) (fresh.Outcome[*answer], []Event) {
	r.failures = 0
	c := r.e.core
	if other != otherGood && r.holdsAddrs() && c.cfg.hold > 0 {
		if !r.holdLocked(now) {
			err := &findingError{finding: found, held: true, delay: max(minDenials, ladder(r.hold.asked+1))}
			out := fresh.Outcome[*answer]{Err: err}
			if r.hold.asked == 1 {
				return out, []Event{r.event(EventHoldBegan, now, err)}
			}
			return out, nil
		}
	}
	events := r.settle(now, nil)
	r.negatives++
	a := c.newAnswer(found, other == otherGood || r.sibling() == otherGood, now)
	switch {
	case !a.beside:
		a.tries = r.negatives
	case other != otherGood:
		// The other family is denied as well, and held. It sets the pace at which both are asked.
		a.ttl = max(a.ttl, c.cfg.hold)
		a.end = now.Add(a.ttl)
	}
	return fresh.Outcome[*answer]{Value: a, Verdict: fresh.Replace}, events
}

// holdLocked counts a denial, and reports whether the hold is over.
func (r *record) holdLocked(now time.Time) bool {
	if r.hold == nil {
		r.hold = &hold{since: now}
	}
	h := r.hold
	h.before, h.last = h.last, now
	h.asked++
	return now.Sub(h.since) >= r.e.core.cfg.hold && h.asked > 1 && h.last.Sub(h.before) >= minDenials
}

// failed takes an answer of no use, or none.
func (r *record) failed(found finding, other sibling, now time.Time) (fresh.Outcome[*answer], []Event) {
	c := r.e.core
	r.failures++
	err := &findingError{finding: found, delay: c.backoff(r.failures)}
	events := []Event{r.event(EventRefreshFailed, now, err)}
	if other == otherUnknown {
		other = r.sibling()
	}
	if other == otherGood && r.failures >= rareAfter && !r.holdsAddrs() {
		err.delay = rareEvery
		if !r.lost {
			r.lost = true
			events = append(events, r.event(EventFamilyLost, now, err))
		}
	}
	return fresh.Outcome[*answer]{Err: err}, events
}

// endHold ends a hold at once, because no address of the record could be connected: what is held goes, and the next
// reader asks.
func (r *record) endHold() {
	now := time.Now()
	r.e.mu.Lock()
	if r.hold == nil {
		r.e.mu.Unlock()
		return
	}
	events := r.settle(now, nil)
	r.e.mu.Unlock()
	r.value.Adjust(func(*fresh.Snapshot[*answer]) fresh.Plan { return fresh.Plan{Soft: now, Aged: now, End: now} })
	r.value.Forgive()
	for _, ev := range events {
		r.e.core.event(ev)
	}
}

// Plan gives an answer its instants.
func (r *record) Plan(a *answer, _ time.Time) fresh.Plan { return r.e.core.plan(a) }

// Delay holds back the next try: what the outcome says, or the ladder for a failure that is none of DNS.
func (r *record) Delay(t fresh.Try) time.Duration {
	if e := asFinding(t.Err); e != nil {
		return e.delay
	}
	return r.e.core.backoff(t.Failures)
}

// Eager reports whether the name is pinned.
func (r *record) Eager() bool { return r.e.pinned.Load() }

// Changed publishes. A record whose hold began while it was not due yet is asked again at the pace of the hold.
func (r *record) Changed(s *fresh.Snapshot[*answer]) {
	if e := asFinding(s.Err); e != nil && e.held && s.State == fresh.Valid {
		r.value.Adjust(func(s *fresh.Snapshot[*answer]) fresh.Plan {
			p := *s.Plan
			p.Soft = earlier(p.Soft, time.Now())
			return p
		})
	}
	r.e.update()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (r *record) event(k EventKind, now time.Time, err error) Event {
	return Event{Kind: k, Time: now, Name: r.e.name, Family: r.f.public(), Err: err}
}
