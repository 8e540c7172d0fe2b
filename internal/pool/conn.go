package pool

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A connState is drawn in doc.go.
type connState uint8

const (
	stateNew      connState = iota // dialled, not yet among the pool's
	stateOpen                      // idle with no stream, active with one or more
	stateRetiring                  // no new stream; closes when the last one ends
	stateClosed                    // given to its closer; touched no more
)

// A conn is one connection. The first group of fields is written once, before the pool knows the conn.
type conn struct {
	pool   *Pool
	id     uint64
	cc     *http.ClientConn
	raw    *netConn
	h2     bool
	peer   *Peer
	born   time.Time
	maxAge time.Duration // drawn; 0 = none

	drained []byte      // where unread bodies go; HTTP/1 only, and so with one user at a time
	greeted atomic.Bool // HTTP/2: the server's stream limit is known; set under pool.mu
	noRoom  atomic.Bool // HTTP/2: full, so that the state hook has something to look for

	// All below is guarded by pool.mu.
	state     connState
	index     int         // in pool.conns
	ready     node[*conn] // in pool.ready while it may take a request
	streams   int         // requests in flight, as we count them
	requests  int         // requests carried
	idleSince time.Time   // while it has no stream
	lastUsed  time.Time   // last check-out or check-in
	full      bool        // HTTP/2: Reserve said so
	suspect   bool        // HTTP/2: silent while an attempt ran out of time
	dead      bool        // the socket is closed
	renewing  bool        // its replacement has been asked for
	replaced  bool        // its address is gone, and a replacement is there
	goAway    bool        // a request has seen a GOAWAY
	patience  *time.Timer // ends the wait for the server's stream limit
	why       closeCause  // of stateRetiring
	failure   error       // the last error a request had here
}

// A closeCause is why a connection closes: the reason, of a closed set, and a finer word.
type closeCause struct {
	reason Reason
	detail string
	err    error
	unread int64
}

// hasRoom reports whether c may take one more request.
func (c *conn) hasRoomLocked() bool {
	if c.state != stateOpen || c.dead || c.full || c.suspect {
		return false
	}
	if c.h2 {
		return c.streams < c.allowedLocked()
	}
	return c.streams == 0
}

// allowedLocked is how many streams an HTTP/2 connection is given. Until the server has told its limit that is the limit of
// an earlier connection, or one: net/http assumes 100, and when more are reserved than the SETTINGS then allow, those that
// have not begun wait for each other for ever.
func (c *conn) allowedLocked() int {
	if c.greeted.Load() {
		return c.pool.cfg.MaxStreams
	}
	return max(1, c.pool.gate.streams)
}

// agePercent is the part of the age limit that is over; 0 without a limit. While the ports run short age waits, up to twice the
// limit: a replacement would cost one.
func (c *conn) agePercent(now time.Time) int64 {
	if c.maxAge <= 0 {
		return 0
	}
	percent := int64(now.Sub(c.born)) * 100 / int64(c.maxAge)
	if renewAtAge <= percent && percent < 200 && c.raw.port.Scarce(now) {
		return renewAtAge - 1
	}
	return percent
}

// idleFor is how long c has been idle, by the clock that says more: the monotonic one stops while the machine sleeps.
func (c *conn) idleForLocked(now time.Time) time.Duration {
	return max(now.Sub(c.idleSince), now.Round(0).Sub(c.idleSince.Round(0)))
}

// shut closes the connection. Over TLS that can take 5 s, for a farewell nobody reads, hence a goroutine of its own; a cut
// says no farewell.
func (c *conn) shut(cut bool) {
	if cut {
		c.raw.Close()
	}
	c.cc.Close()
	c.raw.Close() // after a 101 the ClientConn leaves the socket to its reader
}

// onState is the hook of HTTP/2 connections, which hears of more room. It runs anywhere, also with the locks of net/http
// held, so it notes, wakes, and returns. That a connection is closed is told by its socket.
func (c *conn) onState(cc *http.ClientConn) {
	c.lookForGreeting()
	if c.noRoom.Load() && cc.Available() > 0 {
		c.pool.roomAgain(c)
	}
}

// lookForGreeting asks whether the server's SETTINGS have come. A limit of 100 looks like none; then the first response
// tells, or the time that has gone by.
func (c *conn) lookForGreeting() {
	if c.greeted.Load() {
		return
	}
	if limit := c.streamLimit(); limit != limitBeforeSettings {
		c.pool.greeted(c, limit)
	}
}

const (
	limitBeforeSettings = 100         // net/http's assumption
	greetingTime        = time.Second // what a server's SETTINGS may take; RFC 9113 section 3.4 has them sent first of all
)

// streamLimit is the server's limit of streams, as far as net/http knows it.
func (c *conn) streamLimit() int {
	free := c.cc.Available() // first, as what ends in between must not count twice
	return free + c.cc.InFlight()
}

// lossLocked says why the socket of c was closed, when the pool had not asked for it.
func (c *conn) lossLocked(idle bool) closeCause {
	if c.goAway {
		return closeCause{reason: ReasonGoAway, err: c.failure}
	}
	switch ending(c.raw.ended.Load()) {
	case endEOF:
		if idle {
			return closeCause{reason: ReasonServer, detail: "fin"}
		}
		return closeCause{reason: ReasonError, detail: "eof", err: c.failure}
	case endRead:
		return closeCause{reason: ReasonError, detail: "read", err: c.failure}
	case endWrite:
		if idle { // our own farewell, which met a peer that had left
			return closeCause{reason: ReasonServer, detail: "fin"}
		}
		return closeCause{reason: ReasonError, detail: "write", err: c.failure}
	}
	switch ping := c.pool.transport.cfg.PingAfter; {
	case !c.h2 && idle:
		return closeCause{reason: ReasonServer, detail: "close_notify"}
	case c.h2 && ping > 0 && c.raw.silence() >= ping:
		return closeCause{reason: ReasonError, detail: "ping_lost", err: c.failure}
	case c.h2 && c.failure == nil:
		return closeCause{reason: ReasonGoAway} // net/http closes after the last stream below a GOAWAY
	}
	return closeCause{reason: ReasonError, detail: "protocol", err: c.failure}
}

func (c *conn) drainBuffer() []byte {
	if c.drained == nil {
		c.drained = make([]byte, 8<<10)
	}
	return c.drained
}
