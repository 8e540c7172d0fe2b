package facade

import (
	"container/list"
	"sync"
)

// Limit is a gate for parts that call the same back end, in one run or in many: at most Max of them are in it at a time.
// Give the same *Limit to each of them. A part that waits in Get has left the gate and comes in again before those that
// have not started.
//
// The gate counts functions that run. One that does not heed its context keeps its place until it returns, unlike its
// permit: what the limit protects is still in use.
//
// A Limit must not be copied after its first use.
type Limit struct {
	Max int // at least 1

	mu       sync.Mutex
	used     int
	resuming list.List
	starting list.List
}

// claimant is who waits for a place; granted is called under no lock.
type claimant interface{ granted() }

// place is a claimant's position in the line.
type place struct {
	of   claimant
	in   *list.List // nil: not waiting
	elem *list.Element
}

// take takes a place, or joins the line and reports false.
func (l *Limit) take(at *place, resuming bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used < l.Max {
		l.used++
		return true
	}
	at.in = &l.starting
	if resuming {
		at.in = &l.resuming
	}
	at.elem = at.in.PushBack(at)
	return false
}

// drop leaves the line. It reports false if a place was granted before.
func (l *Limit) drop(at *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.in == nil {
		return false
	}
	at.in.Remove(at.elem)
	at.in = nil
	return true
}

// free gives a place back, to the next in line if there is one.
func (l *Limit) free() {
	if c := l.next(); c != nil {
		c.granted()
	}
}

func (l *Limit) next() claimant {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range []*list.List{&l.resuming, &l.starting} {
		if e := line.Front(); e != nil {
			at := line.Remove(e).(*place)
			at.in = nil
			return at.of
		}
	}
	l.used--
	return nil
}
