package dnscache

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// Resolver looks up host names and remembers what it was told. The zero value works, with the defaults given here; no
// field may change after first use. It is safe for concurrent use. It holds timers while it knows names: Close ends them.
type Resolver struct {
	Mode   Mode   // which full names are asked for
	Family Family // which addresses

	// Servers are asked instead of those of resolv.conf: try k of a question goes to server k mod n, each at most twice.
	// They know nothing of the search list, so Auto is Absolute with them.
	Servers []netip.AddrPort

	// System leaves the question to the platform's own resolver (getaddrinfo, mDNS, sssd), for sources that package net's
	// does not know. No TTL is told then: DefaultTTL holds. A lookup that is given up may keep its thread until the
	// platform lets go of it; at most 64 run at a time.
	System bool

	MinTTL     time.Duration // a shorter TTL counts as this; 5 s
	MaxTTL     time.Duration // a longer one as this; 5 min
	ZeroTTL    time.Duration // life of an answer whose TTL is 0; 1 s
	DefaultTTL time.Duration // life of an answer without a TTL; 30 s

	// MaxStale is how long past its end an address is given out while DNS does not answer: 1 h, -1 not at all.
	MaxStale time.Duration

	// Hold is how long the last addresses are kept while DNS answers that there are none: 30 s, -1 not at all, at most 1 h.
	Hold time.Duration

	IdleExpiry    time.Duration // a name that nobody asks for is forgotten so long after its end; 5 min
	QueryTimeout  time.Duration // how long one server is waited for, twice as long over TCP; 1 s
	LookupTimeout time.Duration // bound of a whole lookup; 5 s

	Jitter   float64 // share by which lives are shortened at random: 0.1, -1 none. It also spreads back-off
	MaxNames int     // names kept; 4,096

	// DialDNS opens the sockets to DNS servers. It must return a net.PacketConn for "udp" and a stream for "tcp", and
	// return when ctx ends. Nil is a net.Dialer. Tests put a scripted server here.
	DialDNS func(ctx context.Context, network, address string) (net.Conn, error)

	// Metrics records lookups that are no plain hits, and what DNS servers answer. Nil is off. A hit costs the same with and
	// without: it is counted in Stats alone.
	Metrics *metrics.Metrics

	// OnEvent is told what an operator wants to know, in order, from one goroutine. It may block: then the oldest of 256
	// waiting events are dropped. It must not call Close.
	OnEvent func(Event)

	state atomic.Pointer[core] // nil before first use
	once  sync.Mutex           // guards the change from nil
	test  testHooks
}

// testHooks are set by tests of this package alone; see export_test.go.
type testHooks struct {
	resolvConf, hosts string // paths
	systemLookup      func(ctx context.Context, name string) ([]netip.Addr, error)
	routed            func(netip.Addr) bool
	wallOffset        *atomic.Int64 // added to the wall clock
}

// Lookup returns the addresses of name, from memory where that is possible. A hit costs no clock reading, no lock and no
// allocation. It never waits longer than ctx; a caller who leaves gets the context's error, and the lookup goes on for
// the next one. Any other error is an *[Error].
//
// The name is ASCII: the caller has done the punycode. A literal address, also in brackets or with a zone, is its own
// answer.
func (r *Resolver) Lookup(ctx context.Context, name string) (Result, error) {
	if c := r.state.Load(); c != nil {
		if s := c.hit(name); s != nil {
			return Result{s}, nil
		}
		if key, ok := canonical(name); ok && key != name { // another spelling
			if s := c.hit(key); s != nil {
				return Result{s}, nil
			}
		}
	}
	s, _, err := r.lookup(ctx, name, 0)
	return Result{s}, err
}

// hit returns the answer for a canonical name that is in memory, complete and in its time, else nil.
func (c *core) hit(name string) *snapshot {
	e, ok := c.names.Load(name)
	if !ok {
		return nil
	}
	s := e.(*entry).snap.Load()
	if s.flags != 0 {
		return nil
	}
	e.(*entry).hits.n.Add(1)
	return s
}

// lookup is Lookup where it is no plain hit. The entry is nil for a literal.
func (r *Resolver) lookup(ctx context.Context, name string, maxStale time.Duration) (*snapshot, *entry, error) {
	c, err := r.core()
	if err != nil {
		return nil, nil, newError(name, Closed, "", err, time.Time{})
	}
	if addr, ok := literal(name); ok {
		return literalSnapshot(addr), nil, nil
	}
	key, ok := canonical(name)
	if !ok {
		c.stats.failed(NotFound)
		c.metrics.Looked(ctx, resultNegative)
		return nil, nil, newError(name, NotFound, "", errNoSuchHost, time.Time{})
	}
	return c.lookup(ctx, key, maxStale)
}

// core returns the working parts, made at first use. An invalid Resolver has none.
func (r *Resolver) core() (*core, error) {
	c := r.state.Load()
	if c == nil {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		c = r.start()
	}
	if c.isClosed() {
		return nil, ErrClosed
	}
	return c, nil
}

func (r *Resolver) start() *core {
	r.once.Lock()
	defer r.once.Unlock()
	c := r.state.Load()
	if c == nil {
		c = newCore(r.settings(), r.test)
		r.state.Store(c)
	}
	return c
}

// NetworkChanged makes the Resolver behave as if resolv.conf had changed: every record is due at once and meanwhile
// served as stale, and what was denied or failed is forgotten. Call it when the program knows of a new network.
func (r *Resolver) NetworkChanged() {
	if c := r.state.Load(); c != nil && !c.isClosed() {
		c.files.read()
		c.networkChanged(time.Now())
	}
}

// Close ends timers and lookups, waits for them, and makes every later call fail with [ErrClosed]. Lookups in progress
// fail with it, too. Close is idempotent. It must not be called from OnEvent or a function given to Watch, for which it
// waits.
func (r *Resolver) Close() error {
	r.start().close()
	return nil
}
