package facade

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const defaultShareTimeout = 30 * time.Second

// Share lets parts of different runs wait for one call: those with the same name, an equal Key and the same partition that
// are under way at the same moment. Declare it once, where all these runs can reach it. Nothing finished is kept.
//
// The call belongs to nobody. It runs on a context with the values of the part that began it, but without that part's end,
// and is cancelled when the last part that waits for it has left. It must not wait for futures of a run. Whoever waits
// gets the same value: it must not be changed.
//
// A Share must not be copied after its first use.
type Share[T any] struct {
	// Partition says who may see the answer, a user or tenant for example; required. Calls are never shared between two
	// partitions. For answers that are everybody's return "".
	Partition func(context.Context) string

	// Timeout bounds the call. Zero means 30 s.
	Timeout time.Duration

	mu    sync.Mutex
	calls map[shareKey]*flight[T]
}

type shareKey struct {
	partition, name string
	key             any
}

// sharedCall is the node of a context in a shared call: what it notes goes to all who wait.
type sharedCall struct {
	mu    sync.Mutex
	notes []slog.Attr
}

type flight[T any] struct {
	sharedCall
	ctx     context.Context
	cancel  context.CancelFunc
	leave   context.CancelCauseFunc
	members int // guarded by Share.mu

	done  chan struct{}
	value T     // written before done is closed
	err   error // likewise
}

// join waits for p's call, and begins it if nobody has.
func (s *Share[T]) join(p *part, fn func(context.Context) (T, error)) (T, error) {
	key := shareKey{s.Partition(p), p.name, p.key()}
	if p.Err() != nil {
		var zero T
		return zero, causeOf(p)
	}
	c, began := s.enter(p, key)
	if began {
		go s.fly(c, key, fn)
	}
	select {
	case <-c.done:
	case <-p.Done():
		if s.exit(c, key) {
			c.leave(context.Cause(p))
			<-c.done // this part began to own the call when all others had left
		}
		var zero T
		return zero, causeOf(p)
	}
	p.run.annotate(p, c.noted(), !began)
	return c.value, c.err
}

func (s *Share[T]) enter(p *part, key shareKey) (c *flight[T], began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.calls[key]
	if c == nil {
		c, began = s.newFlight(p), true
		if s.calls == nil {
			s.calls = make(map[shareKey]*flight[T])
		}
		s.calls[key] = c
	}
	c.members++
	return c, began
}

func (s *Share[T]) newFlight(p *part) *flight[T] {
	c := &flight[T]{done: make(chan struct{})}
	limit := s.limit()
	c.ctx, c.cancel = context.WithTimeoutCause(context.WithoutCancel(p), limit, &limitError{whose: "shared call's", limit: limit})
	c.ctx, c.leave = context.WithCancelCause(c.ctx)
	return c
}

func (s *Share[T]) limit() time.Duration {
	if s.Timeout == 0 {
		return defaultShareTimeout
	}
	return s.Timeout
}

// exit reports whether the part that leaves was the last: the call is then no longer to be found.
func (s *Share[T]) exit(c *flight[T], key shareKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.members--
	if c.members > 0 {
		return false
	}
	s.forget(c, key)
	return true
}

func (s *Share[T]) forget(c *flight[T], key shareKey) {
	if s.calls[key] == c {
		delete(s.calls, key)
	}
}

// fly makes the call. Its goroutine is waited for by those who wait for the value, or by the last who left.
func (s *Share[T]) fly(c *flight[T], key shareKey, fn func(context.Context) (T, error)) {
	returned := false
	defer func() {
		if !returned {
			c.err = panicked(key.name, recover())
		}
		if c.err != nil && errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
			c.err = overLimit("shared call's", s.limit(), c.err)
		}
		s.mu.Lock()
		s.forget(c, key)
		s.mu.Unlock()
		c.cancel()
		close(c.done)
	}()
	c.value, c.err = fn(node{c.ctx, &c.sharedCall})
	returned = true
}
