package dnscache

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

const (
	// maxAddrs is how many addresses of a family are kept. More are only counted: nobody dials them all, and a reply
	// over TCP can hold 4,000.
	maxAddrs = 128

	// softStale bounds how long past its end a record is given out before a reader waits for the refresh.
	softStale = 30 * time.Second

	// The negative answer's life. Its upper end is short because a name that is missing now may be a service that is
	// just starting (kubernetes/kubernetes#74092), its lower end because a zone may say 0.
	minNegative = time.Second
	maxNegative = 5 * time.Second
)

// answer is one record: what one family of a name last answered. It is immutable.
type answer struct {
	kind   kind // hasAddrs, hasNone or noName
	beside bool // empty, but the other family had addresses: the name as a whole is good
	addrs  []netip.Addr
	more   int           // addresses beyond maxAddrs
	ttl    time.Duration // clamped
	at     time.Time     // received
	end    time.Time
	route  bool // IPv6: this machine has a route to it

	source Source
	asked  string
	server string
	tries  int // of pinned names: negative answers in a row
}

// newAnswer gives a finding its life. The jitter is drawn here, once.
func (c *core) newAnswer(f finding, beside bool, now time.Time) *answer {
	a := &answer{
		kind: f.kind, at: now, source: f.source, asked: f.name, server: f.server,
		beside: beside && f.kind.negative(), route: f.routed,
	}
	a.addrs = f.addrs
	if n := len(f.addrs) - maxAddrs; n > 0 {
		a.addrs, a.more = f.addrs[:maxAddrs], n
	}
	switch {
	case f.kind == hasAddrs:
		a.ttl = c.positiveTTL(f)
		a.end = now.Add(c.jittered(a.ttl))
	case a.beside:
		a.ttl = c.emptyTTL(f)
		a.end = now.Add(c.jittered(a.ttl))
	default:
		a.ttl = negativeTTL(f)
		a.end = now.Add(a.ttl)
	}
	return a
}

func (c *core) positiveTTL(f finding) time.Duration {
	switch {
	case !f.known:
		return c.cfg.defaultTTL
	case f.source == SourceHosts:
		return time.Duration(f.ttl) * time.Second
	case f.ttl == 0:
		return c.cfg.zeroTTL
	}
	return clampSeconds(f.ttl, c.cfg.minTTL, c.cfg.maxTTL)
}

// emptyTTL is the life of an empty family beside a good one. It is no outage that somebody waits to end, so the zone's
// own negative TTL counts beyond the few seconds of negativeTTL: most names have no AAAA at all, and would be asked for
// it every 5 s for ever.
func (c *core) emptyTTL(f finding) time.Duration {
	if !f.known {
		return c.cfg.defaultTTL
	}
	return clampSeconds(f.ttl, c.cfg.minTTL, c.cfg.maxTTL)
}

func negativeTTL(f finding) time.Duration {
	if !f.known {
		return minNegative
	}
	return clampSeconds(f.ttl, minNegative, maxNegative)
}

// jittered shortens a life by up to the share Jitter, so that records of one TTL do not stay in step.
func (c *core) jittered(life time.Duration) time.Duration {
	if c.cfg.jitter == 0 {
		return life
	}
	return life - time.Duration(float64(life)*c.cfg.jitter*rand.Float64())
}

// plan returns the instants at which a record of this answer changes.
func (c *core) plan(a *answer) fresh.Plan {
	switch {
	case a.kind == hasAddrs:
		hard := a.end.Add(min(a.ttl, softStale, c.cfg.maxStale))
		return fresh.Plan{Soft: c.due(a), Aged: a.end, Hard: hard, End: a.end.Add(c.cfg.maxStale)}
	case a.beside:
		return fresh.Plan{Soft: a.end} // empty until it says otherwise
	}
	// Readers ask again at the end. Where nobody reads and a timer does it, ever more slowly: a pinned name that does not
	// exist is not polled for ever at the pace of its negative TTL.
	wait := max(0, ladder(a.tries)-a.ttl)
	return fresh.Plan{Soft: a.end.Add(wait), End: a.end}
}

// due is when the refresh ahead begins.
func (c *core) due(a *answer) time.Time {
	if a.ttl <= c.cfg.zeroTTL && a.source == SourceDNS {
		return a.end // a TTL of 0: what comes ahead of it would be as old as what is held
	}
	lead := min(max(a.ttl/5, time.Second), 30*time.Second)
	return a.end.Add(-min(lead, a.end.Sub(a.at)/2))
}

// ladder is the back-off of a record: 1, 2, 4, 8, 16, 30, 30 s and so on for the nth failure in a row.
func ladder(n int) time.Duration {
	switch {
	case n <= 0:
		return 0
	case n > 5:
		return 30 * time.Second
	}
	return time.Second << (n - 1)
}

// backoff is the ladder with its jitter, U(1/2, 1).
func (c *core) backoff(n int) time.Duration {
	d := ladder(n)
	if c.cfg.jitter == 0 {
		return d
	}
	return d/2 + time.Duration(rand.Int64N(int64(d/2)+1))
}
