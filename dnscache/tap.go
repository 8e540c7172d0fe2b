package dnscache

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

var (
	// errResting and errEnough make package net go on to its next server at once, or give up.
	errResting = errors.New("server rests after timeouts")
	errEnough  = errors.New("each server was asked twice")
)

// triesPerServer is how often each of Resolver.Servers is asked one question, which is package net's default too.
const triesPerServer = 2

// collector is the owner of all that is seen on the wire for one question. Package net's goroutines may outlive the
// call, so it has a mutex.
type collector struct {
	core *core
	ctx  context.Context // of the question; when it ends, sockets are closed

	mu        sync.Mutex
	tries     int // sockets asked for, TCP after a truncated answer not counted
	server    string
	truncated bool // the last answer was: the next socket is TCP to the same server
	sent      int
	reply     parsed // the last that counted
	from      string // and who sent it
	local     error  // of our own side
	timeouts  int
	dialErr   error
	open      map[net.Conn]struct{}
	aborted   bool
}

// abort closes the question's sockets. Package net would wait for their deadlines, and leave its goroutines behind.
func (q *collector) abort() {
	q.mu.Lock()
	q.aborted = true
	open := q.open
	q.open = nil
	q.mu.Unlock()
	for c := range open {
		c.Close()
	}
}

// dial is net.Resolver's Dial for this question. Package net's context is read for its deadline only.
func (q *collector) dial(netCtx context.Context, network, address string) (net.Conn, error) {
	server, err := q.choose(network, address)
	if err != nil {
		return nil, err
	}
	limit := q.core.cfg.queryTimeout
	if isTCP(network) {
		limit *= tcpPatience
	}
	latest := time.Now().Add(limit)
	if d, ok := netCtx.Deadline(); ok && d.Before(latest) {
		latest = d
	}
	ctx, cancel := context.WithDeadline(q.ctx, latest)
	defer cancel()
	c, err := q.core.cfg.dialDNS(ctx, network, server)
	if err != nil {
		q.failed(server, err)
		return nil, err
	}
	if !q.opened(c) {
		c.Close()
		return nil, net.ErrClosed
	}
	t := &tap{Conn: c, q: q, server: server, limit: limit, stream: true}
	if p, ok := c.(net.PacketConn); ok {
		t.stream = false
		return &packetTap{tap: t, PacketConn: p}, nil
	}
	return t, nil
}

func (q *collector) opened(c net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aborted {
		return false
	}
	if q.open == nil {
		q.open = make(map[net.Conn]struct{})
	}
	q.open[c] = struct{}{}
	return true
}

// tcpPatience is how many times longer a TCP exchange may take than one over UDP: it has a handshake.
const tcpPatience = 2

func isTCP(network string) bool { return len(network) >= 3 && network[:3] == "tcp" }

// choose says which server this socket is for. With Resolver.Servers, try k of a question goes to server k mod n, past
// those that rest.
func (q *collector) choose(network, address string) (string, error) {
	now := time.Now()
	servers := q.core.cfg.servers
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aborted {
		return "", net.ErrClosed
	}
	if q.truncated && isTCP(network) {
		q.truncated = false
		return q.server, nil
	}
	if len(servers) == 0 {
		q.tries++
		q.server = address
		if q.core.servers.resting(address, now) {
			return "", errResting
		}
		return address, nil
	}
	for q.tries < triesPerServer*len(servers) {
		q.server = servers[q.tries%len(servers)]
		q.tries++
		if !q.core.servers.resting(q.server, now) {
			return q.server, nil
		}
	}
	return "", errEnough
}

// failed notes an error of a socket.
func (q *collector) failed(server string, err error) {
	timeout := isTimeout(err)
	if timeout {
		q.core.servers.timedOut(server, time.Now())
		q.core.stats.timeouts.Add(1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case isLocal(err):
		q.local = err
	case timeout:
		q.timeouts++
	default:
		q.dialErr = err
	}
}

// isTimeout reports whether nothing came in time. Package net's errors for that differ between dial and read.
func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	nerr, ok := errors.AsType[net.Error](err)
	return ok && nerr.Timeout()
}

// isLocal reports whether an error is of our own side: no file, memory, port or permission. It says nothing about the
// server or the name, and a low ulimit has shown up as "no such host" (golang/go#18588).
func isLocal(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL:
		return true
	}
	return false
}

// saw notes a reply to query.
func (q *collector) saw(server string, query query, msg []byte, stream bool) {
	p := parseReply(query, msg, stream)
	if p.verdict == ignored {
		return
	}
	q.core.servers.answered(server, time.Now())
	if p.verdict != truncated { // its TCP reply is counted
		q.core.stats.answer(p)
		q.core.metrics.Answered(rcodeOf(p))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.verdict == truncated {
		q.truncated = true
		return
	}
	q.reply, q.from = p, server
}

func (q *collector) asked() {
	q.core.stats.questions.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
}

// tap is a connection to a DNS server that reads along. It belongs to one goroutine of package net, as a connection
// does that carries one question.
type tap struct {
	net.Conn
	q      *collector
	server string
	limit  time.Duration
	stream bool

	query query
	valid bool   // query is one
	buf   []byte // of a stream: what has arrived of the message, its length in front
}

func (t *tap) Write(b []byte) (int, error) {
	msg := b
	if t.stream && len(b) >= 2 {
		msg = b[2:]
	}
	t.query, t.valid = parseQuery(msg)
	t.q.asked()
	n, err := t.Conn.Write(b)
	if err != nil {
		t.q.failed(t.server, err)
	}
	return n, err
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	switch {
	case n > 0 && t.stream:
		t.reassemble(b[:n])
	case n > 0:
		t.message(b[:n])
	}
	if err != nil {
		t.q.failed(t.server, err)
	}
	return n, err
}

// reassemble collects one message, which its length of two bytes bounds to 64 KiB.
func (t *tap) reassemble(b []byte) {
	t.buf = append(t.buf, b...)
	for len(t.buf) >= 2 {
		size := 2 + int(binary.BigEndian.Uint16(t.buf))
		if len(t.buf) < size {
			return
		}
		t.message(t.buf[2:size])
		t.buf = t.buf[size:]
	}
}

func (t *tap) message(msg []byte) {
	if t.valid {
		t.q.saw(t.server, t.query, msg, t.stream)
	}
}

// Close is called once by package net, when it has the reply or has given up.
func (t *tap) Close() error {
	t.q.mu.Lock()
	delete(t.q.open, t.Conn)
	t.q.mu.Unlock()
	return t.Conn.Close()
}

// SetDeadline cuts package net's deadline, 5 s by default, to what a server is given here. It never lengthens it.
func (t *tap) SetDeadline(d time.Time) error {
	if latest := time.Now().Add(t.limit); d.IsZero() || d.After(latest) {
		d = latest
	}
	return t.Conn.SetDeadline(d)
}

// packetTap is a tap on a UDP socket. Package net takes a connection for one exactly when it is a net.PacketConn.
type packetTap struct {
	*tap
	net.PacketConn
}

func (t *packetTap) Read(b []byte) (int, error)         { return t.tap.Read(b) }
func (t *packetTap) Write(b []byte) (int, error)        { return t.tap.Write(b) }
func (t *packetTap) Close() error                       { return t.tap.Close() }
func (t *packetTap) LocalAddr() net.Addr                { return t.tap.LocalAddr() }
func (t *packetTap) SetDeadline(d time.Time) error      { return t.tap.SetDeadline(d) }
func (t *packetTap) SetReadDeadline(d time.Time) error  { return t.Conn.SetReadDeadline(d) }
func (t *packetTap) SetWriteDeadline(d time.Time) error { return t.Conn.SetWriteDeadline(d) }
