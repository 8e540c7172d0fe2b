package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// drainLongest is how long what has been taken out of service may still run before it is closed (client.md, 2).
const drainLongest = 5 * time.Minute

// A usage counts the attempts at an endpoint, so that its connections are closed when the last one has ended and not before.
type usage struct {
	running atomic.Int64
	retired atomic.Bool
	ended   sync.Once
	last    chan struct{} // closed when it is retired and nothing runs
}

// enter counts an attempt; false: the endpoint is retired, and none may begin.
func (u *usage) enter() bool {
	u.running.Add(1)
	if u.retired.Load() {
		u.leave()
		return false
	}
	return true
}

func (u *usage) leave() {
	if u.running.Add(-1) == 0 && u.retired.Load() {
		u.end()
	}
}

// retire lets nothing begin any more, and returns a channel that is closed when nothing runs.
func (u *usage) retire() <-chan struct{} {
	u.retired.Store(true)
	if u.running.Load() == 0 {
		u.end()
	}
	return u.last
}

func (u *usage) end() { u.ended.Do(func() { close(u.last) }) }

// any reports whether an attempt runs.
func (u *usage) any() bool { return u.running.Load() > 0 }

// retired are the endpoints of an upstream that get no attempt any more and are not closed yet.
type retired struct {
	mu        sync.Mutex
	endpoints []*endpoint
}

func (r *retired) add(ep *endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints = append(r.endpoints, ep)
}

func (r *retired) remove(ep *endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints = slices.DeleteFunc(r.endpoints, func(other *endpoint) bool { return other == ep })
}

func (r *retired) list() []*endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.endpoints)
}

// retire ends an endpoint that no pick finds any more: its idle connections at once, in the background, since that can wait for
// the peer, and the rest when the attempts that run there have ended.
func (c *Client) retire(ep *endpoint) {
	ended := ep.attempts.retire()
	gone := &ep.cluster.core.retired
	gone.add(ep)
	c.background.Go(func() {
		defer gone.remove(ep)
		if ep.pool != nil {
			ep.pool.Quiet()
			ep.pool.CloseIdle()
		}
		c.outlast(ended)
		ep.close()
		if !ep.succeeded {
			ep.gate.close()
		}
	})
}

// outlast waits for something to end by itself, for as long as it may take, and no longer than the client lives.
func (c *Client) outlast(ended <-chan struct{}) {
	timer := time.NewTimer(drainLongest)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-c.closing:
	}
}
