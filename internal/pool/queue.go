package pool

import "sync"

const (
	maxQueued = 4096 // events kept while OnEvent does not return; more are lost, and counted
	maxInARow = 256  // events one goroutine delivers for others before it hands the rest over
)

// An eventQueue takes events under the pool's lock and delivers them outside it: in order, one at a time, on the goroutines
// that cause them. A nil queue is one that nobody listens to.
type eventQueue struct {
	listener  func(Event)
	connsOnly bool

	mu         sync.Mutex // a leaf
	seq        uint64
	queued     []Event
	spare      []Event // the last batch, to be used again
	delivering bool
	lost       uint64
}

func newEventQueue(listener func(Event), connsOnly bool) *eventQueue {
	if listener == nil {
		return nil
	}
	return &eventQueue{listener: listener, connsOnly: connsOnly}
}

// wants reports whether the listener is told of events of this kind.
func (q *eventQueue) wants(k EventKind) bool {
	return q != nil && !(q.connsOnly && (k == EventAcquired || k == EventResent || k == EventWaitEnded))
}

// add appends an event. Somebody must call deliver afterwards.
func (q *eventQueue) add(e Event) {
	if !q.wants(e.Kind) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seq++
	e.Seq = q.seq
	if len(q.queued) >= maxQueued {
		q.lost++
		return
	}
	q.queued = append(q.queued, e)
}

func (q *eventQueue) pending() bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued) > 0 && !q.delivering
}

func (q *eventQueue) lostCount() uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// deliver tells the listener what is queued, unless another goroutine is doing that already. It reports whether it stopped
// before the end, having done its share.
func (q *eventQueue) deliver() (more bool) {
	if q == nil {
		return false
	}
	told := 0
	for batch := q.take(nil); len(batch) > 0; batch = q.take(batch) {
		q.tell(batch)
		if told += len(batch); told > maxInARow {
			return q.stop(batch)
		}
	}
	return false
}

// take gives the last batch back and takes the next, which is the right to deliver; nil ends that right.
func (q *eventQueue) take(done []Event) []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done == nil && q.delivering {
		return nil
	}
	q.recycleLocked(done)
	batch := q.queued
	q.delivering = len(batch) > 0
	if q.delivering {
		q.queued, q.spare = q.spare, nil
	}
	return batch
}

func (q *eventQueue) stop(done []Event) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recycleLocked(done)
	q.delivering = false
	return len(q.queued) > 0
}

func (q *eventQueue) recycleLocked(done []Event) {
	if done != nil {
		clear(done) // events hold errors
		q.spare = done[:0]
	}
}

func (q *eventQueue) tell(batch []Event) {
	whole := false
	defer func() {
		if !whole { // a panic of the listener goes on; the next event finds the queue in order
			q.stop(batch)
		}
	}()
	for _, e := range batch {
		q.listener(e)
	}
	whole = true
}

// deliver tells what is queued, and leaves what is too much for one call to a goroutine of the pool.
func (p *Pool) deliver() {
	if p.events.deliver() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.goLocked(p.deliver)
	}
}

// deliverLaterLocked is for callers that must not run a listener, as they hold locks of net/http.
func (p *Pool) deliverLaterLocked() {
	if p.events.pending() {
		p.goLocked(p.deliver)
	}
}
