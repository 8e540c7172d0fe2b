package facade

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// All functions in this file are called under the run's lock, except finish, await and expire.

// settle makes s the outcome of p, once: whoever waits for it is woken. What still runs of it is given up.
func (r *run) settle(p *part, s State, err *Error, fx *effects) {
	r.giveUp(p, fx)
	p.fate.CompareAndSwap(fateOpen, fateNever)
	p.state, p.err, p.ended = s, err, fx.at(r)
	p.fallingBack = false
	r.count(p)
	switch s {
	case StateFailed:
		p.outcome = err
	case StateCancelled, StateUnused:
		p.outcome = r.over()
	case StateSkipped:
		if err != nil {
			p.outcome = r.over()
		}
	}
	p.settled.Store(true)
	for p.waiters.head != nil {
		r.wake(p.waiters.head, fx)
	}
	r.publish(p, fx)
	if p.group() != nil {
		r.settleGroup(p, fx)
	}
}

// settleGroup is told that an element has its outcome.
func (r *run) settleGroup(element *part, fx *effects) {
	g := element.group()
	sum := g.terms.sum
	sum.left--
	if element.state != StateOK {
		sum.bad++
	}
	sum.worst = max(sum.worst, element.state)
	sum.lost = sum.lost || element.outcome != nil
	if sum.left > 0 {
		return
	}
	g.note(Wait{Part: element.label(), From: g.declared, To: fx.at(r)})
	if sum.lost {
		r.settle(g, sum.worst, r.failure, fx)
		return
	}
	g.body.gather()
	r.settle(g, sum.worst, nil, fx)
}

// fail ends the run by e, unless it has ended already, and p with it if that is the one to blame.
func (r *run) fail(p *part, e *Error, fx *effects) {
	first := r.failure == nil && !r.closing
	if first {
		r.failure, fx.more().cause = e, e
	}
	if p != nil && !p.settled.Load() {
		doom(p)
		r.settle(p, StateFailed, e, fx)
	}
	if first {
		r.settleAll(fx)
	}
}

// doom marks those who wait for p: they fail because of it.
func doom(p *part) {
	for w := p.waiters.head; w != nil; w = w.next {
		if w.who != nil && !w.who.doomed() {
			w.who.tell().doomed = true
			doom(w.who)
		}
	}
	if g := p.group(); g != nil {
		doom(g)
	}
}

// settleAll settles what has no outcome when the run ends.
func (r *run) settleAll(fx *effects) {
	r.shutAll()
	for _, p := range r.all {
		if !p.settled.Load() && p.kind != kindGroup { // a group is settled by its elements
			r.settleLost(p, fx)
		}
	}
}

// settleLost settles a part of a run that is over.
func (r *run) settleLost(p *part, fx *effects) {
	switch {
	case r.failure == nil:
		r.settle(p, StateUnused, nil, fx)
	case p.fate.CompareAndSwap(fateOpen, fateNever) || p.doomed():
		r.settle(p, StateSkipped, r.failure, fx)
	default:
		r.settle(p, StateCancelled, r.failure, fx)
	}
}

// lapse ends a part that did not do what it should, for the reason e.
func (r *run) lapse(p *part, e *Error, fx *effects) {
	switch {
	case !p.optional:
		r.fail(p, e, fx)
	case p.body.rescuable():
		r.giveUp(p, fx)
		p.err, p.tell().fell = e, fx.at(r)
		p.fallingBack, p.rescuing = true, true
		r.count(p)
		r.active++
		fx.more().rescues = append(fx.more().rescues, rescue{p, e})
	default:
		p.tell().fell = fx.at(r)
		p.body.useFallback()
		r.settle(p, StateFallback, e, fx)
	}
}

// notice ends the run if its context has ended. When the caller leaves, hard ends before soft.
func (r *run) notice(fx *effects) {
	hard := r.hard.Err()
	switch {
	case r.failure != nil || r.closing:
	case errors.Is(hard, context.Canceled):
		r.fail(nil, r.cancelled(), fx)
	case hard != nil || r.soft.Err() != nil:
		r.timeUp(fx)
		if hard != nil {
			r.endFallbacks(fx)
		}
	}
}

// cancelled is the failure of a run whose caller went away.
func (r *run) cancelled() *Error {
	return &Error{Run: r.name, Kind: Cancelled, Err: fmt.Errorf("cancelled by the caller: %w", causeOf(&r.hard))}
}

// timeUp ends the parts: the run by the required ones, or else the optional ones by their fallbacks.
func (r *run) timeUp(fx *effects) {
	var late, spare []*part
	for _, p := range r.all {
		switch {
		case p.settled.Load() || p.fallingBack || p.kind != kindPart:
		case p.optional:
			spare = append(spare, p)
		default:
			late = append(late, p)
		}
	}
	if len(late) == 0 {
		for _, p := range spare {
			r.lapse(p, r.late(p), fx)
		}
		return
	}
	e := r.late(late...)
	r.failure, fx.more().cause = e, e
	for _, p := range late {
		r.settle(p, StateFailed, e, fx)
	}
	r.settleAll(fx)
}

// late is the error of parts that were not done at the end of the run.
func (r *run) late(parts ...*part) *Error {
	e := &Error{Run: r.name, Part: parts[0].label(), Kind: TimedOut}
	for _, p := range parts[1:] {
		e.Also = append(e.Also, p.label())
	}
	var returned error
	if parts[0].err != nil {
		returned = parts[0].err.Err
	}
	e.Err = overLimit("run's", r.partsEnd, returned)
	return e
}

// endFallbacks is the very last moment: FallbackFuncs that still run are given up.
func (r *run) endFallbacks(fx *effects) {
	for _, p := range r.all {
		if p.fallingBack {
			p.body.useFallback()
			r.settle(p, StateFallback, p.err, fx)
		}
	}
}

// expire is called by the run's timer.
func (r *run) expire() {
	r.mu.Lock()
	fx := r.join()
	r.timeUp(&fx)
	if !r.closing {
		r.timer = time.AfterFunc(r.end-r.now(), r.endFn)
	}
	r.unlock(&fx)
}

// endFn ends the context of the run's function, after those of the parts.
func (r *run) endFn() {
	<-r.soft.Done() // its deadline is over, or just about to be
	r.cancel(r.limit)
}

// finish ends the run with the error of its function, waits for the parts and makes the report.
func (r *run) finish(err error) *Report {
	var fx effects
	r.mu.Lock()
	if err != nil && r.failure == nil {
		r.blame(err, &fx)
	}
	r.closing = true
	r.root.phase = phaseReturned
	r.count(&r.root)
	r.settleAll(&fx)
	if r.active > 0 {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.timer.Stop()
	r.unlock(&fx)

	r.cancel(errUnused) // of no effect if the run failed: that was the cause then
	r.await(idle)
	r.mu.Lock()
	r.closed = true
	rep := r.report()
	counts := r.countPartsLocked()
	r.all, r.names, r.batches, r.first = nil, nil, nil, [8]*part{} // a future that is kept does not keep the others
	r.mu.Unlock()
	r.free()
	r.measure(rep, counts)
	if r.onRun != nil {
		r.onRun(rep)
	}
	return rep
}

// blame makes the error of the run's function the failure of the run.
func (r *run) blame(err error, fx *effects) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if r.notice(fx); r.failure != nil {
			return
		}
	}
	e := &Error{Run: r.name, Kind: kindOf(err), Err: err}
	if errors.Is(r.hard.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		e.Err = overLimit("run's", r.end, err)
	}
	r.fail(nil, e, fx)
}

// await waits for the goroutines of the run, within its grace.
func (r *run) await(idle chan struct{}) {
	if idle == nil {
		return
	}
	wait := min(r.grace, r.end-r.now())
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
