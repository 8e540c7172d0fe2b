package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// errGroupFull is the cause when a dial found no place within its time, because of what other endpoints do.
var errGroupFull = errors.New("the client's limit of dials or open connections is reached")

// Group is what all pools of one client share: bounds on dials and on open sockets. A dial that finds the sockets used up
// closes the connection that has been idle longest, in whichever pool. Safe for concurrent use.
type Group struct {
	maxDials, maxOpen int

	lastID  atomic.Uint64 // of connections
	full    atomic.Bool   // no socket is left: nothing should be dialled ahead
	starved atomic.Bool   // dials are in line for want of sockets: nothing should become idle

	mu    sync.Mutex // a leaf: no other lock is taken under it
	dials int        // running
	open  int        // sockets open, and dials that may bring one
	line  list[*place]
	pools map[*Pool]struct{}
}

// A place is a dial in line for its turn.
type place struct {
	node node[*place]
	turn chan struct{} // closed when it has come
	full chan struct{} // holds a value when the open sockets are what it waits for
}

// NewGroup returns a Group.
func NewGroup(cfg GroupConfig) *Group {
	orDefault(&cfg.MaxDials, 256)
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = min(8192, fileLimit()/4*3)
	}
	return &Group{maxDials: cfg.MaxDials, maxOpen: cfg.MaxOpen, pools: make(map[*Pool]struct{})}
}

// Close closes every pool of the group, and returns when no goroutine or timer of them is left.
func (g *Group) Close() error {
	var wg sync.WaitGroup
	for _, p := range g.list() {
		wg.Go(func() { p.Close() })
	}
	wg.Wait()
	return nil
}

func (g *Group) list() []*Pool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pools := make([]*Pool, 0, len(g.pools))
	for p := range g.pools {
		pools = append(pools, p)
	}
	return pools
}

func (g *Group) join(p *Pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools[p] = struct{}{}
}

func (g *Group) leave(p *Pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pools, p)
}

// enter waits for its turn to dial. The caller must call dialEnded, and socketClosed when the socket is closed or none came.
func (g *Group) enter(ctx context.Context) error {
	w := g.queue()
	if w == nil {
		return nil
	}
	for {
		select {
		case <-w.turn:
			return nil
		case <-w.full:
			g.evict()
		case <-ctx.Done():
			if !g.quit(w) { // its turn came at the same moment
				g.dialEnded()
				g.socketClosed()
			}
			return errors.Join(errGroupFull, context.Cause(ctx))
		}
	}
}

// queue takes a place at once and returns nil, or joins the line.
func (g *Group) queue() *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.line.len == 0 && g.dials < g.maxDials && g.open < g.maxOpen {
		g.dials++
		g.open++
		g.nextLocked()
		return nil
	}
	w := &place{turn: make(chan struct{}), full: make(chan struct{}, 1)}
	w.node.of = w
	g.line.pushBack(&w.node)
	g.nextLocked()
	return w
}

func (g *Group) quit(w *place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := w.node.leave()
	g.nextLocked()
	return was
}

func (g *Group) dialEnded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dials--
	g.nextLocked()
}

func (g *Group) socketClosed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.nextLocked()
}

// nextLocked gives turns to those in line, as far as there are any, and notes how things stand.
func (g *Group) nextLocked() {
	for g.line.head != nil && g.dials < g.maxDials && g.open < g.maxOpen {
		w := g.line.head.of
		w.node.leave()
		g.dials++
		g.open++
		close(w.turn)
	}
	full := g.open >= g.maxOpen
	starved := full && g.line.head != nil
	g.full.Store(full)
	g.starved.Store(starved)
	if starved {
		select {
		case g.line.head.of.full <- struct{}{}:
		default: // it has not yet looked at the last one
		}
	}
}

// evict closes the connection that has been idle longest. Should there be none, the next that becomes idle is closed instead
// of kept, as long as a dial is in line.
func (g *Group) evict() {
	for {
		var victim *Pool
		var longest idleMark
		for _, p := range g.list() {
			if m := p.longestIdle(); m.before(longest) {
				victim, longest = p, m
			}
		}
		if victim == nil || victim.evict() {
			return
		}
	}
}
