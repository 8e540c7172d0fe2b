package facade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	defaultBatchMax    = 100
	defaultBatchWindow = 2 * time.Millisecond
)

// Batch makes few calls out of many keys. Declare it once; its state lives in the run, so that no call ever mixes the
// contexts of two runs. Parts of a run, and its function, ask for keys with Get or All; Load fetches those that were asked
// for meanwhile.
//
// A call goes out when Max keys are together, when all parts wait, so that no further key can come, or when Window is over.
// (Goroutines that a part started itself are not seen: there, use All.) Values are kept until the run's end, failures are not. A call is a part of the run, in its report and for
// its permits, and is cancelled when the last part that asked for one of its keys has left.
//
// The fields must not be changed after the first use. Methods are safe for concurrent use.
type Batch[K comparable, V any] struct {
	// Name stands in errors and reports: the calls of a run are called Name/1, Name/2 and so on. Required.
	Name string

	// Load returns a value for each of the keys, which are unique and in the order in which they were asked for. Those
	// who asked for a key without a value get [ErrNoResult]. If it returns [KeyErrors] these keys fail; with any other
	// error, with a key that it was not asked for, or by a panic, all do. Required.
	Load func(context.Context, []K) (map[K]V, error)

	// Max is how many keys one call takes at most. Zero means 100.
	Max int

	// Window is how long the first key of a call waits for others. Zero means 2 ms.
	Window time.Duration
}

// KeyErrors is what Batch.Load returns if some keys failed and others did not.
type KeyErrors[K comparable] map[K]error

// Error tells how many keys failed; no key stands in it.
func (e KeyErrors[K]) Error() string { return fmt.Sprintf("%d keys failed", len(e)) }

// Unwrap returns the errors of the keys.
func (e KeyErrors[K]) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// Get returns the value of one key. ctx has to be that of a part, or of the function of a run: it tells in which run.
func (b *Batch[K, V]) Get(ctx context.Context, key K) (V, error) {
	var zero V
	r, err := b.run(ctx)
	if err != nil {
		return zero, err
	}
	v, l, err := b.ask(r, key)
	if l == nil {
		return v, err
	}
	return l.get(ctx, key)
}

// All returns the values of keys, in their order. It fails as soon as one of them does.
func (b *Batch[K, V]) All(ctx context.Context, keys []K) ([]V, error) {
	r, err := b.run(ctx)
	if err != nil {
		return nil, err
	}
	values := make([]V, len(keys))
	loads := make([]*load[K, V], len(keys))
	for i, key := range keys {
		if values[i], loads[i], err = b.ask(r, key); err != nil {
			break
		}
	}
	for i, l := range loads {
		switch {
		case l == nil:
		case err != nil:
			l.leave(keys[i])
		default:
			values[i], err = l.get(ctx, keys[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (b *Batch[K, V]) mistake() string {
	switch {
	case b.Name == "":
		return "a batch has no name"
	case b.Load == nil:
		return "Load is nil"
	case b.Max < 0:
		return "Max is negative"
	case b.Window < 0:
		return "Window is negative"
	}
	return ""
}

func (b *Batch[K, V]) run(ctx context.Context) (*run, error) {
	switch n := ctx.Value(nodeKey{}).(type) {
	case *part:
		if text := b.mistake(); text != "" {
			return nil, n.run.mistake(b.Name, text)
		}
		return n.run, nil
	case *sharedCall:
		return nil, errInShared
	}
	return nil, usage("", b.Name, "the context is not one of a run")
}

// batchState is what a run knows of a batch. Guarded by run.mu.
type batchState[K comparable, V any] struct {
	values map[K]V
	loads  map[K]*load[K, V] // open or under way
	open   *load[K, V]
	calls  int
}

func (b *Batch[K, V]) state(r *run) *batchState[K, V] {
	if st, ok := r.batches[b].(*batchState[K, V]); ok {
		return st
	}
	if r.batches == nil {
		r.batches = make(map[any]any)
	}
	st := &batchState[K, V]{values: make(map[K]V), loads: make(map[K]*load[K, V])}
	r.batches[b] = st
	return st
}

// ask returns the value of key if the run has it, or else the load that the caller is now a member of.
func (b *Batch[K, V]) ask(r *run, key K) (v V, l *load[K, V], err error) {
	var fx effects
	r.mu.Lock()
	defer r.unlock(&fx) // the look-up panics if K is an interface and key cannot be compared
	st := b.state(r)
	if v, ok := st.values[key]; ok {
		return v, nil, nil
	}
	if l = st.loads[key]; l == nil {
		if l, err = b.collect(r, st, &fx); err != nil {
			return v, nil, err
		}
		l.keys = append(l.keys, key)
		st.loads[key] = l
	}
	l.members[key]++
	l.waiting++
	if l.part.phase == phaseOpen && len(l.keys) >= b.max() {
		l.launch()
	}
	return v, l, nil
}

// collect returns the load that takes new keys.
func (b *Batch[K, V]) collect(r *run, st *batchState[K, V], fx *effects) (*load[K, V], error) {
	switch {
	case r.failure != nil || r.closing:
		return nil, r.over()
	case st.open != nil:
		return st.open, nil
	case len(r.all) >= maxParts:
		e := usage(r.name, b.Name, tooMany)
		r.fail(nil, e, fx)
		return nil, e
	}
	st.calls++
	l := &load[K, V]{batch: b, state: st, members: make(map[K]int)}
	ctx, cancel := context.WithCancelCause(r.soft)
	l.cancel = cancel
	p := &l.part
	p.run, p.body, p.kind, p.name, p.phase = r, l, kindLoad, b.Name, phaseOpen
	p.terms = &terms{ordinal: st.calls, ctx: ctx}
	l.timer = time.AfterFunc(b.window(), l.timeUp)
	st.open = l
	r.windows = append(r.windows, l)
	r.add(p, fx)
	return l, nil
}

func (b *Batch[K, V]) max() int {
	if b.Max == 0 {
		return defaultBatchMax
	}
	return b.Max
}

func (b *Batch[K, V]) window() time.Duration {
	if b.Window == 0 {
		return defaultBatchWindow
	}
	return b.Window
}
