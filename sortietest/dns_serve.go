package sortietest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Listen is [DNS.Start] for programs and for TestMain, where no test is at hand: the caller closes.
func (d *DNS) Listen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		return errDNSStarted
	}
	udp, tcp, err := listenDNS()
	if err != nil {
		return err
	}
	d.udp, d.tcp, d.done = udp, tcp, make(chan struct{})
	d.conns = make(map[net.Conn]struct{})
	d.serving.Go(d.servePackets)
	d.serving.Go(d.acceptStreams)
	return nil
}

// listenDNS finds a port that is free for UDP and for TCP.
func listenDNS() (net.PacketConn, net.Listener, error) {
	var failed error
	for range 20 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp, nil
		}
		udp.Close()
		failed = err
	}
	return nil, nil, failed
}

// Addr returns where the server listens; the zero AddrPort if it does not.
func (d *DNS) Addr() netip.AddrPort {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.udp == nil {
		return netip.AddrPort{}
	}
	return d.udp.LocalAddr().(*net.UDPAddr).AddrPort()
}

// DialLoopback connects to the loopback sockets, whatever the address: a dial function for clients of [DNS.Start].
func (d *DNS) DialLoopback(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, d.Addr().String())
}

// Close stops listening and waits until nothing of the server runs any more. It is idempotent.
func (d *DNS) Close() error {
	d.mu.Lock()
	if d.done == nil {
		d.mu.Unlock()
		return nil
	}
	if !d.closed {
		d.closed = true
		close(d.done)
		d.udp.Close()
		d.tcp.Close()
		for c := range d.conns {
			c.Close()
		}
	}
	d.mu.Unlock()
	d.serving.Wait()
	return nil
}

func (d *DNS) servePackets() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := d.udp.ReadFrom(buf)
		if err != nil {
			if d.isClosed() {
				return
			}
			continue // an ICMP error of an earlier answer
		}
		query := append([]byte(nil), buf[:n]...)
		d.serving.Go(func() {
			send := func(b []byte) { d.udp.WriteTo(b, from) }
			d.serve(query, "udp", from.(*net.UDPAddr).AddrPort(), d.done, send)
		})
	}
}

func (d *DNS) acceptStreams() {
	for {
		c, err := d.tcp.Accept()
		if err != nil {
			return
		}
		if !d.admit(c) {
			c.Close()
			return
		}
		d.serving.Go(func() {
			d.serveStream(c, c.RemoteAddr().(*net.TCPAddr).AddrPort(), d.done)
			d.mu.Lock()
			delete(d.conns, c)
			d.mu.Unlock()
		})
	}
}

func (d *DNS) admit(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

func (d *DNS) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// serveStream answers what comes on c, one message after the other, each behind its length (RFC 1035 section 4.2.2).
func (d *DNS) serveStream(c net.Conn, from netip.AddrPort, done <-chan struct{}) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		d.serve(query, "tcp", from, done, func(b []byte) {
			c.Write(binary.BigEndian.AppendUint16(nil, uint16(len(b))))
			c.Write(b)
		})
	}
}

// serve answers one query, after its delay unless done ends first. What is no query gets no answer.
func (d *DNS) serve(query []byte, network string, from netip.AddrPort, done <-chan struct{}, send func([]byte)) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return
	}
	q, err := p.Question()
	if err != nil {
		return
	}
	reply := d.answer(DNSQuestion{
		Name: strings.ToLower(q.Name.String()), Type: typeName(q.Type), Network: network, From: from,
	})
	if !pause(reply.Delay, done) || reply.Drop {
		return
	}
	for _, b := range reply.messages(h, q, network) {
		send(b)
	}
}

// pause waits, and reports false if done ended the wait.
func pause(d time.Duration, done <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

func typeName(t dnsmessage.Type) string {
	switch t {
	case dnsmessage.TypeA:
		return "A"
	case dnsmessage.TypeAAAA:
		return "AAAA"
	}
	return fmt.Sprintf("TYPE%d", uint16(t))
}
