package pool

import (
	"strconv"
	"strings"
	"time"
)

const (
	learnFor   = 10 * time.Minute // how long a lesson is remembered, and how long it holds
	learnFloor = time.Second      // idle times below teach nothing: that is a server going away
)

// An idleLimit is how long a connection may be idle: the least of what is configured, what the server's Keep-Alive header
// asks for, and what was learnt from it. It belongs to the endpoint, never to a connection, and is guarded by the pool's
// lock. The zero value knows only what is configured.
type idleLimit struct {
	hinted bool
	hint   time.Duration // the server's timeout, less a second

	learnt      time.Duration
	learntUntil time.Time
	seen        time.Duration // idle time at the last close by the peer
	seenAt      time.Time
}

// inForce returns the limit and where it comes from.
func (l *idleLimit) inForce(configured time.Duration, now time.Time) (time.Duration, LimitFrom) {
	limit, from := configured, LimitConfigured
	if l.hinted && l.hint < limit {
		limit, from = l.hint, LimitKeepAlive
	}
	if l.learnt > 0 && l.learnt < limit && now.Before(l.learntUntil) {
		limit, from = l.learnt, LimitLearnt
	}
	return limit, from
}

// sawHint takes the timeout of a Keep-Alive header. The second less is for the server's clock, which starts earlier.
func (l *idleLimit) sawHint(timeout time.Duration) {
	l.hinted, l.hint = true, timeout-time.Second
}

// sawClose learns from a peer that has closed an idle connection: two of them, within ten minutes and at nearly the same
// idle time, give nine tenths of the shorter. Idle times far apart are no rule of the server, but its end or restart.
func (l *idleLimit) sawClose(idle time.Duration, now time.Time) {
	if idle < learnFloor {
		return
	}
	shorter, longer := min(idle, l.seen), max(idle, l.seen)
	if l.seen > 0 && now.Sub(l.seenAt) < learnFor && shorter*5 >= longer*4 {
		l.learnt, l.learntUntil = shorter*9/10, now.Add(learnFor)
	}
	l.seen, l.seenAt = idle, now
}

// keepAliveTimeout finds N in "timeout=N, max=100". The header has no standard beyond RFC 2068 section 19.7.1.1.
func keepAliveTimeout(header string) (time.Duration, bool) {
	for param := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil {
			return 0, false
		}
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}

// sawKeepAlive notes a response's Keep-Alive header.
func (p *Pool) sawKeepAlive(header string) {
	timeout, ok := keepAliveTimeout(header)
	if !ok || p.lastHint.Swap(int64(timeout)) == int64(timeout) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.sawHint(timeout)
	p.sweepSoonerLocked(time.Now())
}
