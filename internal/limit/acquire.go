package limit

import (
	"context"
	"time"
)

// Outcome is what became of a wish for a slot.
type Outcome uint8

const (
	Granted  Outcome = iota // the caller holds a slot
	Full                    // no slot free, and the queue is full or the caller would not wait
	TimedOut                // the caller waited as long as it was willing to
	Canceled                // its context ended first
	Closed                  // the queue was closed
	Queued                  // only in Result.Would: it would have had to wait
)

// String returns the outcome's name in lower case, such as "timed_out".
func (o Outcome) String() string {
	return [...]string{"granted", "full", "timed_out", "canceled", "closed", "queued"}[o]
}

// Result tells what Acquire did.
type Result struct {
	Outcome Outcome
	Limit   int           // slots, when the call came
	Ahead   int           // callers that were waiting then
	Waited  time.Duration // time spent in the queue
	Would   Outcome       // in a dry run: what the outcome would have been; Granted otherwise
}

// Acquire takes a slot, or waits for one until wait has passed or ctx ends; with a wait of 0 or less it does not wait.
// After Granted, and only then, the caller must call Release once. A slot may be granted in the moment in which ctx ends.
func (l *Limit) Acquire(ctx context.Context, wait time.Duration) Result {
	r, w := l.enter(wait > 0)
	if w == nil {
		return r
	}
	start := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.decided:
		r.Outcome = w.outcome
	case <-ctx.Done():
		r.Outcome = l.leave(w, Canceled)
	case <-timer.C:
		r.Outcome = l.leave(w, TimedOut)
	}
	r.Waited = time.Since(start)
	return r
}

// enter takes a free slot or a place in the queue; the waiter is nil if the outcome is certain already.
func (l *Limit) enter(mayWait bool) (Result, *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := l.slotsLocked()
	r := Result{Limit: slots, Ahead: l.queue.length}
	switch {
	case l.inFlight < slots:
		l.takeLocked()
	case l.cfg.Shadow:
		r.Would, r.Ahead = l.wouldLocked(slots, mayWait)
		l.takeLocked()
	case l.closed:
		r.Outcome = Closed
	case !mayWait || l.queue.length >= l.cfg.Queue:
		r.Outcome = Full
	default:
		w := &waiter{decided: make(chan struct{})}
		l.queue.push(w)
		return r, w
	}
	return r, nil
}

// wouldLocked is the answer of a limit that is no dry run: the calls beyond the slots stand for its queue.
func (l *Limit) wouldLocked(slots int, mayWait bool) (Outcome, int) {
	ahead := l.inFlight - slots
	if mayWait && !l.closed && ahead < l.cfg.Queue {
		return Queued, ahead
	}
	return Full, min(ahead, l.cfg.Queue)
}

// leave takes a waiter out of the queue, unless it has been decided already: then that is the outcome.
func (l *Limit) leave(w *waiter, o Outcome) Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.queued {
		l.queue.remove(w)
		w.outcome = o
	}
	return w.outcome
}

// Release gives a slot back. It goes to the first who waits.
func (l *Limit) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.grantLocked()
}

// grantLocked gives the free slots to those who wait.
func (l *Limit) grantLocked() {
	for l.queue.length > 0 && (l.inFlight < l.slotsLocked() || l.cfg.Shadow) {
		l.takeLocked()
		l.queue.pop().decide(Granted)
	}
}

func (l *Limit) takeLocked() {
	l.inFlight++
	l.peak = max(l.peak, l.inFlight)
}
