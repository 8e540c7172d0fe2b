package client

import (
	"io"
	"net/http"

	"github.com/sortie-go/sortie/metrics"
)

// A responseBody is what the caller reads. With its end the call ends.
type responseBody struct {
	call   *call
	inner  io.ReadCloser
	closed bool // guarded by call.mu
}

// An upgradedBody is the body of a 101: net/http promises that it can be written to, and half-closed where the connection can.
type upgradedBody struct {
	*responseBody
	io.Writer
}

// CloseWrite ends the writing half.
func (b *upgradedBody) CloseWrite() error {
	if half, ok := b.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

func (b *responseBody) Read(p []byte) (int, error) {
	c := b.call
	if err := b.beginRead(); err != nil {
		return 0, err
	}
	n, err := b.inner.Read(p)
	c.mu.Lock()
	c.limits.read = 0
	if err != io.EOF {
		c.reading = false // at the end it stays, so that nobody takes the body for one that is not read
	}
	closed := b.closed
	now := c.now()
	if !c.ended {
		c.watch.book(metrics.PhaseBody, now)
		c.received += int64(n)
	}
	c.mu.Unlock()
	switch {
	case err == nil:
		return n, nil
	case closed: // by another goroutine, and that is why the read failed
		return n, http.ErrBodyReadAfterClose
	case err == io.EOF:
		c.endAt(now, statusReason(c.status), nil)
		return n, io.EOF
	}
	return n, b.fail(err)
}

// beginRead books the time since the last read to the caller, and starts the limit of this one.
func (b *responseBody) beginRead() error {
	c := b.call
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case b.closed:
		return http.ErrBodyReadAfterClose
	case c.failure != nil:
		return c.failure
	case c.ended:
		return io.EOF
	}
	now := c.now()
	c.watch.book(metrics.PhaseCaller, now)
	c.reading = true
	if c.limits.progress > 0 {
		c.limits.read = now + c.limits.progress
		c.armLocked(now)
	}
	return nil
}

// fail ends the call because reading the body failed.
func (b *responseBody) fail(err error) error {
	c := b.call
	e := &Error{Reason: c.answer.classifyBody(err), Err: err}
	c.end(e.Reason, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure // somebody else ended the call first, and knew why
	}
	return e
}

// Close ends the call. What the pool still reads, to keep the connection, counts as reading the body.
func (b *responseBody) Close() error {
	c := b.call
	c.mu.Lock()
	if b.closed {
		c.mu.Unlock()
		return nil
	}
	b.closed = true
	over := c.ended
	if !over && !c.reading {
		c.watch.book(metrics.PhaseCaller, c.now())
	}
	c.mu.Unlock()

	err := b.inner.Close()
	if over {
		return err
	}
	c.mu.Lock()
	if !c.ended && !c.reading {
		c.watch.book(metrics.PhaseBody, c.now())
	}
	c.mu.Unlock()
	c.succeed()
	return err
}
