package dnscache

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sortie-go/sortie/metrics"
)

const (
	// How many lookups run at a time: of names that have an answer, of names that have none, and, with System, on the
	// platform's threads. The next waits for its turn.
	maxRefreshes = 64
	maxLookups   = 256
	maxThreads   = 64
)

// core is a Resolver at work.
type core struct {
	cfg    settings
	ctx    context.Context // of all questions; ends at close
	cancel context.CancelCauseFunc

	names   sync.Map           // canonical name to *entry
	passing singleflight.Group // names that find no room in the table
	files   *confFiles
	servers serverTable
	health  healthTable
	stats   counters
	metrics *metrics.Resolver // nil: off
	events  *line[Event]
	clock   wallClock

	refreshes, lookups, threads places

	life   sync.Mutex // guards closed, and additions to work
	closed bool
	once   sync.Once      // close
	work   sync.WaitGroup // everything that close waits for

	mu      sync.Mutex // guards the table below; nothing else is locked under it
	entries []*entry
	ticker  *time.Timer // nil while there are no entries
	again   *time.Timer // the second look after a change of configuration
}

func newCore(cfg settings, hooks testHooks) *core {
	// The context is that of detached work: lookups outlive the callers who asked for them, and end at Close.
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &core{
		cfg: cfg, ctx: ctx, cancel: cancel,
		files:     newConfFiles(or(hooks.resolvConf, "/etc/resolv.conf"), or(hooks.hosts, "/etc/hosts")),
		refreshes: make(places, maxRefreshes), lookups: make(places, maxLookups), threads: make(places, maxThreads),
		clock: newWallClock(hooks.wallOffset), metrics: cfg.metrics.Resolver(),
	}
	c.cfg.routed = hasRoute
	if hooks.routed != nil {
		c.cfg.routed = hooks.routed
	}
	if hooks.systemLookup != nil {
		c.cfg.systemLookup = hooks.systemLookup
	}
	if cfg.onEvent != nil {
		c.events = newLine(c, maxEvents, cfg.onEvent)
	}
	return c
}

// hasRoute reports whether this machine has a route to addr. Connecting a UDP socket sends no packet.
func hasRoute(addr netip.Addr) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// lookup looks up a canonical name. The entry is nil if the name was not kept.
func (c *core) lookup(ctx context.Context, name string, maxStale time.Duration) (*snapshot, *entry, error) {
	for {
		e, err := c.entryFor(name)
		if err != nil {
			return nil, nil, newError(name, Closed, "", err, time.Time{})
		}
		if e == nil {
			s, err := c.pass(ctx, name)
			return s, nil, err
		}
		if s, err := e.read(ctx, maxStale); !errors.Is(err, errGone) {
			return s, e, err
		}
	}
}

// pass looks up a name for which there is no room. Callers who ask at the same time share one lookup, which outlives
// those who leave.
func (c *core) pass(ctx context.Context, name string) (*snapshot, error) {
	shared := c.passing.DoChan(name, func() (any, error) {
		if !c.enter() {
			return nil, newError(name, Closed, "", ErrClosed, time.Time{})
		}
		defer c.work.Done()
		e := newEntry(c, name)
		s, err := e.read(c.ctx, 0)
		e.stop()
		e.wait()
		if c.isClosed() {
			return nil, newError(name, Closed, "", ErrClosed, time.Time{})
		}
		return s, err
	})
	select {
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*snapshot), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// placesFor returns the bound under which a question for e runs.
func (c *core) placesFor(e *entry) places {
	for _, r := range e.recs {
		if r != nil && r.value.Peek().Value != nil {
			return c.refreshes
		}
	}
	return c.lookups
}

// enter registers work that close has to wait for; false after close.
func (c *core) enter() bool {
	c.life.Lock()
	defer c.life.Unlock()
	if c.closed {
		return false
	}
	c.work.Add(1)
	return true
}

// spawn runs fn in a goroutine that close waits for. After close it runs nothing and reports false.
func (c *core) spawn(fn func()) bool {
	if !c.enter() {
		return false
	}
	go func() {
		defer c.work.Done()
		fn()
	}()
	return true
}

func (c *core) isClosed() bool {
	c.life.Lock()
	defer c.life.Unlock()
	return c.closed
}

func (c *core) close() {
	c.once.Do(func() {
		c.life.Lock()
		c.closed = true
		c.life.Unlock()
		c.cancel(ErrClosed)
		entries := c.clear()
		for _, e := range entries {
			e.stop()
		}
		for _, e := range entries {
			e.wait()
		}
		c.work.Wait()
	})
}

// checkFiles looks at resolv.conf and hosts when it is time.
func (c *core) checkFiles(now time.Time) {
	if c.files.changed(now) {
		c.networkChanged(now)
	}
}

// networkChanged makes everything due. It happens again when package net has surely read the new resolv.conf: until
// then answers may still come from the old servers.
func (c *core) networkChanged(now time.Time) {
	c.renew(now)
	c.event(Event{Kind: EventConfigChanged, Time: now})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.again != nil {
		c.again.Stop()
	}
	c.again = time.AfterFunc(netLag, func() {
		if c.enter() {
			defer c.work.Done()
			c.renew(time.Now())
		}
	})
}

func (c *core) renew(now time.Time) {
	c.servers.forget()
	for _, e := range c.all() {
		e.renew(now)
	}
}

// wallClock notices when the wall clock runs ahead of the monotonic one, which stands still while the machine sleeps.
type wallClock struct {
	offset *atomic.Int64 // tests move the wall clock with it; nil in earnest

	mu   *sync.Mutex
	wall time.Time // without a monotonic reading
	mono time.Time
}

// maxDrift is how far the clocks may be apart before it counts as a step.
const maxDrift = 2 * time.Second

func newWallClock(offset *atomic.Int64) wallClock {
	w := wallClock{offset: offset, mu: new(sync.Mutex)}
	w.wall, w.mono = w.read()
	return w
}

func (w *wallClock) read() (wall, mono time.Time) {
	now := time.Now()
	wall = now.Round(0)
	if w.offset != nil {
		wall = wall.Add(time.Duration(w.offset.Load()))
	}
	return wall, now
}

// step returns by how much the wall clock has run ahead since the last call, if that is more than a drift. A wall clock
// set back is none: what is old does not get younger.
func (w *wallClock) step() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wall, mono := w.read()
	ahead := wall.Sub(w.wall) - mono.Sub(w.mono)
	w.wall, w.mono = wall, mono
	if ahead <= maxDrift {
		return 0
	}
	return ahead
}

// checkClock ages all records by what the machine has slept.
func (c *core) checkClock() {
	step := c.clock.step()
	if step == 0 {
		return
	}
	c.event(Event{Kind: EventClockStep, Time: time.Now(), Step: step})
	for _, e := range c.all() {
		e.age(step)
	}
}
