package client

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// openCalls knows every call that has not ended, and whether new ones may begin.
type openCalls struct {
	mu      sync.Mutex
	closed  error         // why no call may begin; nil while they may
	open    int           // calls begun and not ended
	nothing chan struct{} // closed when, after closed was set, none is open
	final   bool          // Shutdown has returned: no hook may run any more
}

// callList is one upstream's part of it: its open calls, oldest first, and how the ended ones ended.
type callList struct {
	oldest, newest *call         // guarded by openCalls.mu
	open           int           // guarded by openCalls.mu
	nothing        chan struct{} // after remove: closed when none is open; guarded by openCalls.mu
	ended          [numReasons]atomic.Uint64
}

// errRemoved is why no call may begin at an upstream that a Reload has removed.
var errRemoved = errors.New("upstream removed")

// begin enters a call, or returns why it may not begin.
func (o *openCalls) begin(c *call) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed != nil {
		return o.closed
	}
	l := &c.up.calls
	if l.nothing != nil {
		return errRemoved
	}
	o.open++
	l.open++
	c.prev = l.newest
	if l.newest == nil {
		l.oldest = c
	} else {
		l.newest.next = c
	}
	l.newest = c
	c.entered = true
	return nil
}

// end removes a call and counts its reason.
func (o *openCalls) end(c *call, reason Reason) {
	if c.up == nil {
		return
	}
	l := &c.up.calls
	l.ended[reason].Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !c.entered {
		return
	}
	c.entered = false
	l.open--
	if c.prev == nil {
		l.oldest = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.newest = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	if l.nothing != nil && l.open == 0 {
		close(l.nothing)
	}
	o.open--
	o.noticeLocked()
}

// remove lets no further call begin at an upstream, and returns a channel that is closed when none is open there.
func (o *openCalls) remove(up *upstream) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &up.calls
	l.nothing = make(chan struct{})
	if l.open == 0 {
		close(l.nothing)
	}
	return l.nothing
}

// refusal returns why no call may begin; nil while they may.
func (o *openCalls) refusal() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// close lets no further call begin, for the reason given, and returns a channel that is closed when none is open.
func (o *openCalls) close(why error) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = why
	if o.nothing == nil {
		o.nothing = make(chan struct{})
	}
	o.noticeLocked()
	return o.nothing
}

func (o *openCalls) noticeLocked() {
	if o.nothing == nil || o.open > 0 {
		return
	}
	select {
	case <-o.nothing:
	default:
		close(o.nothing)
	}
}

// state returns the number of an upstream's open calls, and the age of the oldest.
func (o *openCalls) state(up *upstream, now time.Time) (open int, oldest time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first := up.calls.oldest; first != nil {
		oldest = now.Sub(first.start)
	}
	return up.calls.open, oldest
}

// of returns an upstream's open calls.
func (o *openCalls) of(up *upstream) []*call {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := make([]*call, 0, up.calls.open)
	for c := up.calls.oldest; c != nil; c = c.next {
		calls = append(calls, c)
	}
	return calls
}

// finish ends the hooks too, and returns how many calls are left behind.
func (o *openCalls) finish() (left int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.final = ErrClosed, true
	return o.open
}

// mayTell reports whether a hook may still run.
func (o *openCalls) mayTell() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.final
}
