package facade

import (
	"context"
	"errors"
	"time"
)

// waiter is one goroutine inside Get. Waiters are reused: a part that waits for one future after the other has one.
type waiter struct {
	on   *part
	who  *part         // the part that waits; nil for a goroutine that is no part of the run
	ch   chan struct{} // one signal: on is settled, and who has its permit back
	from time.Duration

	list       *waiterList // on.waiters, then run.resuming if there is no permit
	prev, next *waiter
	atGate     bool // on is settled, but who's limit has no place
	left       bool // the goroutine did not wait for that place
	place      *place
}

// wait returns when p is settled. It returns an error if the calling part must not wait, or if ctx ends first.
func (p *part) wait(ctx context.Context) error {
	r := p.run
	if r == nil {
		return usage("", "", "the future does not come from Go or Each")
	}
	who, err := r.caller(ctx)
	if err != nil {
		return err
	}
	w, err := r.park(who, p)
	if w == nil {
		return err
	}
	select {
	case <-w.ch:
	case <-ctx.Done():
		err = r.unpark(ctx, w)
	}
	if who != nil && !w.left {
		who.story.spare.Store(w)
	}
	return err
}

// caller finds the part of this run that ctx belongs to, if any: for a context of a run inside a part, that part.
func (r *run) caller(ctx context.Context) (*part, error) {
	at := ctx.Value(nodeKey{})
	for {
		switch n := at.(type) {
		case *part:
			if n.run == r {
				return n, nil
			}
			at = n.run.outer
		case *sharedCall:
			return nil, errInShared
		default:
			return nil, nil
		}
	}
}

// errInShared: the part may be gone, with its run, while others still wait for the shared call.
var errInShared = &Error{Kind: Usage, Err: errors.New("a shared call waits for a part of one run")}

// park makes who wait for on. It returns nil if there is nothing to wait for, or the wait would never end.
func (r *run) park(who, on *part) (*waiter, error) {
	var fx effects
	r.mu.Lock()
	defer r.unlock(&fx)
	if on.settled.Load() {
		return nil, nil
	}
	var w *waiter
	if who == nil {
		w = &waiter{ch: make(chan struct{}, 1)}
	} else {
		if e := r.cycle(who, on); e != nil {
			r.fail(who, e, &fx)
			return nil, e
		}
		w = who.tell().waiter()
	}
	*w = waiter{ch: w.ch, on: on, who: who, from: fx.at(r)}
	on.waiters.push(w)
	if who != nil {
		who.story.parked++
		if who.story.parked == 1 {
			who.story.parkedAt = w.from
			r.rest(who, &fx)
			r.count(who)
		}
	}
	return w, nil
}

// waiter returns one that no Get of the part uses.
func (s *story) waiter() *waiter {
	w := s.spare.Swap(nil)
	if w != nil {
		return w
	}
	w = &s.first
	if w.ch != nil { // several goroutines of the part wait
		w = &waiter{}
	}
	w.ch = make(chan struct{}, 1)
	return w
}

// wake ends w's wait for its part; its goroutine goes on as soon as it has what it needs to run. Called with the lock.
func (r *run) wake(w *waiter, fx *effects) {
	w.on.waiters.remove(w)
	who := w.who
	if who == nil {
		fx.wake(w)
		return
	}
	who.note(Wait{Part: w.on.label(), From: w.from, To: fx.at(r)})
	who.story.parked--
	if who.parked() || who.phase != phaseRunning || who.kind == kindRoot {
		r.resumed(who, fx)
		fx.wake(w)
		return
	}
	r.resumed(who, fx)
	if l := who.limit(); l != nil && !w.join(l) {
		w.atGate = true
		return
	}
	who.story.gate = who.limit() != nil
	r.readmit(w, fx)
}

// join takes a place in the limit, or waits for one before those that have not started.
func (w *waiter) join(l *Limit) bool {
	w.place = &place{of: w}
	return l.take(w.place, true)
}

func (r *run) resumed(who *part, fx *effects) {
	if !who.parked() {
		who.story.parkedFor += fx.at(r) - who.story.parkedAt
	}
	r.count(who)
}

// readmit gives w's part its permit back, or a place in front of those that have not started. Called with the lock.
func (r *run) readmit(w *waiter, fx *effects) {
	switch {
	case w.who.phase != phaseRunning:
		fx.wake(w)
	case r.running < r.permits:
		r.running++
		w.who.permit = true
		fx.wake(w)
	default:
		r.resuming.push(w)
	}
}

// granted is called when the limit has let the part in again.
func (w *waiter) granted() {
	r := w.who.run
	var fx effects
	r.mu.Lock()
	if w.left || w.who.phase != phaseRunning {
		fx.more().gates = append(fx.more().gates, w.who.limit())
	} else {
		w.who.story.gate = true
	}
	w.atGate = false
	if !w.left {
		r.readmit(w, &fx)
	}
	r.unlock(&fx)
}

// unpark is called when ctx ended before w was woken. If its part is settled all the same, that counts.
func (r *run) unpark(ctx context.Context, w *waiter) (err error) {
	var fx effects
	r.mu.Lock()
	r.notice(&fx)
	if !w.on.settled.Load() {
		err = causeOf(ctx)
		r.wake(w, &fx)
	}
	r.unlock(&fx)
	if w.who == nil {
		<-w.ch
		return err
	}
	// Only the wait was given up, perhaps: a part that goes on needs its permit.
	select {
	case <-w.ch:
		return err
	default:
	}
	select {
	case <-w.ch:
	case <-w.who.Done():
		r.desert(w)
	}
	return err
}

// desert lets w's goroutine go on without a permit, since its part is over.
func (r *run) desert(w *waiter) {
	if r.stepOut(w) {
		<-w.ch
	}
}

// stepOut takes w out of the line it stands in. It reports true if there is none: its signal is on the way.
func (r *run) stepOut(w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.list != nil:
		w.list.remove(w)
	case w.atGate:
		w.left = !w.who.limit().drop(w.place) // if let in at this moment, granted gives the place back
		w.atGate = w.left
	default:
		return true
	}
	return false
}

// cycle returns an error if on waits for who already, directly or over others.
func (r *run) cycle(who, on *part) *Error {
	r.searches++
	trail := r.trail(on, who)
	if trail == nil {
		return nil
	}
	e := &Error{Run: r.name, Part: who.label(), Kind: Cycle}
	for _, p := range trail[:len(trail)-1] {
		e.Also = append(e.Also, p.label())
	}
	return e
}

// trail returns the parts between from and to, both included, each waiting for the next. It searches from the end: to
// begins to wait just now, and few wait for it.
func (r *run) trail(from, to *part) []*part {
	if to == from {
		return []*part{to}
	}
	s := to.tell()
	if s.mark == r.searches {
		return nil
	}
	s.mark = r.searches
	for w := to.waiters.head; w != nil; w = w.next {
		if w.who == nil {
			continue
		}
		if t := r.trail(from, w.who); t != nil {
			return append(t, to)
		}
	}
	if g := to.group(); g != nil {
		if t := r.trail(from, g); t != nil {
			return append(t, to)
		}
	}
	return nil
}

// waiterList is a list of waiters, in the order in which they came.
type waiterList struct{ head, tail *waiter }

func (l *waiterList) push(w *waiter) {
	w.list, w.prev, w.next = l, l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *waiterList) remove(w *waiter) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.list, w.prev, w.next = nil, nil, nil
}
