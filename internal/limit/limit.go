package limit

import (
	"sync"
	"time"
)

// Config holds the settings of a limit.
type Config struct {
	Max      int       // slots
	Queue    int       // callers that may wait; 0 is none
	Adaptive *Adaptive // nil: the number of slots is Max. It is only read
	Shadow   bool      // grant everything, and tell what would have been refused
}

// A Limit is a number of slots and a queue for them. It must be made by [New]. It is safe for concurrent use.
type Limit struct {
	mu       sync.Mutex
	cfg      Config
	gradient *gradient // nil unless adaptive
	inFlight int
	peak     int // of inFlight, since the gradient's last step
	queue    queue
	closed   bool
}

// New returns a limit with all slots free.
func New(cfg Config) *Limit {
	l := &Limit{}
	l.configureLocked(cfg)
	return l
}

// Configure changes the settings in place. A smaller limit takes no slot away, it waits for calls to end; of a larger one
// those who wait profit at once. What was learnt of the upstream's time stays.
func (l *Limit) Configure(cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configureLocked(cfg)
	l.grantLocked()
}

func (l *Limit) configureLocked(cfg Config) {
	l.cfg = cfg
	switch {
	case cfg.Adaptive == nil:
		l.gradient = nil
	case l.gradient == nil:
		l.gradient = newGradient(*cfg.Adaptive)
	default:
		l.gradient.configure(*cfg.Adaptive)
	}
}

// Observe tells how an attempt went, which is what moves an adaptive limit; otherwise it does nothing. Attempts that say
// nothing about the upstream, such as cancelled ones, are not told.
func (l *Limit) Observe(s Sample, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gradient == nil {
		return
	}
	if l.gradient.observe(s, l.peak, now) {
		l.peak = l.inFlight
		l.grantLocked()
	}
}

// Close ends the queue: those who wait are refused, and nobody may wait from now on. Free slots are given as before.
func (l *Limit) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.queue.length > 0 {
		l.queue.pop().decide(Closed)
	}
}

// Stats is a picture of a limit.
type Stats struct {
	Limit    int           // slots, at this moment
	InFlight int           // slots taken; more than Limit after it was lowered, and in a dry run
	Waiting  int           // callers in the queue
	Baseline time.Duration // adaptive: the time to headers that is held for normal; 0: not known
}

// Stats returns a consistent picture.
func (l *Limit) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Limit: l.slotsLocked(), InFlight: l.inFlight, Waiting: l.queue.length}
	if l.gradient != nil {
		s.Baseline = l.gradient.baseline()
	}
	return s
}

func (l *Limit) slotsLocked() int {
	if l.gradient != nil {
		return l.gradient.slots()
	}
	return l.cfg.Max
}
