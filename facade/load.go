package facade

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

var (
	errAllLeft = errors.New("all who asked have left")
	errUnasked = errors.New("it returned a key that it was not asked for")
)

// window is a load that collects keys. Its methods are called under the run's lock.
type window interface {
	launch() // no more keys: the call goes out
	shut()   // no more keys: the run is over
}

// load is one call of a batch.
type load[K comparable, V any] struct {
	part   part
	batch  *Batch[K, V]
	state  *batchState[K, V]
	cancel context.CancelCauseFunc
	timer  *time.Timer // closes the window

	// Guarded by run.mu.
	keys    []K       // those to ask for, in the order in which they came
	members map[K]int // how many wait for each
	waiting int       // how many wait for any

	// Written before part is settled.
	values map[K]V
	failed KeyErrors[K]
}

// timeUp is called by the window's timer.
func (l *load[K, V]) timeUp() {
	r := l.part.run
	r.mu.Lock()
	fx := r.join()
	if l.part.phase == phaseOpen {
		l.launch()
	}
	r.unlock(&fx)
}

func (l *load[K, V]) launch() {
	l.shut()
	l.part.tell().keys = len(l.keys)
	l.part.run.enqueue(&l.part)
}

func (l *load[K, V]) shut() {
	l.timer.Stop()
	if l.state.open == l {
		l.state.open = nil
	}
	r := l.part.run
	r.windows = slices.DeleteFunc(r.windows, func(w window) bool { return w == l })
}

// launchAll is called when nothing else in the run can go on.
func (r *run) launchAll() {
	for len(r.windows) > 0 {
		r.windows[0].launch()
	}
}

func (r *run) shutAll() {
	for len(r.windows) > 0 {
		r.windows[0].shut()
	}
}

// get waits for the load and returns what it had for key.
func (l *load[K, V]) get(ctx context.Context, key K) (v V, err error) {
	if err := l.part.wait(ctx); err != nil {
		l.leave(key)
		return v, err
	}
	v, ok := l.values[key]
	switch {
	case ok:
		return v, nil
	case l.failed[key] != nil:
		return v, l.part.failure(l.failed[key])
	case l.part.outcome != nil:
		return v, l.part.outcome
	}
	return v, l.part.failure(ErrNoResult)
}

// leave is called by a member that does not wait any more.
func (l *load[K, V]) leave(key K) {
	if l.drop(key) {
		l.cancel(errAllLeft)
	}
}

// drop reports whether the member was the last, and the call is to be cancelled.
func (l *load[K, V]) drop(key K) bool {
	p, r := &l.part, l.part.run
	var fx effects
	r.mu.Lock()
	defer r.unlock(&fx)
	if p.settled.Load() {
		return false
	}
	l.members[key]--
	l.waiting--
	if l.members[key] == 0 && p.phase == phaseOpen {
		delete(l.members, key)
		delete(l.state.loads, key)
		l.keys = slices.DeleteFunc(l.keys, func(k K) bool { return k == key })
	}
	if l.waiting > 0 {
		return false
	}
	l.forget()
	if p.phase == phaseOpen {
		l.shut()
	}
	r.settle(p, StateCancelled, &Error{Run: r.name, Part: p.label(), Kind: Cancelled, Err: errAllLeft}, &fx)
	return true
}

// forget makes room for another load of the same keys.
func (l *load[K, V]) forget() {
	for _, key := range l.keys {
		if l.state.loads[key] == l {
			delete(l.state.loads, key)
		}
	}
}

func (l *load[K, V]) exec() {
	var values map[K]V
	var err error
	returned := false
	defer func() {
		if !returned {
			err = panicked(l.part.label(), recover())
		}
		l.complete(values, err)
	}()
	values, err = l.batch.Load(&l.part, slices.Clone(l.keys))
	returned = true
}

func (l *load[K, V]) complete(values map[K]V, err error) {
	p, r := &l.part, l.part.run
	fx := effects{leaving: true}
	r.mu.Lock()
	r.returned(p, &fx)
	if err != nil {
		r.notice(&fx)
	}
	if !p.settled.Load() {
		l.forget()
		l.take(values, err, &fx)
	}
	r.unlock(&fx)
	l.cancel(errUnused)
}

// take settles the load by what Load returned.
func (l *load[K, V]) take(values map[K]V, err error, fx *effects) {
	p, r := &l.part, l.part.run
	failed, some := errors.AsType[KeyErrors[K]](err)
	if err != nil && !some {
		r.settle(p, StateFailed, p.failure(err), fx)
		return
	}
	if !l.asked(values, failed) {
		r.settle(p, StateFailed, p.failure(errUnasked), fx)
		return
	}
	l.failed, l.values = failed, maps.Clone(values)
	maps.Copy(l.state.values, values)
	switch {
	case !some:
		r.settle(p, StateOK, nil, fx)
	case len(values) > 0:
		r.settle(p, StateOK, p.failure(err), fx)
	default:
		r.settle(p, StateFailed, p.failure(err), fx)
	}
}

// asked reports whether Load kept to the keys it was given.
func (l *load[K, V]) asked(values map[K]V, failed KeyErrors[K]) bool {
	for key := range values {
		if _, ok := l.members[key]; !ok {
			return false
		}
	}
	for key := range failed {
		if _, ok := l.members[key]; !ok {
			return false
		}
	}
	return true
}

func (l *load[K, V]) rescue(error)    {}
func (l *load[K, V]) rescuable() bool { return false }
func (l *load[K, V]) useFallback()    {}
func (l *load[K, V]) gather()         {}
func (l *load[K, V]) boxed() any      { return nil }
