package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes a direction holds that were written and not yet read.
const window = 64 << 10

// stream is one direction of a connection: bytes from a writer to a reader, and news both ways.
type stream struct {
	delay time.Duration // from writer to reader, and for news from reader to writer

	mu       sync.Mutex
	changed  sync.Cond // any of what follows
	buf      []byte    // buf[off:] is written and not yet read
	off      int
	flights  []flight // of the unread bytes; kept only with a delay
	lost     int      // bytes swallowed since drop
	dropped  bool
	toReader news // what follows the last byte: io.EOF or a reset
	toWriter news // why no more can be written: EPIPE or a reset
	writing  bool // a Write is in progress; others wait, so that their bytes do not mix
	finished bool // CloseWrite was called
	wclosed  bool // the writing end is closed
	rclosed  bool // the reading end is closed
	rdl, wdl deadline
}

// flight is a number of bytes that arrive together.
type flight struct {
	n  int
	at time.Time
}

// news is an error that becomes known to one end at some time. The first one stays.
type news struct {
	err error
	at  time.Time
}

func newStream(delay time.Duration) *stream {
	s := &stream{delay: delay}
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.rclosed:
			return 0, net.ErrClosed
		case len(b) == 0:
			return 0, nil
		case s.rdl.expired:
			return 0, os.ErrDeadlineExceeded
		}
		if n := s.arrived(); n > 0 {
			return s.take(b[:min(n, len(b))]), nil
		}
		if s.off == len(s.buf) && s.toReader.known() {
			return 0, s.toReader.err
		}
		s.changed.Wait()
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing && s.writeErr() == nil {
		s.changed.Wait()
	}
	if err := s.writeErr(); err != nil {
		return 0, err
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.changed.Broadcast()
	}()
	for len(b) > 0 {
		if err := s.writeErr(); err != nil {
			return n, err
		}
		k := min(len(b), window-s.lost-(len(s.buf)-s.off))
		if k == 0 {
			s.changed.Wait()
			continue
		}
		s.put(b[:k])
		n, b = n+k, b[k:]
	}
	return n, nil
}

func (s *stream) writeErr() error {
	switch {
	case s.wclosed:
		return net.ErrClosed
	case s.wdl.expired:
		return os.ErrDeadlineExceeded
	case s.toWriter.known():
		return os.NewSyscallError("write", s.toWriter.err)
	case s.finished:
		return os.NewSyscallError("write", syscall.EPIPE)
	}
	return nil
}

// put sends b, for which there is room.
func (s *stream) put(b []byte) {
	switch {
	case s.dropped:
		s.lost += len(b)
		return
	case s.rclosed: // and the news of it is still on its way
		return
	}
	if s.off > 0 && len(s.buf)+len(b) > cap(s.buf) {
		s.buf = s.buf[:copy(s.buf, s.buf[s.off:])]
		s.off = 0
	}
	s.buf = append(s.buf, b...)
	if s.delay > 0 {
		s.flights = append(s.flights, flight{len(b), time.Now().Add(s.delay)})
	}
	s.wakeOnArrival()
}

// take moves bytes that have arrived into b, which is no longer than they are.
func (s *stream) take(b []byte) int {
	n := copy(b, s.buf[s.off:])
	s.off += n
	if s.off == len(s.buf) {
		s.buf, s.off = s.buf[:0], 0
	}
	for left := n; left > 0 && len(s.flights) > 0; {
		k := min(left, s.flights[0].n)
		left -= k
		if s.flights[0].n -= k; s.flights[0].n == 0 {
			s.flights = s.flights[1:]
		}
	}
	s.changed.Broadcast()
	return n
}

// arrived counts the bytes that can be read.
func (s *stream) arrived() int {
	if s.delay == 0 {
		return len(s.buf) - s.off
	}
	n, now := 0, time.Now()
	for _, f := range s.flights {
		if f.at.After(now) {
			break
		}
		n += f.n
	}
	return n
}

// closeWrite ends the stream at the writer's end: half of it, or with whole the file descriptor, as it were. It
// reports false if that end is closed already.
func (s *stream) closeWrite(whole bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wclosed {
		return false
	}
	s.finished = true
	s.wclosed = whole
	if whole {
		s.wdl.stop()
	}
	s.tell(&s.toReader, io.EOF)
	s.changed.Broadcast()
	return true
}

// closeRead closes the reader's end, and reports whether bytes were left unread.
func (s *stream) closeRead() (unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unread = s.off < len(s.buf)
	s.rclosed = true
	s.rdl.stop()
	s.buf, s.off, s.flights = nil, 0, nil
	if unread {
		s.tell(&s.toWriter, syscall.ECONNRESET)
	} else {
		s.tell(&s.toWriter, syscall.EPIPE)
	}
	s.changed.Broadcast()
	return unread
}

// reset breaks the stream for both ends.
func (s *stream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(&s.toReader, errReadReset)
	s.tell(&s.toWriter, syscall.ECONNRESET)
}

// drop cuts the wire.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
}

// tell sends err to one end, unless the wire is cut or the end has been told something else before.
func (s *stream) tell(end *news, err error) {
	if s.dropped || end.err != nil {
		return
	}
	*end = news{err: err, at: time.Now().Add(s.delay)}
	s.wakeOnArrival()
}

// wakeOnArrival lets both ends look again when what was sent now has arrived.
func (s *stream) wakeOnArrival() {
	if s.delay == 0 {
		s.changed.Broadcast()
		return
	}
	time.AfterFunc(s.delay, s.wake)
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

func (n news) known() bool { return n.err != nil && !n.at.After(time.Now()) }
