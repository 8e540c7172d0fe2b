package dnscache

import "sync"

// line hands values to a function one after the other, from one goroutine at a time that runs only while there are some.
// Whoever adds a value never waits. When room values wait, the oldest is dropped.
type line[T any] struct {
	core *core
	room int
	fn   func(T)

	mu      sync.Mutex
	waiting []T
	running bool
	stopped bool
	dropped int
}

func newLine[T any](c *core, room int, fn func(T)) *line[T] {
	return &line[T]{core: c, room: room, fn: fn}
}

func (l *line[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if len(l.waiting) >= l.room {
		l.waiting = l.waiting[1:]
		l.dropped++
	}
	l.waiting = append(l.waiting, v)
	if !l.running {
		l.running = l.core.spawn(l.run)
	}
}

func (l *line[T]) run() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 || l.stopped {
			l.waiting, l.running = nil, false
			l.mu.Unlock()
			return
		}
		v := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		l.fn(v)
	}
}

// stop drops what waits. A call in progress goes on.
func (l *line[T]) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

func (l *line[T]) lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}
