package sortietest

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// piece is the most that is written at a time.
const piece = 16 << 10

// filler is what an endless body consists of.
var filler = strings.Repeat("sortie\n", piece/len("sortie\n")+1)

// exchange is one request being answered.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	conn *conn
}

// play does what s says. It returns when the answer is complete, and otherwise panics with [http.ErrAbortHandler],
// the way net/http offers to leave a handler without completing the answer.
func (s Step) play(x *exchange) {
	switch {
	case s.handler != nil:
	case s.unread: // without this, net/http reads some 256 KiB before it sends headers
		x.must(http.NewResponseController(x.w).EnableFullDuplex())
	default:
		x.readBody()
	}
	x.wait(s.delay)
	switch {
	case s.handler != nil:
		s.handler.ServeHTTP(x.w, x.r)
	case s.fault != none && !s.inBody:
		x.fail(s.fault)
	default:
		s.writeHeader(x)
		s.writeBody(x)
	}
}

func (s Step) writeHeader(x *exchange) {
	h := x.w.Header()
	maps.Copy(h, s.header)
	if s.last {
		h.Set("Connection", "close")
	}
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	if h.Get("Content-Length") == "" && !s.endless && bodyAllowed(status) {
		h.Set("Content-Length", strconv.Itoa(s.length()))
	}
	x.w.WriteHeader(status)
}

// length is the Content-Length: more than will be sent, if the body is to break off.
func (s Step) length() int {
	if s.inBody {
		return max(len(s.body), s.faultAt+1)
	}
	return len(s.body)
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

func (s Step) writeBody(x *exchange) {
	for pos := 0; ; {
		if s.stall > 0 && pos == s.stallAt {
			x.flush()
			x.wait(s.stall)
		}
		next := s.next(pos)
		if s.inBody && (pos == s.faultAt || next == pos) {
			x.flush()
			x.fail(s.fault)
		}
		if next == pos {
			return
		}
		x.write(s.bytes(pos, next))
		pos = next
		if s.drip > 0 {
			x.flush()
			if s.endless || pos < len(s.body) {
				x.wait(s.dripPause)
			}
		}
	}
}

// next is the position up to which the body can be written in one go from pos on: to where something is to happen.
func (s Step) next(pos int) int {
	next := pos + piece
	if !s.endless {
		next = min(next, len(s.body))
	}
	if s.drip > 0 {
		next = min(next, pos+s.drip)
	}
	if s.stall > 0 && s.stallAt > pos {
		next = min(next, s.stallAt)
	}
	if s.inBody && s.faultAt > pos {
		next = min(next, s.faultAt)
	}
	return next
}

func (s Step) bytes(from, to int) string {
	if s.endless {
		return filler[:to-from]
	}
	return s.body[from:to]
}

func (x *exchange) readBody() {
	_, err := io.Copy(io.Discard, x.r.Body)
	x.must(err)
}

func (x *exchange) write(b string) {
	if _, err := io.WriteString(x.w, b); !errors.Is(err, http.ErrBodyNotAllowed) {
		x.must(err)
	}
}

func (x *exchange) flush() {
	x.must(http.NewResponseController(x.w).Flush())
}

// must leaves the handler if the client is gone.
func (x *exchange) must(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// settle lets a connection come to rest before it is cut. On HTTP/2 what was flushed stands in line for a goroutine of
// the connection, and net/http does not tell when that has written; and frames not yet read would turn a close into a
// reset. In a bubble this is exact: time moves on when nobody has anything to do.
func (x *exchange) settle() {
	if x.r.ProtoMajor > 1 {
		x.wait(10 * time.Millisecond)
	}
}

// wait sleeps for d, and leaves the handler if the request's context ends: the client has gone, or the upstream closes.
func (x *exchange) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// fail does not return.
func (x *exchange) fail(f fault) {
	switch f {
	case hang:
		<-x.r.Context().Done()
	case reset:
		x.settle()
		x.conn.reset()
	case hangup:
		if x.r.ProtoMajor > 1 { // on HTTP/1 leaving the handler closes the connection, with TLS's farewell
			x.settle()
			x.conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}
