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

func (c *cow[K, V]) get(k K) (V, bool) {
	m := c.current.Load()
	if m == nil {
		var none V
		return none, false
	}
	v, ok := (*m)[k]
	return v, ok
}

// add returns what is kept for k, which build makes if there is nothing yet. If there is no room for more than limit
// entries, it returns false.
func (c *cow[K, V]) add(k K, limit int, build func() V) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.get(k); ok {
		return v, true
	}
	old := c.current.Load()
	grown := make(map[K]V)
	if old != nil {
		if len(*old) >= limit {
			var none V
			return none, false
		}
		maps.Copy(grown, *old)
	}
	v := build()
	grown[k] = v
	c.current.Store(&grown)
	return v, true
}

func (c *cow[K, V]) full(limit int) bool {
	m := c.current.Load()
	return m != nil && len(*m) >= limit
}

// A value is an attribute's value as a number: an entry of a closed set or of a table of names.
type value = uint16

// The first two values of every table of names.
const (
	unnamed  value = iota // "_OTHER", because it was given no name
	overflow              // "_OTHER", because the table has no room: measurements with it count as folded
	firstName
)

// names numbers what stands in an attribute and comes from configuration: at most limit of them.
type names[T comparable] struct {
	limit int
	index cow[T, value]

	mu   sync.Mutex
	list []T // by value less firstName; guarded by mu
}

// value returns the number of v.
func (n *names[T]) value(v T) value {
	var none T
	if v == none {
		return unnamed
	}
	if i, ok := n.index.get(v); ok {
		return i
	}
	if n.index.full(n.limit) {
		return overflow
	}
	i, ok := n.index.add(v, n.limit, func() value {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.list = append(n.list, v)
		return firstName + value(len(n.list)-1)
	})
	if !ok {
		return overflow
	}
	return i
}

// known returns the number of v if it has one, else unnamed.
func (n *names[T]) known(v T) value {
	i, _ := n.index.get(v)
	return i
}

// name returns what i is the number of; false for "_OTHER".
func (n *names[T]) name(i value) (T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i < firstName || int(i-firstName) >= len(n.list) {
		var none T
		return none, false
	}
	return n.list[i-firstName], true
}
