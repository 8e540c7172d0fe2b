package pool_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// An h2peer is a server's end of an HTTP/2 connection without TLS, for stories in which the server does what http.Server
// never would. It knows frames (RFC 9113 section 4) and no more: requests are not decoded.
type h2peer struct {
	nc net.Conn
	br *bufio.Reader

	mu sync.Mutex // serialises writes
}

// Frame types, flags and error codes used here.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	flagAck, flagEndStream, flagEndHeaders                                     = 1, 1, 4
	codeNone, codeInternal, codeRefused                                        = 0, 2, 7
)

// greet reads the preface and sends settings; maxStreams 0 = unlimited.
func greet(nc net.Conn, maxStreams uint32) (*h2peer, bool) {
	p := &h2peer{nc: nc, br: bufio.NewReader(nc)}
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(p.br, preface); err != nil {
		return nil, false
	}
	var settings []byte
	if maxStreams > 0 {
		settings = binary.BigEndian.AppendUint16(settings, 3)
		settings = binary.BigEndian.AppendUint32(settings, maxStreams)
	}
	p.send(frameSettings, 0, 0, settings)
	return p, true
}

// next returns the stream of the next request, whose body, if any, is passed over; false = the connection is over. Settings
// and pings are answered on the way.
func (p *h2peer) next() (stream uint32, ok bool) {
	for {
		kind, flags, id, payload, ok := p.frame()
		switch {
		case !ok:
			return 0, false
		case kind == frameHeaders:
			stream = id
		case kind == frameSettings && flags&flagAck == 0:
			p.send(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			p.send(framePing, flagAck, 0, payload)
		}
		if (kind == frameHeaders || kind == frameData) && id == stream && flags&flagEndStream != 0 {
			return stream, true
		}
	}
}

func (p *h2peer) frame() (kind, flags byte, stream uint32, payload []byte, ok bool) {
	var h [9]byte
	if _, err := io.ReadFull(p.br, h[:]); err != nil {
		return 0, 0, 0, nil, false
	}
	payload = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	if _, err := io.ReadFull(p.br, payload); err != nil {
		return 0, 0, 0, nil, false
	}
	return h[3], h[4], binary.BigEndian.Uint32(h[5:]), payload, true
}

func (p *h2peer) send(kind, flags byte, stream uint32, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	p.nc.Write(append(b, payload...))
}

// answer says 200 and "ok".
func (p *h2peer) answer(stream uint32) {
	p.send(frameHeaders, flagEndHeaders, stream, []byte{0x88}) // HPACK: indexed, :status 200
	p.send(frameData, flagEndStream, stream, []byte("ok"))
}

func (p *h2peer) reset(stream, code uint32) {
	p.send(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (p *h2peer) goAway(last, code uint32) {
	b := binary.BigEndian.AppendUint32(nil, last)
	p.send(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(b, code))
}
