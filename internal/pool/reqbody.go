package pool

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
)

// outgoing is the body of a request: what net/http is given of it, and what is known of its fate.
type outgoing struct {
	body   io.ReadCloser // for net/http
	watch  *reqBody      // nil: there is no body, or one that needs no watching
	length int64         // declared; -1 = unknown
}

// set takes body for the next send.
func (o *outgoing) set(body io.ReadCloser, length int64) {
	o.body, o.watch = body, nil
	if body == nil || body == http.NoBody || InMemory(body) {
		return
	}
	if length == 0 {
		length = -1 // net/http's convention for a body that is there
	}
	o.length = length
	w := &reqBody{inner: body, length: length}
	o.body, o.watch = w, w
}

// rewind makes the body ready for a second send: absent, not read yet, or made anew by GetBody.
func (o *outgoing) rewind(req *http.Request) bool {
	if o.body == nil || o.body == http.NoBody {
		return true
	}
	if o.watch != nil && o.watch.detach() {
		o.set(o.watch.inner, o.length)
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	o.end()
	o.set(body, req.ContentLength)
	return true
}

// release lets net/http close the body from now on: there is a response, and no second send.
func (o *outgoing) release() {
	if o.watch != nil {
		o.watch.release()
	}
}

// end closes the body, whatever became of it.
func (o *outgoing) end() {
	if o.watch != nil {
		o.watch.closeInner()
	}
}

// count is how much of the body has been read, and so, give or take a buffer, written. Of a body that is not watched it is
// known only when all of it is.
func (o *outgoing) count(req *http.Request, all bool) int64 {
	switch {
	case o.watch != nil:
		return o.watch.n.Load()
	case all:
		return max(req.ContentLength, 0)
	}
	return 0
}

// faulty reports whether the body itself made the send fail.
func (o *outgoing) faulty() bool { return o.watch != nil && o.watch.fault.Load() }

// panicked returns what the body's Read panicked with.
func (o *outgoing) panicked() (value any, ok bool) {
	if o.watch == nil {
		return nil, false
	}
	v := o.watch.panicked.Load()
	if v == nil {
		return nil, false
	}
	return *v, true
}

// A reqBody stands between net/http and a request's body. It knows whether the body was read, how much, and whether it
// failed; it catches a panic, which on net/http's goroutine would end the process; and it closes the body once. Until there
// is a response, a body that was not read is not closed, as a second send may need it.
type reqBody struct {
	inner    io.ReadCloser
	length   int64 // declared; -1 = unknown
	stage    atomic.Int32
	n        atomic.Int64
	fault    atomic.Bool
	panicked atomic.Pointer[any]
	asked    atomic.Bool // net/http wants it closed
	released atomic.Bool // and may have that
	closed   atomic.Bool
}

// Stages of a reqBody.
const (
	bodyUnread int32 = iota
	bodyRead
	bodyDetached // another reqBody has the reader now
)

var (
	errBodyGone  = errors.New("request body belongs to another send")
	errBodyPanic = errors.New("request body panicked")
)

func (b *reqBody) Read(p []byte) (n int, err error) {
	if b.stage.Load() != bodyRead && !b.stage.CompareAndSwap(bodyUnread, bodyRead) && b.stage.Load() == bodyDetached {
		return 0, errBodyGone
	}
	whole := false
	defer func() {
		if !whole {
			v := recover()
			b.panicked.Store(&v)
			b.fault.Store(true)
			n, err = 0, errBodyPanic
		}
	}()
	n, err = b.inner.Read(p)
	whole = true
	total := b.n.Add(int64(n))
	switch {
	case err != nil && err != io.EOF:
		b.fault.Store(true)
	case b.length < 0:
	case total > b.length, err == io.EOF && total != b.length:
		b.fault.Store(true)
	}
	return n, err
}

func (b *reqBody) Close() error {
	b.asked.Store(true)
	if b.released.Load() || b.stage.Load() == bodyRead {
		return b.closeInner()
	}
	return nil
}

func (b *reqBody) closeInner() error {
	if b.stage.Load() == bodyDetached || b.closed.Swap(true) {
		return nil
	}
	return b.inner.Close()
}

// release ends the shielding of an unread body.
func (b *reqBody) release() {
	b.released.Store(true)
	if b.asked.Load() {
		b.closeInner()
	}
}

// detach gives the reader up to a new reqBody, if it has not been read.
func (b *reqBody) detach() bool { return b.stage.CompareAndSwap(bodyUnread, bodyDetached) }

// InMemory reports whether net/http will know the body as one that reads from memory. It then sends headers and body in one
// write, which a wrapper would spoil; and such a body neither fails, nor panics, nor minds being closed.
func InMemory(body io.ReadCloser) bool {
	t := reflect.TypeOf(body)
	if t != nopCloser && t != nopCloserWriterTo {
		return false
	}
	switch reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))
)
