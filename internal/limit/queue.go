package limit

// A waiter is a caller in the queue. All fields but the channel are guarded by Limit.mu until it is closed.
type waiter struct {
	next, prev *waiter
	queued     bool
	outcome    Outcome
	decided    chan struct{} // closed when the outcome is known
}

func (w *waiter) decide(o Outcome) {
	w.outcome = o
	close(w.decided)
}

// A queue is a list of waiters in the order of their coming. Whoever leaves takes itself out, at the same cost wherever
// it stands, and leaves nothing behind.
type queue struct {
	first, last *waiter
	length      int
}

func (q *queue) push(w *waiter) {
	w.queued, w.prev = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.length++
}

// pop takes the first waiter out; there must be one.
func (q *queue) pop() *waiter {
	w := q.first
	q.remove(w)
	return w
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
	q.length--
}
