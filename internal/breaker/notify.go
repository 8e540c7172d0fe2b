package breaker

import (
	"sync"
	"sync/atomic"
)

// maxQueue bounds the changes that wait while the hook does not return. The oldest are forgotten; the gap shows, since a
// change names both states.
const maxQueue = 64

// A notifier delivers changes in order, one at a time, outside locks. Changes are added under the core's mutex; whoever
// leaves that mutex delivers what has been added, unless somebody is at it: then that one goes on.
type notifier struct {
	hook  func(Change) // nil: nothing is kept
	ahead atomic.Int32 // len(queue), to be read without the lock

	mu     sync.Mutex
	idle   *sync.Cond // busy has become false
	queue  []Change
	busy   bool // a hook runs
	closed bool
}

func newNotifier(hook func(Change)) *notifier {
	n := &notifier{hook: hook}
	n.idle = sync.NewCond(&n.mu)
	return n
}

func (n *notifier) add(c Change) {
	if n.hook == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	if len(n.queue) == maxQueue {
		n.queue = n.queue[1:]
	}
	n.queue = append(n.queue, c)
	n.ahead.Store(int32(len(n.queue)))
}

// deliver calls the hook with what is in the queue.
func (n *notifier) deliver() {
	for n.ahead.Load() > 0 {
		c, ok := n.next()
		if !ok {
			return
		}
		n.call(c)
	}
}

// next takes the oldest change, and with it the right to call the hook.
func (n *notifier) next() (Change, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy || len(n.queue) == 0 {
		return Change{}, false
	}
	c := n.queue[0]
	n.queue = n.queue[1:]
	n.ahead.Store(int32(len(n.queue)))
	n.busy = true
	return c, true
}

func (n *notifier) call(c Change) {
	defer func() { // also if the hook panics
		n.mu.Lock()
		n.busy = false
		n.idle.Broadcast()
		n.mu.Unlock()
	}()
	n.hook(c)
}

// close forgets the queue and waits for the hook that runs.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.queue = true, nil
	n.ahead.Store(0)
	for n.busy {
		n.idle.Wait()
	}
}
