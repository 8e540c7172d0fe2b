package pool

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A respBody is the body of a response: it brings the connection back, at EOF, at an error, or at Close. A Read and a Close
// may run at the same time, as far as the body below allows it.
type respBody struct {
	send   *send
	inner  io.ReadCloser
	length int64 // declared; -1 = unknown

	mu      sync.Mutex // guards what follows; never held over a call of inner
	n       int64      // read so far
	err     error      // of the Read that ended it
	reading int32      // Reads running
	over    bool       // the connection is back, or on its way
	closed  bool

	stream bool // an event stream: never ends by itself; written once
}

// wrap makes b the body of resp. What Close needs to know is noted now, as the caller may change the response.
func (b *respBody) wrap(s *send, resp *http.Response) {
	b.send, b.inner, b.length = s, resp.Body, resp.ContentLength
	if !s.conn.h2 {
		b.stream = isEventStream(resp.Header["Content-Type"])
	}
}

func isEventStream(contentType []string) bool {
	const stream = "text/event-stream"
	if len(contentType) == 0 || len(contentType[0]) < len(stream) || !strings.EqualFold(contentType[0][:len(stream)], stream) {
		return false
	}
	rest := contentType[0][len(stream):]
	return rest == "" || rest[0] == ';' || rest[0] == ' '
}

func (b *respBody) Read(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	n, err := b.inner.Read(p)
	if b.ended(n, err) {
		if err == io.EOF && !b.send.line.wasCut() { // else it may be how some connection answers its own Close
			b.send.checkIn(b.send.cleanCause())
		} else {
			err = b.send.brokenBody(err)
		}
	}
	return n, err
}

// begin admits a Read.
func (b *respBody) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return http.ErrBodyReadAfterClose
	case b.err != nil:
		return b.err
	}
	b.reading++
	return nil
}

// ended notes the end of a Read, and reports whether that was the end of the send too.
func (b *respBody) ended(n int, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading--
	b.n += int64(n)
	if err == nil {
		return false
	}
	if b.err == nil {
		b.err = err
	}
	if b.over || b.closed {
		return false
	}
	b.over = true
	return true
}

// Close gives the connection back. On HTTP/1 it first reads a little of an unread body, as the connection is lost if its
// end is not found; on HTTP/2 it resets the stream.
func (b *respBody) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	over, reading := b.over, b.reading > 0
	b.over = true
	b.mu.Unlock()
	switch {
	case over:
		return b.inner.Close()
	case b.send.conn.h2:
		err := b.inner.Close()
		b.send.checkIn(closeCause{reason: ReasonError})
		return err
	}
	detail := b.noDrain(reading)
	if detail == "" {
		if detail = b.drain(); detail == "" {
			err := b.inner.Close()
			b.send.checkIn(b.send.cleanCause())
			return err
		}
	}
	b.drop(reading, detail)
	return nil
}

// noDrain says why the rest is not read, in a word; "" = it is.
func (b *respBody) noDrain(reading bool) string {
	cfg := &b.send.pool.cfg
	switch {
	case reading: // it would have to be waited for: golang/go#81404
		return "reading"
	case b.send.last: // nothing to be won
		return "last"
	case b.send.ctx().Err() != nil:
		return "context"
	case b.stream:
		return "event_stream"
	case cfg.DrainBytes < 0 || b.length-b.n > cfg.DrainBytes:
		return "size"
	}
	return ""
}

// drain looks for the end of the body, within DrainBytes and DrainTime, and says why it was not found. It runs on the
// caller's goroutine: the usual deferred cancel would kill one in the background.
func (b *respBody) drain() string {
	s := b.send
	raw := s.conn.raw
	t := time.AfterFunc(s.pool.cfg.DrainTime, func() { raw.Close() }) // ends the Read
	defer t.Stop()
	buf := s.conn.drainBuffer()
	for left := s.pool.cfg.DrainBytes; left >= 0; {
		n, err := b.inner.Read(buf)
		b.n += int64(n)
		left -= int64(n)
		switch {
		case err == io.EOF && t.Stop():
			return ""
		case err == nil:
		case s.ctx().Err() != nil:
			return "context"
		case !t.Stop():
			return "time"
		default:
			return "failed"
		}
	}
	return "size"
}

// drop closes a body whose connection cannot be kept.
func (b *respBody) drop(reading bool, detail string) {
	s := b.send
	if reading {
		s.conn.raw.Close() // ends the Read
	}
	b.inner.Close()
	s.gone = true
	cause := closeCause{reason: ReasonUndrained, detail: detail, unread: -1}
	if b.length >= 0 {
		cause.unread = b.length - b.n
	}
	switch detail {
	case "last":
		cause = s.cleanCause()
	case "context":
		cause = s.contextCause()
	}
	s.checkIn(cause)
}

// brokenBody checks in a connection whose body ended in an error, and returns the error for the reader.
func (s *send) brokenBody(err error) error {
	cause := closeCause{reason: ReasonError, detail: "body", err: err}
	if s.ctx().Err() != nil {
		cause = s.contextCause()
		if s.line.wasCut() {
			err = contextError(s.ctx())
		}
	}
	s.gone = !s.conn.h2
	s.checkIn(cause)
	if s.pool.isCut() {
		return s.error(Closed, ErrClosed)
	}
	return err
}

// contextCause is why a connection closes whose request was given up.
func (s *send) contextCause() closeCause {
	ctx := s.ctx()
	cause := closeCause{reason: ReasonError, detail: "canceled", err: context.Cause(ctx)}
	if byTime(ctx) {
		cause.detail = "timeout"
	}
	return cause
}

// byTime reports whether a context ended because its time was over.
func byTime(ctx context.Context) bool {
	if ctx.Err() == context.DeadlineExceeded {
		return true
	}
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](context.Cause(ctx))
	return ok && t.Timeout()
}

// A switchedBody is the body of a 101: a connection that is the caller's now, in both directions. Only Close ends it.
type switchedBody struct {
	send  *send
	inner io.ReadCloser
	once  sync.Once
}

func (b *switchedBody) Read(p []byte) (int, error) { return b.inner.Read(p) }

func (b *switchedBody) Write(p []byte) (int, error) { return b.inner.(io.Writer).Write(p) }

// CloseWrite ends the writing half, where the connection has one.
func (b *switchedBody) CloseWrite() error {
	if cw, ok := b.inner.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return http.ErrNotSupported
}

func (b *switchedBody) Close() error {
	err := net.ErrClosed
	b.once.Do(func() {
		err = b.inner.Close()
		b.send.checkIn(closeCause{reason: ReasonServer, detail: "switching_protocols"})
	})
	return err
}
