package creds

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// forever is longer than any process lives, and short enough to be added to a time.
const forever = 100 * 365 * 24 * time.Hour

// nature tells the core what it must know of the values it keeps.
type nature[T any] struct {
	key     func(T) string    // what a service sees of it, and rejects
	expires func(T) time.Time // zero: never
	same    func(a, b T) bool // apart from the expiry
	check   func(T) error     // why it cannot be used
	tail    func(key string) string
}

// item is one value with its life. The upper fields are written once.
type item[T any] struct {
	value    T
	key      string
	received time.Time     // t0, with its monotonic reading
	expires  time.Time     // E as the source stated it; zero: never
	life     time.Duration // L = E - t0
	windows  windows
	stale    bool // expired when it came

	// Wall times in nanoseconds since 1970: a read compares the clock with them, since timers and monotonic time
	// stand still while a machine sleeps.
	softWall, hardWall, backWall int64

	// slow sends readers to the slow path, which counts them: the value is rejected or stale.
	slow   atomic.Bool
	public atomic.Pointer[Snapshot[T]]

	// What became known later; guarded by core.mu.
	shift      time.Duration // how much earlier than by monotonic time it ends, after a step of the wall clock
	back       time.Time     // when the wall clock was found before t0; zero: it was not
	rejected   bool
	rejectFrom time.Time // from then on readers wait for another value
	owed       bool      // rejected, and no question has been asked since
	fatal      bool      // the source says that there will be no other
}

// backSlack is how far the wall clock may fall behind t0 before that counts as a step: clocks are slewed all the time.
const backSlack = 2 * time.Second

func newItem[T any](n *nature[T], value T, now time.Time, wall int64) *item[T] {
	it := &item[T]{value: value, key: n.key(value), received: now, expires: n.expires(value)}
	it.softWall, it.hardWall = math.MaxInt64, math.MaxInt64
	it.backWall = wall - int64(backSlack)
	if !it.expires.IsZero() {
		it.life = it.expires.Sub(time.Unix(0, wall))
	}
	return it
}

// setWindows notes the windows drawn for the item.
func (it *item[T]) setWindows(w windows) {
	it.windows = w
	end := it.expires.UnixNano()
	it.softWall, it.hardWall = end-int64(w.soft), end-int64(w.hard)
}

// left returns the time until the item ends: by the wall clock or by its age, whichever is less.
func (it *item[T]) left(now time.Time, wall int64) time.Duration {
	if it.expires.IsZero() {
		return forever
	}
	return min(it.expires.Sub(time.Unix(0, wall)), it.life-now.Sub(it.received))
}

// plan draws the item's life for internal/fresh, from all that is known of it. Under core.mu.
func (it *item[T]) plan(c *core[T]) fresh.Plan {
	var p fresh.Plan
	end := it.received.Add(forever)
	switch {
	case it.stale:
		p = c.stalePlan(it)
	case !it.expires.IsZero():
		end = it.received.Add(it.life - it.shift)
		p = fresh.Plan{Soft: end.Add(-c.softOf(it)), Hard: end.Add(-it.windows.hard), End: end}
		if c.stable && !it.fatal {
			p.Last = end.Add(c.maxStale())
		}
	}
	if !it.back.IsZero() && it.back.Before(p.Soft) {
		p.Soft = it.back
	}
	switch {
	case !it.rejected:
	case it.stale || !it.rejectFrom.Before(end):
		p.Last = time.Time{}
		if it.stale {
			p.End = it.rejectFrom
		}
	default:
		p = fresh.Plan{Soft: it.rejectFrom, Hard: it.rejectFrom, End: it.rejectFrom, Last: end}
	}
	return p
}

// stalePlan is the life of a value that came expired and was accepted: it is given out until MaxStale is over, and the
// source asked by the rule for expired values.
func (c *core[T]) stalePlan(it *item[T]) fresh.Plan {
	p := fresh.Plan{Soft: c.staleNext}
	if c.cfg.MaxStale > 0 {
		p.End = it.received.Add(c.cfg.MaxStale + min(it.life, 0))
	}
	if it.fatal {
		p.End = it.received
	}
	return p
}

// softOf returns the window Soft in force. Skew brings it forward: a service whose clock is ahead sees the end earlier.
func (c *core[T]) softOf(it *item[T]) time.Duration {
	return min(it.windows.soft+max(c.skew, 0), max(it.windows.soft, scale(it.life, c.cfg.MaxFraction)))
}

func (c *core[T]) maxStale() time.Duration {
	if c.cfg.MaxStale > 0 {
		return c.cfg.MaxStale
	}
	return forever
}
