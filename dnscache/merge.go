package dnscache

import (
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// merge puts together what the records of a name say.
func (e *entry) merge() *snapshot {
	s := new(snapshot)
	for _, f := range e.core.cfg.asked {
		s.recs[f] = e.recs[f].value.Peek()
		if s.recs[f].Due {
			s.flags |= flagDue
		}
	}
	for _, f := range e.order(s) {
		e.mergeFamily(s, f)
	}
	if len(s.addrs) == 0 {
		s.flags = s.flags&flagDue | flagError | flagWait
		if !s.asking() { // one family's denial is no news while the other is on its way
			s.err = e.errorOf(s)
		}
		return s
	}
	for _, f := range e.core.cfg.asked {
		if !good(s.recs[f]) && !empty(s.recs[f]) && !e.core.cfg.system {
			s.flags |= flagPartial
		}
	}
	if !s.waitUntil(time.Time{}).IsZero() {
		s.flags |= flagWait
	}
	return s
}

// mergeFamily adds one family's addresses.
func (e *entry) mergeFamily(s *snapshot, f family) {
	fs := s.recs[f]
	if !good(fs) {
		return
	}
	a := fs.Value
	if len(s.addrs) == 0 {
		s.addrs, s.source, s.asked = a.addrs, a.source, a.asked
	} else {
		s.addrs = append(append(make([]netip.Addr, 0, len(s.addrs)+len(a.addrs)), s.addrs...), a.addrs...)
	}
	if s.end.IsZero() || fs.Plan.Aged.Before(s.end) {
		s.end = fs.Plan.Aged
	}
	if fs.Aged {
		s.flags |= flagStale
	}
	if err := asFinding(fs.Err); err != nil && err.held {
		s.flags |= flagHeld
	}
}

// order returns the families, the preferred one first.
func (e *entry) order(s *snapshot) []family {
	fams := e.core.cfg.asked
	if len(fams) == 1 {
		return fams
	}
	first := v4
	if r := s.recs[v6]; e.knows {
		first = e.prefer
	} else if good(r) && r.Value.route {
		first = v6
	}
	if first == v4 {
		return fams
	}
	return []family{v6, v4}
}

// empty reports whether DNS says that there is no address of this family.
func empty(s *fresh.Snapshot[*answer]) bool {
	return s.Value != nil && s.Value.kind.negative() && (s.State == fresh.Valid || s.State == fresh.Soft)
}

const (
	// hardWait is how long after its beginning a flight is waited for by readers who could have an old answer.
	hardWait = 500 * time.Millisecond

	// secondFamily is how long a reader waits for the other family after the first brought an address (RFC 8305 section 3).
	secondFamily = 50 * time.Millisecond
)

// waitUntil returns how long a reader waits although there are addresses; zero: not at all. The limit, if not zero, is
// the reader's own for the refresh of an old answer.
func (s *snapshot) waitUntil(limit time.Time) (until time.Time) {
	later := func(t time.Time) {
		if t.After(until) {
			until = t
		}
	}
	for f := range families {
		fs := s.recs[f]
		switch {
		case fs == nil || fs.Since.IsZero():
		case good(fs) && fs.State == fresh.Hard:
			t := fs.Since.Add(hardWait)
			if !limit.IsZero() {
				t = earlier(t, limit)
			}
			later(t)
		case fs.State == fresh.Cold && fs.Tries == 0 && good(s.recs[f.other()]):
			later(s.recs[f.other()].Value.at.Add(secondFamily))
		}
	}
	return until
}

// asking reports whether a family is being asked for.
func (s *snapshot) asking() bool {
	for _, fs := range s.recs {
		if fs != nil && !fs.Since.IsZero() {
			return true
		}
	}
	return false
}

// errorOf says why there is no address, nil if nobody has asked.
func (e *entry) errorOf(s *snapshot) *Error {
	var worst *finding
	var retry time.Time
	note := func(f *finding, next time.Time) {
		if retry.IsZero() || next.Before(retry) {
			retry = next
		}
		if worst == nil || rank(f.kind) > rank(worst.kind) {
			worst = f
		}
	}
	for _, f := range e.core.cfg.asked {
		fs := s.recs[f]
		switch err := asFinding(fs.Err); {
		case err != nil:
			note(&err.finding, fs.Next)
		case fs.Err != nil:
			note(&finding{kind: failing, err: fs.Err}, fs.Next)
		case empty(fs):
			a := fs.Value
			note(&finding{kind: a.kind, server: a.server, err: denial(a.kind)}, a.end)
		}
	}
	if worst == nil {
		return nil
	}
	if worst.kind == localFailed {
		retry = time.Time{}
	}
	return newError(e.name, kindOf(worst.kind), worst.server, worst.err, retry)
}

func denial(k kind) error {
	if k == hasNone {
		return errNoAddress
	}
	return errNoSuchHost
}

// rank orders what went wrong with two families: the name is not found only if both say so.
func rank(k kind) int {
	switch k {
	case localFailed:
		return 4
	case failing:
		return 3
	case silent:
		return 2
	case noName:
		return 1
	}
	return 0
}
