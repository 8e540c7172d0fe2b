package pool

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

const (
	// aliveWithin is how recently a connection must have been used, or dialled, to be trusted with a second send.
	aliveWithin = time.Second

	// alertBytes is more than a TLS alert takes in any cipher suite, and less than an answer. A peer that closes says so in
	// one, and those bytes are no sign that it has answered.
	alertBytes = 96
)

// A verdict is what is known of a failed send.
type verdict struct {
	err      error
	own      bool // the fault of the request, its body or its context, or of Close: another connection would not help
	refused  bool // HTTP/2: not processed, says the server
	goAway   bool
	unsent   bool // nothing of it was written
	answered bool // something of an answer came
	timeout  bool
}

// fail ends a failed send. It returns nil when the request is to be sent again, on another connection.
func (s *send) fail(c *conn, err error) error {
	v := s.judge(c, err)
	rule, again := s.mayResend(v)
	s.processed = s.processed || !v.unsent && !v.refused
	failure := s.error(Send, v.err)
	failure.Refused = s.left && !s.processed
	failure.GoAway, failure.Answered = v.goAway, v.answered
	s.suspect(c, v)
	s.checkIn(s.failureCause(v))
	if value, ok := s.out.panicked(); ok {
		s.out.end()
		s.done = true
		panic(value)
	}
	if s.pool.isCut() {
		failure.Kind, failure.Err = Closed, ErrClosed
		return failure
	}
	if !again || !s.out.rewind(s.req) {
		return failure
	}
	s.failedOn, s.begun, s.gone = c, false, false
	p := s.pool
	p.mu.Lock()
	p.resentLocked(c, rule, v.err, time.Now())
	p.mu.Unlock()
	p.deliver()
	return nil
}

// judge gathers what is known. Connections of net/http give untyped errors, so facts come first: the context, the body, the
// socket's counters, and whether the connection has survived.
func (s *send) judge(c *conn, err error) verdict {
	ctx := s.ctx()
	v := verdict{err: c.raw.cause(err)}
	if ctx.Err() != nil && (s.line.wasCut() || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		v.err = contextError(ctx)
	}
	v.own = ctx.Err() != nil || s.out.faulty()
	v.timeout = isTimeout(err)
	v.goAway, v.refused = goAway(err)
	v.refused = v.refused || streamRefused(err)
	if c.h2 {
		v.unsent = !s.wroteStream(c)
		v.answered = s.h2.firstByte.Load()
		v.own = v.own || v.unsent && c.cc.Err() == nil && c.cc.Available() > 0
		return v
	}
	v.unsent = c.raw.written.Load() == s.written
	v.answered = c.raw.read.Load()-s.read > s.pool.answerFrom()
	v.own = v.own || c.cc.Err() == nil
	return v
}

// wroteStream reports whether some of an HTTP/2 request may have been written: its headers were given to the socket, which
// has taken something since the send began, be it for another stream.
func (s *send) wroteStream(c *conn) bool {
	return s.h2.wroteHeaders.Load() && c.raw.written.Load() != s.written
}

// answerFrom is how many bytes read are not yet an answer.
func (p *Pool) answerFrom() int64 {
	if p.cfg.Scheme == "https" {
		return alertBytes
	}
	return 0
}

// mayResend applies the table of doc.go: once, on another connection, and only when no harm can come of it. A connection
// that had never carried a request says nothing about staleness: its failure is for the caller to judge.
func (s *send) mayResend(v verdict) (rule Resend, ok bool) {
	switch {
	case s.failedOn != nil || v.own || v.answered || !s.info.Reused:
		return 0, false
	case v.unsent:
		return ResendUnwritten, true
	case v.refused:
		return ResendRefused, true
	case !s.want.Idempotent || v.timeout:
		return 0, false
	case s.h2 != nil && !v.goAway && !peerLeft(v.err): // a reset stream, a lost ping, a protocol error
		return 0, false
	}
	return ResendIdempotent, true
}

// peerLeft reports whether err is how a connection ends that the other side has closed.
func peerLeft(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// goAway recognises that a connection ended by HTTP/2 GOAWAY, and whether the request is above the last one the server took
// (RFC 9113 section 6.8). net/http has no exported types for it, so this is the one place where errors are told by their
// text; a test holds it against the running Go.
func goAway(err error) (seen, notTaken bool) {
	if err == nil {
		return false, false
	}
	text := err.Error()
	switch {
	case !strings.HasPrefix(text, "http2: "):
		return false, false
	case strings.HasPrefix(text, "http2: server sent GOAWAY and closed the connection"):
		return true, false
	case strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY"),
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server"):
		return true, true
	}
	return false, false
}

// failureCause is why the connection of a failed send is closed, if it is.
func (s *send) failureCause(v verdict) closeCause {
	switch {
	case s.ctx().Err() != nil:
		s.gone = !s.conn.h2
		return s.contextCause()
	case s.out.faulty():
		return closeCause{reason: ReasonError, detail: "request_body", err: v.err}
	case v.goAway:
		return closeCause{reason: ReasonGoAway, err: v.err}
	case v.timeout:
		return closeCause{reason: ReasonError, detail: "timeout", err: v.err}
	case !v.answered && s.info.Reused:
		return closeCause{reason: ReasonServer, detail: "stale", err: v.err}
	}
	return closeCause{reason: ReasonError, detail: "broken", err: v.err}
}

// suspect marks an HTTP/2 connection that was silent while a request ran out of time. It gets no new request until a byte
// arrives, or net/http's ping finds it dead.
func (s *send) suspect(c *conn, v verdict) {
	if !c.h2 || !byTime(s.ctx()) || c.raw.read.Load() != s.read {
		return
	}
	p := s.pool
	p.mu.Lock()
	c.suspect = true
	c.ready.leave()
	p.mu.Unlock()
	c.raw.answering.Store(true)
	if c.raw.read.Load() != s.read { // it came just now, before anybody waited for it
		c.raw.heard()
	}
}

// error makes the error of this send, with the state of the pool at this moment.
func (s *send) error(kind ErrKind, err error) *Error {
	p := s.pool
	p.mu.Lock()
	e := &Error{Kind: kind, Host: p.cfg.Host, Open: len(p.conns), Busy: len(p.conns) - p.idle, Dialing: p.gate.dials}
	p.mu.Unlock()
	e.Waited, e.NeverSent, e.Reused = s.info.Acquire+s.setupTime(), !s.left, s.info.Reused
	e.Written, e.Sends, e.Conn, e.Remote = s.info.BytesWritten, int(s.info.Sends), s.info.Conn, s.info.Remote()
	e.Refused = s.left && !s.processed
	e.Err = err
	return e
}

// isCut reports whether Close has cut the connections.
func (p *Pool) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}
