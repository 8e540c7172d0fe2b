package dnscache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// entry is what the Resolver knows of one name.
//
// Its mutex comes before those of internal/fresh: flights are started and records looked at under it, but nothing that
// takes time happens there, and no callback.
type entry struct {
	snap atomic.Pointer[snapshot] // what readers see; stored under mu
	name string                   // canonical
	core *core
	hits hits

	dead    atomic.Bool // evicted, expired or closed: look the name up again
	pinned  atomic.Bool
	waiters atomic.Int32
	stale   atomic.Bool // somebody got a stale answer since the last one in time

	recs [families]*record // nil for a family that is not asked

	mu       sync.Mutex
	walk     *walk
	memo     memo
	changed  chan struct{} // closed at the next publication; nil while nobody waits
	prefer   family        // that connected last
	knows    bool          // whether prefer is known
	explicit bool          // pinned by Pin
	watches  []*watch
	told     *snapshot // what they were told last
	wasted   int       // questions to candidates without an address, in walks that found one

	dials dialState // has its own synchronisation

	// guarded by core.mu
	index int
	used  time.Time // last use that was noticed
	seen  uint64    // hits at that time
}

// hits counts reads that were served at once. It has a cache line of its own, so that counting does not slow down the
// readers of the snapshot.
type hits struct {
	_ [56]byte
	n atomic.Uint64
	_ [56]byte
}

// memo is the candidate that answered last: it alone is asked until the memo ends.
type memo struct {
	cand  candidate
	until time.Time // zero: the first candidate, which a new walk would ask first anyway
	since time.Time
}

// memoLife is how long a winner is asked alone before the full list is walked again.
const memoLife = 5 * time.Minute

func (m *memo) valid(now time.Time) bool {
	return m.cand.name != "" && (m.until.IsZero() || now.Before(m.until))
}

func newEntry(c *core, name string) *entry {
	e := &entry{core: c, name: name, index: -1, used: time.Now()}
	opt := fresh.Options{Timeout: c.cfg.timeout + time.Second} // the flight keeps LookupTimeout itself
	for _, f := range c.cfg.asked {
		r := &record{e: e, f: f}
		r.value = fresh.New[*answer](r, opt)
		e.recs[f] = r
	}
	e.snap.Store(e.merge())
	return e
}

// join returns the walk that a flight of the family is to take its outcome from, or nil and the one candidate to ask.
func (e *entry) join(f family) (*walk, candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.recs[f]
	r.joined = r.value.Peek().Tries + 1
	if w := e.walk; w != nil && (w.promised[f] || !w.delivered[f]) {
		w.promised[f], w.taken[f] = false, true
		e.forgetLocked(w)
		return w, candidate{}
	}
	if e.memo.valid(time.Now()) {
		r.alone = true
		return nil, e.memo.cand
	}
	return e.startWalkLocked(f, finding{}), candidate{}
}

// rejoin is for a flight that has asked alone, and found this. If a walk has begun meanwhile, its outcome is newer. If
// DNS denies what is held, a walk asks for the other family, and for the rest of the list. Nil: the finding stands.
func (e *entry) rejoin(f family, found finding) *walk {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.recs[f]
	r.alone = false
	if w := e.walk; w != nil && w.promised[f] {
		w.promised[f], w.taken[f] = false, true
		e.forgetLocked(w)
		return w
	}
	if !found.kind.negative() || !r.holdsAddrs() {
		return nil
	}
	e.memo = memo{}
	return e.startWalkLocked(f, found)
}

// startWalkLocked starts a walk for a flight of family f that is in progress.
func (e *entry) startWalkLocked(f family, seed finding) *walk {
	w := newWalk(e)
	w.taken[f], w.seed, w.seeded = true, seed, f
	e.runLocked(w)
	return w
}

// forgetLocked lets go of a walk that has nothing more to give.
func (e *entry) forgetLocked(w *walk) {
	for _, f := range e.core.cfg.asked {
		if !w.delivered[f] || w.promised[f] {
			return
		}
	}
	if e.walk == w {
		e.walk = nil
	}
}

// runLocked starts a walk. It asks for both families, so both have a flight: one that began a moment later on its own
// would walk once more. A flight that asks alone, or has not come to join yet, will take its outcome.
func (e *entry) runLocked(w *walk) {
	for _, f := range e.core.cfg.asked {
		r := e.recs[f]
		switch s := r.value.Peek(); {
		case w.taken[f] || w.promised[f]:
		case s.Since.IsZero():
			w.promised[f] = r.value.Force("walk")
		case r.alone || r.joined != s.Tries+1:
			w.promised[f] = true
		}
	}
	e.walk = w
	e.core.spawn(w.run)
}

// kick starts the flights that are due, and returns what readers see then and whether it started one. Records that are
// due together share a walk.
func (e *entry) kick() (*snapshot, bool) {
	return e.start(func(r *record) bool { return r.value.Ask() })
}

// force starts flights for all records, whatever their state, or joins those in progress.
func (e *entry) force() (*snapshot, bool) {
	return e.start(func(r *record) bool {
		return r.value.Peek().Since.IsZero() && r.value.Force("forced")
	})
}

// start begins flights under the lock, where the walk that they share waits for all of them to be known.
func (e *entry) start(begin func(*record) bool) (*snapshot, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead.Load() {
		return e.snap.Load(), false
	}
	var w *walk
	if !e.memo.valid(time.Now()) && !e.walkingLocked() {
		w = newWalk(e)
	}
	started := false
	for _, f := range e.core.cfg.asked {
		if begin(e.recs[f]) {
			started = true
			if w != nil {
				w.promised[f] = true
			}
		}
	}
	if w != nil && started {
		e.runLocked(w)
	}
	return e.publishLocked(), started
}

// walkingLocked reports whether a walk is under way that no family has its outcome of yet: new flights join it.
func (e *entry) walkingLocked() bool {
	if e.walk == nil {
		return false
	}
	for _, f := range e.core.cfg.asked {
		if e.walk.delivered[f] {
			return false
		}
	}
	return true
}

// remember notes the candidate that has an address. A walk on which another failed has not proved that this one comes
// first, and is not remembered.
func (e *entry) remember(w *walk, cand candidate, sure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wasted += w.lost
	e.memo = memo{}
	if !sure {
		return
	}
	now := time.Now()
	e.memo = memo{cand: cand, since: now}
	if cand != w.cands[0] || w.resorted {
		e.memo.until = now.Add(memoLife)
	}
}

// update publishes what the records say now.
func (e *entry) update() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publishLocked()
}

// publishLocked makes a new snapshot, wakes readers and tells watchers.
func (e *entry) publishLocked() *snapshot {
	s := e.merge()
	e.snap.Store(s)
	if s.flags&flagStale == 0 {
		e.stale.Store(false)
	}
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
	e.tellLocked(s)
	return s
}

// change returns a channel that is closed at the next publication. It is taken before the snapshot is read.
func (e *entry) change() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// stop takes the entry out of use, after it has been taken out of the table.
func (e *entry) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead.Store(true)
	for _, r := range e.recs {
		if r != nil {
			r.value.Stop()
		}
	}
	e.publishLocked()
}

// wait returns when nothing of the entry runs any more, after stop.
func (e *entry) wait() {
	for _, r := range e.recs {
		if r != nil {
			r.value.Close()
		}
	}
}

// hasPreference reports whether a connection has shown which family to prefer.
func (e *entry) hasPreference() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.knows
}

// preferFamily notes which family connected.
func (e *entry) preferFamily(f family) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.knows && e.prefer == f {
		return
	}
	e.prefer, e.knows = f, true
	e.publishLocked()
}
