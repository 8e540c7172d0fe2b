package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/sortie-go/sortie/internal/pool"
)

// errBodyTaken is what a send reads that has lost its body to a later one.
var errBodyTaken = errors.New("request body belongs to a later attempt")

// A requestBody stands between one attempt and a body: it is closed once, whoever asks, remembers whether a failure was
// the body's own, and knows whether anything was read. As long as nothing was, a Close is only noted, since another attempt
// may need the body.
type requestBody struct {
	inner  io.ReadCloser
	length int64 // as the request declared it; 0 or less: unknown

	mu      sync.Mutex // net/http may close it while it reads
	started bool
	read    int64
	eof     bool
	err     error
	closed  bool // inner is closed, or somebody else's
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, errBodyTaken
	}
	b.started = true
	b.mu.Unlock()

	n, err := b.inner.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	switch {
	case err == io.EOF:
		b.eof = true
	case err != nil && !b.closed: // an error after Close is the answer to the closing
		b.err = err
	}
	return n, err
}

// Close closes the body if it has been read from; see finish for the rest.
func (b *requestBody) Close() error {
	b.mu.Lock()
	if b.closed || !b.started {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	return b.inner.Close()
}

// finish closes a body that nobody has read from: no attempt will need it any more. One that is being read is closed by
// who reads it.
func (b *requestBody) finish() {
	b.mu.Lock()
	if b.closed || b.started {
		b.mu.Unlock()
		return
	}
	b.closed = true
	b.mu.Unlock()
	b.inner.Close()
}

// end closes the body, whoever has read from it.
func (b *requestBody) end() {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if !closed {
		b.inner.Close()
	}
}

// take gives the body up to another attempt, if nothing has been read from it.
func (b *requestBody) take() (io.ReadCloser, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.started {
		return nil, false
	}
	b.closed = true
	return b.inner, true
}

// unread reports whether take would succeed.
func (b *requestBody) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && !b.started
}

// failed reports that the body could not be sent as the request declared it: it returned an error, or had another length.
func (b *requestBody) failed() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil || b.length > 0 && (b.read > b.length || b.eof && b.read < b.length)
}

// hasBody reports whether the request has a body at all.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// setBody gives the attempt's request its body: the caller's own for the first, for others whatever replays it.
func (a *attempt) setBody() error {
	req := a.call.req
	if !hasBody(req) {
		return nil
	}
	if a.call.buffered() == nil && pool.InMemory(req.Body) && req.GetBody != nil && a.number == 1 {
		return nil // as it is: net/http sends such a body in one write with the headers, and closing it means nothing
	}
	inner, err := a.nextBody()
	if err != nil {
		return err
	}
	a.sent = &requestBody{inner: inner, length: req.ContentLength}
	a.request.Body = a.sent
	return nil
}

// nextBody returns a reader for the attempt. No two attempts share one.
func (a *attempt) nextBody() (io.ReadCloser, error) {
	c := a.call
	if buffered := c.buffered(); buffered != nil {
		return io.NopCloser(bytes.NewReader(buffered)), nil
	}
	if a.number == 1 {
		return c.req.Body, nil
	}
	before := c.attempts[a.number-2]
	if before.sent != nil && a.kind != KindHedge { // whose predecessor still runs
		if inner, ok := before.sent.take(); ok {
			return inner, nil
		}
	}
	return c.req.GetBody()
}

// replayable reports whether another attempt could have the body: there is none, nothing was read from it, or it can be
// had anew.
func (c *call) replayable() bool {
	if !hasBody(c.req) || c.req.GetBody != nil || c.buffered() != nil {
		return true
	}
	last := c.last()
	return last == nil || last.sent != nil && last.sent.unread()
}

// closeRequestBodies closes whatever bodies the call still owns: no attempt needs one any more, but for one that runs beside
// another and has a body of its own.
func (c *call) closeRequestBodies() {
	if len(c.attempts) == 0 && c.buffered() == nil {
		if c.req.Body != nil {
			c.req.Body.Close()
		}
		return
	}
	for _, a := range c.attempts {
		if !a.beside {
			a.closeBody()
		}
	}
}

// closeBody closes what nobody else will close. The pool closes what it was handed and has read from; a signer that read
// the body and put its own in place, and a foreign Transport, may forget it.
func (a *attempt) closeBody() {
	body, own := a.request.Body.(*requestBody)
	own = own && body == a.sent
	if a.sent != nil {
		if own && a.handed && a.endpoint.pool != nil {
			a.sent.finish()
		} else {
			a.sent.end()
		}
	}
	if !own && !a.handed && a.request.Body != nil {
		a.request.Body.Close() // the signer's
	}
}
