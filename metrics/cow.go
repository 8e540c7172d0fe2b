package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A cow is a map that is copied on write: readers take no lock. It only grows, and its users bound it.
type cow[K comparable, V any] struct {
	current atomic.Pointer[map[K]V]
	mu      sync.Mutex // held while current is replaced
}

// all is the map at this moment. It is not changed any more.
func (c *cow[K, V]) all() map[K]V {
	if m := c.current.Load(); m != nil {
		return *m
	}
	return nil
}

func (c *cow[K, V]) get(k K) (V, bool) {
	v, ok := c.all()[k]
	return v, ok
}

// add returns what is kept for k, which build makes if there is nothing yet: it is told how many entries came before. If
// there is no room for more than limit entries, it returns false.
func (c *cow[K, V]) add(k K, limit int, build func(n int) V) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.get(k); ok {
		return v, true
	}
	old := c.all()
	if len(old) >= limit {
		var none V
		return none, false
	}
	v := build(len(old))
	grown := make(map[K]V, len(old)+1)
	maps.Copy(grown, old)
	grown[k] = v
	c.current.Store(&grown)
	return v, true
}

func (c *cow[K, V]) full(limit int) bool { return len(c.all()) >= limit }

// A value is an attribute's value as a number: an entry of a closed set or of a table of names.
type value = uint16

// The first two values of every table of names.
const (
	unnamed  value = iota // "_OTHER", because it was given no name
	overflow              // "_OTHER", because the table has no room: measurements with it count as folded
	firstName
)

// names numbers what stands in an attribute and comes from configuration: at most limit of them, after the first two and
// the skip numbers that belong to others.
type names[T comparable] struct {
	cow[T, value]
	limit, skip int
}

// value returns the number of v.
func (n *names[T]) value(v T) value {
	var none T
	if v == none {
		return unnamed
	}
	if i := n.known(v); i != unnamed {
		return i
	}
	i, _ := n.add(v, n.limit, func(before int) value { return firstName + value(n.skip+before) })
	return or(i, overflow)
}

// known returns the number of v if it has one. Else, if there is room, v was never given one; if there is none, it may have
// been turned away.
func (n *names[T]) known(v T) value {
	all := n.all()
	i, ok := all[v]
	if !ok && len(all) >= n.limit {
		return overflow
	}
	return i
}

// name returns what i is the number of; false for "_OTHER". It searches, as an attribute set is spelt out only once.
func (n *names[T]) name(i value) (T, bool) {
	for v, number := range n.all() {
		if number == i {
			return v, true
		}
	}
	var none T
	return none, false
}
