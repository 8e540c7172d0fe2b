package dnscache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Update is what a watcher is told: an answer, or that there is none.
type Update struct {
	Result

	// Fresh is true only for a positive answer that has just come from DNS, or from the platform's resolver; Family says
	// of which family, or Both. Nobody may close connections because an address is missing in an update that is not
	// fresh, or fresh for the other family, nor because of a family that a partial one lacks.
	Fresh  bool
	Family Family

	Err error // why there is no address
}

// maxUpdates is how many updates wait for a watcher that blocks before the oldest are dropped.
const maxUpdates = 64

// watch is one watcher of a name.
type watch struct{ line *line[Update] }

// Pin resolves the names now and keeps their records fresh by timer from then on, used or not, until Unpin or Close. It
// waits until each has an answer or ctx ends, and returns the errors, joined; the pins stay. Pinning again changes
// nothing. A literal address needs no pin.
func (r *Resolver) Pin(ctx context.Context, names ...string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = r.pin(ctx, name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *Resolver) pin(ctx context.Context, name string) error {
	if err := r.keep(name, func(e *entry) { e.explicit = true }); err != nil {
		return err
	}
	_, _, err := r.lookup(ctx, name, 0)
	return err
}

// Unpin ends what Pin began. The records live on as if they had just been used. A name that is still watched stays
// pinned.
func (r *Resolver) Unpin(names ...string) {
	c := r.state.Load()
	if c == nil {
		return
	}
	for _, name := range names {
		if e := c.find(name); e != nil {
			e.setPins(func() { e.explicit = false })
		}
	}
}

// Watch pins name and tells fn of the answer in hand and of every later one, good or bad, in order and one at a time,
// from a goroutine of the Resolver and outside its locks. An fn that blocks holds up nobody else; beyond 64 waiting
// updates it loses the oldest. The returned stop ends it, and may be called from fn: afterwards no new call begins.
// Close ends it, too. A literal address is told once. What cannot be looked up is told once, with the error.
func (r *Resolver) Watch(name string, fn func(Update)) (stop func()) {
	if addr, ok := literal(name); ok {
		fn(Update{Result: Result{literalSnapshot(addr)}})
		return func() {}
	}
	var w *watch
	var watched *entry
	err := r.keep(name, func(e *entry) {
		w = &watch{newLine(e.core, maxUpdates, fn)}
		e.watches = append(e.watches, w)
		watched = e
		if s := e.snap.Load(); s.known() {
			w.line.add(s.update())
			e.told = s
		}
	})
	if err != nil {
		fn(Update{Err: err})
		return func() {}
	}
	if watched.snap.Load().flags&flagDue != 0 {
		watched.kick()
	}
	return func() {
		w.line.stop()
		watched.setPins(func() {
			watched.watches = slices.DeleteFunc(watched.watches, func(other *watch) bool { return other == w })
		})
	}
}

// keep finds or makes the entry of a name and pins it as pin says, under its lock.
func (r *Resolver) keep(name string, pin func(*entry)) error {
	c, err := r.core()
	if err != nil {
		return newError(name, Closed, "", err, time.Time{})
	}
	if _, ok := literal(name); ok {
		return nil
	}
	key, ok := canonical(name)
	if !ok {
		return newError(name, NotFound, "", errNoSuchHost, time.Time{})
	}
	for {
		e, err := c.entryFor(key)
		switch {
		case err != nil:
			return newError(key, Closed, "", err, time.Time{})
		case e == nil:
			return newError(key, Failure, "", errFull, time.Time{})
		case e.setPins(func() { pin(e) }):
			return nil
		}
	}
}

// setPins changes the pins, and reports false if the entry is out of use. Records that are due already have no timer of
// their own any more: they get one with the next flight, which the caller starts.
func (e *entry) setPins(change func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead.Load() {
		return false
	}
	change()
	e.pinned.Store(e.explicit || len(e.watches) > 0)
	return true
}

// find returns the entry of a name, or nil.
func (c *core) find(name string) *entry {
	key, ok := canonical(name)
	if !ok {
		return nil
	}
	e, ok := c.names.Load(key)
	if !ok {
		return nil
	}
	return e.(*entry)
}

// tellLocked tells the watchers of a publication that changes what they know.
func (e *entry) tellLocked(s *snapshot) {
	if len(e.watches) == 0 || !s.known() || e.told != nil && s.sameAnswers(e.told) {
		return
	}
	u := s.update()
	u.Fresh, u.Family = s.newer(e.told)
	e.told = s
	for _, w := range e.watches {
		w.line.add(u)
	}
}

// known reports whether there is an answer, or a reason why not.
func (s *snapshot) known() bool { return len(s.addrs) > 0 || s.err != nil }

func (s *snapshot) update() Update {
	u := Update{Result: Result{s}}
	if s.err != nil {
		u.Err = s.err
	}
	return u
}

// newer reports whether s holds a positive answer that old, which may be nil, does not, and of which family. The hosts
// file is no news from DNS.
func (s *snapshot) newer(old *snapshot) (fresh bool, of Family) {
	for f := range families {
		a := valueOf(s.recs[f])
		if a == nil || old != nil && a == valueOf(old.recs[f]) || a.kind != hasAddrs || a.source == SourceHosts {
			continue
		}
		if of = f.public(); fresh {
			of = Both
		}
		fresh = true
	}
	return fresh, of
}
