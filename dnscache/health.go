package dnscache

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// coolFor is how long an address that failed goes to the end of the order; it doubles up to maxCool.
	coolFor = 10 * time.Second
	maxCool = time.Minute

	// maxHealth bounds the table. At the bound the address that was dialled longest ago of a few is forgotten.
	maxHealth = 8192
)

// healthTable remembers how dials to addresses went. It serves all names of a Resolver: an address that is dead under one
// name is dead under the other.
type healthTable struct {
	mu sync.Mutex
	m  map[netip.AddrPort]*health
}

// health is what is known of one address and port.
type health struct {
	success time.Time // last; zero: never connected
	failure time.Time
	err     error     // of the last failure
	cool    time.Time // until then it comes last
	span    time.Duration
	used    time.Time
}

// get returns a copy of what is known.
func (t *healthTable) get(a netip.AddrPort) health {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.m[a]; h != nil {
		return *h
	}
	return health{}
}

func (t *healthTable) connected(a netip.AddrPort, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.entryLocked(a, now)
	h.success, h.cool, h.span = now, time.Time{}, 0
}

func (t *healthTable) failed(a netip.AddrPort, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.entryLocked(a, now)
	h.span = min(max(2*h.span, coolFor), maxCool)
	h.failure, h.err, h.cool = now, err, now.Add(h.span)
}

func (t *healthTable) entryLocked(a netip.AddrPort, now time.Time) *health {
	h := t.m[a]
	if h == nil {
		if t.m == nil {
			t.m = make(map[netip.AddrPort]*health)
		}
		if len(t.m) >= maxHealth {
			t.forgetOneLocked()
		}
		h = new(health)
		t.m[a] = h
	}
	h.used = now
	return h
}

// forgetOneLocked forgets the longest unused of a few; the map's order is random enough.
func (t *healthTable) forgetOneLocked() {
	var oldest netip.AddrPort
	var since time.Time
	seen := 0
	for a, h := range t.m {
		if seen == 0 || h.used.Before(since) {
			oldest, since = a, h.used
		}
		if seen++; seen == evictionSample {
			break
		}
	}
	delete(t.m, oldest)
}

// of returns what is known of an address, by port.
func (t *healthTable) of(addr netip.Addr) map[uint16]health {
	out := make(map[uint16]health)
	t.mu.Lock()
	defer t.mu.Unlock()
	for a, h := range t.m {
		if a.Addr() == addr {
			out[a.Port()] = *h
		}
	}
	return out
}

// dialState is what dials to one name have learnt.
type dialState struct {
	mu       sync.Mutex
	turn     int           // rotates the start of the order
	smoothed time.Duration // connect time; 0 while unknown
}

// next returns the turn of this dial.
func (d *dialState) next() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn++
	return d.turn - 1
}

// took notes a connect time: an eighth of what is new, as TCP smooths its round trips (RFC 6298).
func (d *dialState) took(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.smoothed == 0 {
		d.smoothed = max(t, 1)
		return
	}
	d.smoothed = max(1, d.smoothed+(t-d.smoothed)/8)
}

const (
	// The delay before the next address is tried (RFC 8305 section 5).
	unknownDelay = 250 * time.Millisecond
	minDelay     = 100 * time.Millisecond
	maxDelay     = 2 * time.Second
)

func (d *dialState) delay() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.smoothed == 0 {
		return unknownDelay
	}
	return min(max(2*d.smoothed, minDelay), maxDelay)
}
