package facade

import (
	"sync/atomic"
	"time"
)

// effects are what a change of the run brings about outside: done by unlock, when the lock has been released. A part's
// goroutine has a small stack, and growing it costs more than all else here: hence rare things are kept apart, and waiters
// are signalled from unlock, not from deep below.
type effects struct {
	leaving bool // the goroutine was counted, and this is the last it does
	clocked bool
	now     time.Duration
	workers int
	woken   *waiter // linked by next
	rare    *rareEffects
}

type rareEffects struct {
	cause   error // cancels the contexts
	rescues []rescue
	gates   []*Limit
	reports []PartReport
}

// rescue is a FallbackFunc to be called.
type rescue struct {
	part *part
	why  *Error
}

// at is the time of this change: all its consequences happen at the same instant, and the clock is read once.
func (fx *effects) at(r *run) time.Duration {
	if !fx.clocked {
		fx.clocked, fx.now = true, r.now()
	}
	return fx.now
}

func (fx *effects) more() *rareEffects {
	if fx.rare == nil {
		fx.rare = &rareEffects{}
	}
	return fx.rare
}

// wake lets w's goroutine go on.
func (fx *effects) wake(w *waiter) {
	w.next = fx.woken
	fx.woken = w
}

// unlock starts what may start now, releases the lock and does what is pending.
func (r *run) unlock(fx *effects) {
	r.schedule(fx)
	if len(r.windows) > 0 && r.busy == 0 && r.queued == 0 {
		r.launchAll()
		r.schedule(fx)
	}
	if fx.leaving && fx.rare == nil {
		r.leave()
	}
	r.mu.Unlock()
	for range fx.workers {
		go r.work()
	}
	for w := fx.woken; w != nil; {
		next := w.next // once it has its signal it is the other goroutine's
		w.ch <- struct{}{}
		w = next
	}
	if fx.rare != nil {
		r.doRare(fx.rare)
		if fx.leaving {
			r.mu.Lock()
			r.leave()
			r.mu.Unlock()
		}
	}
}

func (r *run) doRare(fx *rareEffects) {
	if fx.cause != nil {
		r.cancel(fx.cause)
	}
	for _, f := range fx.rescues {
		go f.part.body.rescue(f.why)
	}
	for _, l := range fx.gates {
		l.free()
	}
	for _, rep := range fx.reports {
		r.observe(rep)
	}
}

// observe calls OnPart. A panic there would end the process on a goroutine that nobody can guard, so it fails the run.
func (r *run) observe(rep PartReport) {
	returned := false
	defer func() {
		if returned {
			return
		}
		e := &Error{Run: r.name, Part: rep.Name, Kind: Panicked, Err: panicked("OnPart", recover())}
		var fx effects
		r.mu.Lock()
		r.fail(nil, e, &fx)
		if r.failure == nil { // the run had its value already
			r.failure = e
		}
		r.unlock(&fx)
	}()
	r.onPart(rep)
	returned = true
}

// join counts the calling goroutine as one that the run has to wait for.
func (r *run) join() effects {
	r.active++
	return effects{leaving: true}
}

// leave is the last act of a counted goroutine.
func (r *run) leave() {
	r.active--
	if r.active == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// enqueue puts a part in line: for its limit, then for a permit.
func (r *run) enqueue(p *part) {
	r.queued++
	if l := p.limit(); l != nil {
		at := &place{of: p}
		p.tell().place = at
		if !l.take(at, false) {
			p.phase = phaseGated
			return
		}
		p.story.gate = true
	}
	p.phase = phaseQueued
	r.starting.push(p)
}

// granted is called when the limit has let the part in. See Limit.
func (p *part) granted() {
	r := p.run
	var fx effects
	r.mu.Lock()
	if p.phase == phaseGated {
		p.story.gate = true
		p.phase = phaseQueued
		r.starting.push(p)
	} else { // it left while the grant was on its way
		fx.more().gates = append(fx.more().gates, p.limit())
	}
	r.unlock(&fx)
}

// schedule hands out permits: first to those who resume, for they hold what others wait for.
func (r *run) schedule(fx *effects) {
	for r.running < r.permits {
		if w := r.resuming.head; w != nil {
			r.resuming.remove(w)
			r.readmit(w, fx)
			continue
		}
		p := r.starting.pop()
		switch {
		case p == nil:
			return
		case p.phase == phaseQueued: // else it was given up in the line
			r.launch(p, fx)
		}
	}
}

func (r *run) launch(p *part, fx *effects) {
	r.queued--
	r.running++
	r.active++
	p.permit = true
	p.phase = phaseRunning
	p.started = fx.at(r)
	r.count(p)
	r.ready.push(p)
	fx.workers++
}

// worker runs one of the parts that are ready. It takes no lock, since eight of them at once would queue for it.
func (r *run) worker() {
	p := r.ready.pop()
	if p.fate.CompareAndSwap(fateOpen, fateRuns) {
		p.body.exec()
	} else {
		r.dismiss(p)
	}
}

// dismiss ends the goroutine of a part that was given up before it began.
func (r *run) dismiss(p *part) {
	fx := effects{leaving: true}
	r.mu.Lock()
	r.returned(p, &fx)
	r.unlock(&fx)
}

// count keeps run.busy true: it counts p while p can make others happen.
func (r *run) count(p *part) {
	live := (p.phase == phaseRunning || p.fallingBack) && !p.parked()
	if live == p.busy {
		return
	}
	p.busy = live
	if live {
		r.busy++
	} else {
		r.busy--
	}
}

// rest frees what a part holds while it does not run.
func (r *run) rest(p *part, fx *effects) {
	if p.permit {
		p.permit = false
		r.running--
	}
	if s := p.story; s != nil && s.gate {
		s.gate = false
		fx.more().gates = append(fx.more().gates, p.limit())
	}
}

// giveUp means that nobody counts on p's function any more. A function that runs keeps its place in the limit, since what
// the limit protects is still in use; but not its permit, or hung functions would stop the run.
func (r *run) giveUp(p *part, fx *effects) {
	switch p.phase {
	case phaseRunning:
		p.phase = phaseGivenUp
		if p.permit {
			p.permit = false
			r.running--
		}
	case phaseGated:
		r.queued--
		p.phase = phaseReturned
		p.limit().drop(p.story.place) // if it was let in at this moment, granted gives the place back
		p.started = fx.at(r)
	case phaseQueued:
		r.queued--
		p.phase = phaseReturned
		r.rest(p, fx)
		p.started = fx.at(r)
	case phaseOpen:
		p.phase = phaseReturned
		p.started = fx.at(r)
	}
	r.count(p)
}

// returned notes that p's function has.
func (r *run) returned(p *part, fx *effects) {
	if p.phase == phaseGivenUp && (p.state == StateCancelled || p.state == StateUnused) {
		p.ended = fx.at(r)
	}
	p.phase = phaseReturned
	r.rest(p, fx)
	r.count(p)
}

// partLine is a queue of parts, linked through part.next.
type partLine struct{ head, tail *part }

func (l *partLine) push(p *part) {
	p.next = nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.next = p
	}
	l.tail = p
}

func (l *partLine) pop() *part {
	p := l.head
	if p == nil {
		return nil
	}
	l.head = p.next
	if l.head == nil {
		l.tail = nil
	}
	p.next = nil
	return p
}

// partStack is where launched parts wait for their goroutines. Each part is pushed once in its life.
type partStack struct{ top atomic.Pointer[part] }

func (s *partStack) push(p *part) {
	for {
		p.next = s.top.Load()
		if s.top.CompareAndSwap(p.next, p) {
			return
		}
	}
}

// pop must not be called more often than push.
func (s *partStack) pop() *part {
	for {
		p := s.top.Load()
		if s.top.CompareAndSwap(p, p.next) {
			return p
		}
	}
}
