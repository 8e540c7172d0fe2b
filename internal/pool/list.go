package pool

// A list is a doubly linked list whose nodes live inside what they list, so that joining it costs no allocation and
// leaving it, from anywhere, costs the same as leaving from the front.
type list[T any] struct {
	head, tail *node[T]
	len        int
}

// A node is in one list or in none.
type node[T any] struct {
	prev, next *node[T]
	in         *list[T]
	of         T
}

func (l *list[T]) pushFront(n *node[T]) {
	n.in, n.prev, n.next = l, nil, l.head
	if l.head != nil {
		l.head.prev = n
	} else {
		l.tail = n
	}
	l.head = n
	l.len++
}

func (l *list[T]) pushBack(n *node[T]) {
	n.in, n.prev, n.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = n
	} else {
		l.head = n
	}
	l.tail = n
	l.len++
}

// leave takes n out of its list, and reports whether it was in one.
func (n *node[T]) leave() bool {
	l := n.in
	if l == nil {
		return false
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.head = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.tail = n.prev
	}
	n.in, n.prev, n.next = nil, nil, nil
	l.len--
	return true
}
