package pool

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// A send is one request on its way: from RoundTrip, through a connection or two, to the end of the response's body. All
// that a request needs is in this one struct.
type send struct {
	pool *Pool
	req  *http.Request
	want Want
	info Info

	quiet    quietContext
	line     line
	conn     *conn        // checked out, not yet checked in
	failedOn *conn        // what the first send failed on, once there is a second
	h2       *streamTrace // HTTP/2 only
	out      outgoing
	in       respBody
	written  int64 // the socket's write counter when the send began
	read     int64 // and its read counter

	reserved  bool // on conn, and nothing sent yet
	begun     bool // given to net/http
	gone      bool // the connection is lost; asking it could mean waiting for its end, over TLS for 5 s
	last      bool // one side has said that this is the last request on its connection
	left      bool // some byte of some send has left
	processed bool // and the server may have acted on it
	done      bool // RoundTrip has come to a result

	*waiter // nil: it has not waited
}

// An Exchange is one request and its response, from [Pool.RoundTrip] to the end of the body. It is a struct of the caller's,
// so that what an exchange needs can lie inside something the caller allocates anyway. The zero value is ready for one
// exchange; it must be neither copied nor used again.
type Exchange struct{ send send }

// Info is what is known of the exchange: complete when RoundTrip has returned, and not written afterwards.
func (x *Exchange) Info() *Info { return &x.send.info }

// RoundTrip sends req on one of the pool's connections and returns its response, whose Body is never nil and must be closed
// or read to its end. It may be called concurrently. req is the caller's no more: neither its headers nor its URL are
// changed, but its Body is closed, exactly once, whatever happens. The context of req lives as long as the response's body.
// now is the time at which the caller called, where it has read the clock just before.
//
// The context's end ends every wait. What it means for a request on the wire depends on [Want.OwnContext].
//
// Every error is an [*Error], but for those of want.OnConn. A panic of want.OnConn or of the request's body leaves nothing
// taken and goes on.
func (p *Pool) RoundTrip(x *Exchange, req *http.Request, want Want, now time.Time) (*http.Response, error) {
	if want.HTTP1 && p.transport.mayBeHTTP2(p.cfg.Scheme) {
		p = p.http1()
	}
	s := &x.send
	s.pool, s.req, s.want, s.quiet.ctx = p, req, want, req.Context()
	s.info.Start, s.info.InHand, s.info.Wrote, s.info.Headers = now, Never, Never, Never
	s.out.set(req.Body, req.ContentLength)
	defer s.unwind()
	if trace := httptrace.ContextClientTrace(s.ctx()); trace != nil && trace.GetConn != nil {
		trace.GetConn(p.cfg.Host)
	}
	resp, err := s.run()
	s.done = true
	s.info.NeverSent = !s.left
	if err != nil {
		s.out.end()
	}
	return resp, err
}

func (s *send) run() (*http.Response, error) {
	for {
		c, err := s.acquire()
		if err != nil {
			return nil, err
		}
		if err := s.announce(c); err != nil {
			return nil, err
		}
		resp, err := c.cc.RoundTrip(s.begin(c))
		s.tally(c)
		if err == nil {
			s.receive(resp)
			return resp, nil
		}
		if err := s.fail(c, err); err != nil {
			return nil, err
		}
	}
}

// unwind runs when RoundTrip returns. After a panic, of a hook or a listener, it gives back what was taken.
func (s *send) unwind() {
	if s.done {
		return
	}
	if s.waiter != nil {
		s.pool.mu.Lock()
		s.node.leave()
		s.pool.mu.Unlock()
	}
	switch {
	case s.conn == nil:
	case s.begun:
		s.checkIn(closeCause{reason: ReasonError, detail: "panic"})
	default:
		s.unreserve()
		s.giveBack()
	}
	s.out.end()
}

// announce tells the caller which connection it has. Its error means that it does not want it.
func (s *send) announce(c *conn) error {
	if trace := httptrace.ContextClientTrace(s.ctx()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.raw, Reused: s.info.Reused, WasIdle: s.info.Reused && !c.h2 || s.info.IdleTime > 0,
			IdleTime: s.info.IdleTime})
	}
	if s.want.OnConn == nil {
		return nil
	}
	err := s.want.OnConn(s.info)
	if err != nil {
		s.unreserve()
		s.giveBack()
	}
	return err
}

// begin makes the request that net/http gets.
func (s *send) begin(c *conn) *http.Request {
	s.reserved, s.begun = false, true
	s.info.Sends++
	s.info.Wrote = Never
	s.written, s.read = c.raw.written.Load(), c.raw.read.Load()
	s.h2 = nil
	ctx := s.ctx()
	switch {
	case c.h2:
		s.h2 = new(streamTrace)
		ctx = s.h2.in(ctx, s.out.body == nil || s.out.body == http.NoBody)
	case s.out.watch != nil: // net/http may wait for a Read of the body, which a closed socket does not end
		if !s.want.OwnContext && ctx.Done() != nil {
			own, cancel := context.WithCancel(ctx)
			ctx, s.line.unwatch = own, cancel
		}
	default:
		s.occupy(c)
		ctx = &s.quiet
		if s.want.OwnContext && s.failedOn == nil {
			*s.req = *s.req.WithContext(ctx)
			return s.req
		}
	}
	req := s.req.WithContext(ctx)
	req.Body = s.out.body
	return req
}

// tally takes down what has been written.
func (s *send) tally(c *conn) {
	if s.h2 != nil {
		if s.wroteStream(c) {
			s.left = true
			s.info.BytesWritten += s.out.count(s.req, s.h2.wrote.Load() > 0)
		}
		s.info.Wrote = s.after(s.h2.wroteAt())
		return
	}
	if n := c.raw.written.Load() - s.written; n > 0 {
		s.left = true
		s.info.BytesWritten += n
		s.info.Wrote = s.after(c.raw.wroteAt())
	}
}

// after is when t was, after the start; a zero t was never.
func (s *send) after(t time.Time) time.Duration {
	if t.IsZero() {
		return Never
	}
	return max(t.Sub(s.info.Start), 0)
}

// receive makes resp the caller's: its body brings the connection back.
func (s *send) receive(resp *http.Response) {
	s.info.Headers = time.Since(s.info.Start)
	s.left = true // the socket's counter may lag: the answer can be here before the goroutine that wrote has counted
	s.last = resp.Close || s.req.Close
	resp.Request = s.req
	s.out.release()
	c := s.conn
	if c.h2 && !c.greeted.Load() {
		s.pool.greeted(c, c.streamLimit()) // SETTINGS come before any response
	}
	if !c.h2 {
		if hint := resp.Header["Keep-Alive"]; len(hint) > 0 {
			s.pool.sawKeepAlive(hint[0])
		}
	}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols && !c.h2:
		s.line.free() // the connection is the caller's, and no request any more
		resp.Body = &switchedBody{send: s, inner: resp.Body}
	case s.bodyless(resp):
		s.checkIn(s.cleanCause())
	default:
		s.in.wrap(s, resp)
		resp.Body = &s.in
	}
}

// bodyless reports whether the response is over with its headers. An HTTP/2 response of declared length 0 may have its end
// of stream still to come; that one is wrapped like any other.
func (s *send) bodyless(resp *http.Response) bool {
	if !s.conn.h2 {
		return resp.Body == http.NoBody
	}
	return s.req.Method == http.MethodHead || resp.ContentLength == 0 && len(resp.Header["Content-Length"]) == 0
}

// cleanCause is why the connection is closed, should it not be available after a request that went well.
func (s *send) cleanCause() closeCause {
	if s.last {
		return closeCause{reason: ReasonServer, detail: "connection_close"}
	}
	return closeCause{reason: ReasonError, detail: "request_unfinished"} // answered before the body was written
}

// reserve makes sure of the connection that s has taken. HTTP/1 needs no reservation, as it has been taken from all others;
// that its socket is closed is all that can be wrong with it.
func (c *conn) reserve() bool {
	if !c.h2 {
		return !c.raw.closed.Load()
	}
	return c.cc.Reserve() == nil
}

func (s *send) unreserve() {
	if s.reserved && s.conn.h2 {
		s.conn.cc.Release()
	}
	s.reserved = false
}

// checkIn ends the send: its context, and its use of the connection.
func (s *send) checkIn(cause closeCause) {
	p, c := s.pool, s.conn
	s.conn = nil
	s.gone = s.line.free() || s.gone
	avail := !s.gone && !c.raw.closed.Load() && c.cc.Available() > 0
	now := s.now()
	p.mu.Lock()
	if c.h2 {
		c.failure = cause.err
		if cause.reason == ReasonGoAway {
			c.goAway = true
			p.retireLocked(c, now, cause)
		}
	}
	if avail && c.full {
		c.full = false
		c.noRoom.Store(false)
	}
	p.checkInLocked(c, now, avail, cause)
	p.mu.Unlock()
	p.deliver()
}

// now is the time, for half the price of time.Now.
func (s *send) now() time.Time { return s.info.Start.Add(time.Since(s.info.Start)) }

// giveBack returns a connection on which nothing was sent.
func (s *send) giveBack() {
	p, c := s.pool, s.conn
	s.conn = nil
	now := time.Now()
	p.mu.Lock()
	p.unuseLocked(c, s)
	p.checkInLocked(c, now, true, closeCause{reason: ReasonError})
	p.mu.Unlock()
	p.deliver()
}

// streamTrace is what an HTTP/2 request tells through httptrace. Hooks may come late, from net/http's goroutines.
type streamTrace struct {
	hooks        httptrace.ClientTrace
	began        time.Time
	wroteHeaders atomic.Bool
	firstByte    atomic.Bool
	wrote        atomic.Int64 // nanoseconds since began, and one; 0 = not all is written
}

// in returns ctx with the hooks. Without a body the request is written with its headers; the hook for that may be called
// when the response is there already.
func (t *streamTrace) in(ctx context.Context, bodyless bool) context.Context {
	t.began = time.Now()
	t.hooks.WroteHeaders = func() {
		t.wroteHeaders.Store(true)
		if bodyless {
			t.wroteAll()
		}
	}
	if !bodyless {
		t.hooks.WroteRequest = func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				t.wroteAll()
			}
		}
	}
	t.hooks.GotFirstResponseByte = func() { t.firstByte.Store(true) }
	return httptrace.WithClientTrace(ctx, &t.hooks)
}

func (t *streamTrace) wroteAll() { t.wrote.Store(int64(time.Since(t.began)) + 1) }

// wroteAt is when the whole request was written; zero = it is not, or has not been told yet.
func (t *streamTrace) wroteAt() time.Time {
	if n := t.wrote.Load(); n > 0 {
		return t.began.Add(time.Duration(n - 1))
	}
	return time.Time{}
}
