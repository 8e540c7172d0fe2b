package balance

import (
	"sync"
	"sync/atomic"
)

// maxEvents bounds the ejections that wait while the hook does not return; the oldest are forgotten.
const maxEvents = 64

// events delivers ejections in order, one at a time, outside locks. They are added under Balancer.mu; whoever has left it
// delivers, unless somebody is at it: then that one goes on.
type events struct {
	hook  func(Ejection) // nil: nothing is kept
	ahead atomic.Int32   // len(queue), to be read without the lock

	mu     sync.Mutex
	idle   sync.Cond // busy has become false
	queue  []Ejection
	busy   bool // the hook runs
	closed bool
}

func (e *events) init(hook func(Ejection)) {
	e.hook = hook
	e.idle.L = &e.mu
}

func (e *events) add(event Ejection) {
	if e.hook == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if len(e.queue) == maxEvents {
		e.queue = e.queue[1:]
	}
	e.queue = append(e.queue, event)
	e.ahead.Store(int32(len(e.queue)))
}

func (e *events) deliver() {
	for e.ahead.Load() > 0 {
		event, ok := e.next()
		if !ok {
			return
		}
		e.call(event)
	}
}

func (e *events) next() (Ejection, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy || len(e.queue) == 0 {
		return Ejection{}, false
	}
	event := e.queue[0]
	e.queue = e.queue[1:]
	e.ahead.Store(int32(len(e.queue)))
	e.busy = true
	return event, true
}

func (e *events) call(event Ejection) {
	defer func() { // also if the hook panics
		e.mu.Lock()
		e.busy = false
		e.idle.Broadcast()
		e.mu.Unlock()
	}()
	e.hook(event)
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.queue = true, nil
	e.ahead.Store(0)
	for e.busy {
		e.idle.Wait()
	}
}
