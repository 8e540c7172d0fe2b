package facade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"
)

// Part holds what a part may differ in from the usual: required, until the run's end, never merged. All fields may be
// zero. It is copied when the part is declared.
type Part[T any] struct {
	// Optional makes the run go on without this part: if it fails, panics or is late, Get returns a fallback and no error,
	// and the report says so.
	Optional bool

	// Timeout limits the part, from the moment it gets its permit; time spent waiting in Get counts, time in the queue
	// does not. Zero means the run's end. It is a deadline of the part's context; when it is over the part's outcome is
	// settled, even if the function runs on.
	Timeout time.Duration

	// Fallback is the value of an optional part that failed, and of one skipped by When.
	Fallback T

	// FallbackFunc, if set, is asked first when an optional part failed, with what went wrong. It has 50 ms, and the rest
	// of the run even when the part's own time is over. Repeating a request in it with the directive "only-if-cached,
	// max-stale" makes the part's own stale answer the fallback. If it fails too, Fallback is used.
	FallbackFunc func(ctx context.Context, err error) (T, error)

	// When, if set, is asked before the function. If it says false the part is skipped: its value is Fallback, and the
	// run counts as complete. It may call Get; its error is the part's. For Each it is asked for each element.
	When func(context.Context) (bool, error)

	// Key, a comparable value, makes equal calls one: in one run, a second part with the same name and an equal key is the
	// first one, with its options. Nil means that the name is unique.
	Key any

	// Share, if set, lets this part wait for the same call of another run, or others for this one's. It needs a Key.
	Share *Share[T]

	// Limit, if set, is a gate that this part has to pass besides Options.Permits.
	Limit *Limit
}

// mistake returns what is wrong with the options, empty if nothing.
func (o *Part[T]) mistake() string {
	switch {
	case o.Timeout < 0:
		return fmt.Sprintf("Timeout is negative: %v", o.Timeout)
	case o.FallbackFunc != nil && !o.Optional:
		return "FallbackFunc without Optional"
	case !o.Optional && o.When == nil && !reflect.ValueOf(&o.Fallback).Elem().IsZero():
		return "Fallback without Optional or When"
	case o.Key != nil && !reflect.ValueOf(o.Key).Comparable():
		return "Key is not comparable"
	case o.Share != nil && o.Key == nil:
		return "Share without Key"
	case o.Share != nil && o.Share.Partition == nil:
		return "Share without Partition"
	case o.Share != nil && o.Share.Timeout < 0:
		return "Share.Timeout is negative"
	case o.Limit != nil && o.Limit.Max <= 0:
		return "Limit without Max"
	}
	return ""
}

// nodeKey is the context key under which a part finds itself.
type nodeKey struct{}

// phase is where a part's function is; its outcome is another matter.
type phase uint8

const (
	phaseOpen     phase = iota // of a batch: collecting keys
	phaseGated                 // waiting for its Limit
	phaseQueued                // waiting for a permit
	phaseRunning               // started, and the run counts on it
	phaseGivenUp               // started, has not returned, and nobody counts on it any more
	phaseReturned              // returned, or never to be started
)

// The fates of a part.
const (
	fateOpen uint32 = iota
	fateRuns
	fateNever
)

type partKind uint8

const (
	kindPart  partKind = iota // of Go, or an element of Each
	kindGroup                 // all elements of an Each: has no function
	kindLoad                  // one call of a batch: its failure is its members' affair
	kindRoot                  // the function of the run
)

// body is what a part does, with the type of its value hidden. All but exec and rescue are called under the run's lock.
type body interface {
	exec()           // runs the function and brings the outcome home, on the part's goroutine
	rescue(error)    // runs the FallbackFunc and settles the part, on a counted goroutine
	rescuable() bool // whether there is a FallbackFunc
	useFallback()    // takes the plain Fallback as the value
	gather()         // takes the values of the group's elements
	boxed() any      // the value
}

// part is the untyped half of a Future and, at the same time, the context given to its function: context.WithValue would
// cost two more allocations. A page has many parts, and what it costs goes by their size: hence what few of them need is
// behind two pointers.
type part struct {
	// Set when the part is declared.
	run      *run
	body     body
	name     string
	terms    *terms // nil for a part that is nothing special
	kind     partKind
	optional bool

	// Below: guarded by run.mu.
	state       State
	phase       phase
	fallingBack bool // its function is done with, its FallbackFunc is not
	rescuing    bool // its FallbackFunc runs
	permit      bool // it holds one of the run's permits
	busy        bool // it is counted in run.busy

	settled atomic.Bool   // set last: state, outcome and the value may be read without the lock
	fate    atomic.Uint32 // whether its function is called: decided once; needs no lock

	err     *Error // what the report says
	outcome *Error // what Get says
	waiters waiterList
	next    *part  // in the run's line of parts to start
	story   *story // nil if there is nothing to tell

	declared, started, ended time.Duration // since the start of the run
}

// terms are what a part was declared with beyond a name and a function. They are not changed once the run has the part.
type terms struct {
	key     any
	timeout time.Duration
	limit   *Limit
	ordinal int    // among parts of one name: 0, then 2, 3, …
	group   *part  // of an element
	index   int    // in its group
	sum     *tally // of a group: guarded by run.mu

	// What the part's context ends by, if not with the run's parts. Used by the part's goroutine and those it gave the
	// context to.
	ctx   context.Context
	alarm *time.Timer        // gives the part up at its Timeout
	stop  context.CancelFunc // frees ctx
}

// story is what happened to a part besides its outcome. Guarded by run.mu.
type story struct {
	parked              int // goroutines of it that wait in Get
	parkedAt, parkedFor time.Duration
	waits               []Wait
	notes               []slog.Attr
	fell                time.Duration          // when the fallback began
	place               *place                 // where it waits for its limit
	gate                bool                   // it holds a place in its limit
	doomed              bool                   // its failure follows from another's
	shared              bool                   // its value comes from another run's call
	mark                uint32                 // of the last search for circles that came by
	namesakes           int                    // later parts of the same name
	keys                int                    // of a load: how many it asked for
	first               waiter                 // for the first Get: most parts wait in one after the other
	spare               atomic.Pointer[waiter] // kept for the next Get; needs no lock
}

// own returns the part's terms, to be set while it is declared.
func (p *part) own() *terms {
	if p.terms == nil {
		p.terms = &terms{}
	}
	return p.terms
}

func (p *part) key() any {
	if p.terms == nil {
		return nil
	}
	return p.terms.key
}

func (p *part) timeout() time.Duration {
	if p.terms == nil {
		return 0
	}
	return p.terms.timeout
}

func (p *part) limit() *Limit {
	if p.terms == nil {
		return nil
	}
	return p.terms.limit
}

func (p *part) group() *part {
	if p.terms == nil {
		return nil
	}
	return p.terms.group
}

// tell returns the part's story, to be added to.
func (p *part) tell() *story {
	if p.story == nil {
		p.story = &story{}
	}
	return p.story
}

func (p *part) parked() bool { return p.story != nil && p.story.parked > 0 }
func (p *part) doomed() bool { return p.story != nil && p.story.doomed }

// tally is what a group knows of its elements. Guarded by run.mu.
type tally struct {
	elements int
	left     int   // without an outcome
	bad      int   // with one that is not ok
	worst    State // of all
	lost     bool  // one has no value
}

// ends returns what the part's context ends by.
func (p *part) ends() context.Context {
	switch {
	case p.kind == kindRoot:
		return &p.run.hard
	case p.terms != nil && p.terms.ctx != nil:
		return p.terms.ctx
	}
	return p.run.soft
}

func (p *part) Deadline() (time.Time, bool) { return p.ends().Deadline() }
func (p *part) Done() <-chan struct{}       { return p.ends().Done() }
func (p *part) Err() error                  { return p.ends().Err() }

// Value returns the part itself for the facade's own key.
func (p *part) Value(key any) any {
	if key == (nodeKey{}) {
		return p
	}
	return p.ends().Value(key)
}

// String keeps the fmt package from reading the fields of a context that is printed.
func (p *part) String() string { return "facade part " + strconv.Quote(p.name) }

// arm gives a part with a Timeout a context of its own. Called on the part's goroutine, before its function.
func (p *part) arm() {
	limit := p.timeout()
	if limit == 0 {
		return
	}
	r, t := p.run, p.terms
	end := r.start.Add(p.started + limit)
	t.ctx, t.stop = context.WithDeadlineCause(r.soft, end, &limitError{whose: "part's", limit: limit})
	t.alarm = time.AfterFunc(time.Until(end), p.overdue)
}

// disarm is called when the function has returned. The context of a part that succeeded goes on to the run's end, as it
// does without a Timeout: its value may still depend on it.
func (p *part) disarm(err error) {
	if p.timeout() == 0 {
		return
	}
	p.terms.alarm.Stop()
	if err != nil {
		p.terms.stop()
	}
}

// overdue is called by the part's timer.
func (p *part) overdue() {
	r := p.run
	r.mu.Lock()
	fx := r.join()
	if p.phase == phaseRunning {
		e := &Error{Run: r.name, Part: p.label(), Kind: TimedOut, Err: overLimit("part's", p.timeout(), nil)}
		r.lapse(p, e, &fx)
	}
	r.unlock(&fx)
}

// failure makes an Error of what p's function returned.
func (p *part) failure(err error) *Error {
	e := &Error{Run: p.run.name, Part: p.label(), Kind: kindOf(err), Err: err}
	if e.Kind == TimedOut && p.timeout() > 0 && errors.Is(p.Err(), context.DeadlineExceeded) {
		e.Err = overLimit("part's", p.timeout(), err)
	}
	return e
}

// label is the part's name in reports and errors, different from that of all other parts of the run.
func (p *part) label() string {
	t := p.terms
	switch {
	case t == nil:
		return p.name
	case t.group != nil:
		return t.group.label() + "[" + strconv.Itoa(t.index) + "]"
	case p.kind == kindLoad:
		return p.name + "/" + strconv.Itoa(t.ordinal)
	case t.ordinal > 0:
		return p.name + "#" + strconv.Itoa(t.ordinal)
	}
	return p.name
}

// named reports whether the part's name was given to Go or Each, and so has to be unique.
func (p *part) named() bool { return p.kind <= kindGroup && p.group() == nil }
