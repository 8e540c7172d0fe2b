package sortietest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sortie-go/sortie/sortietest"
)

// askDNS puts one question to the server over the connection and returns its answer.
func askDNS(c net.Conn, id uint16, name string, kind dnsmessage.Type) (dnsmessage.Message, error) {
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	b, err := query.Pack()
	if err != nil {
		return query, err
	}
	_, packets := c.(net.PacketConn)
	if !packets {
		b = append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
	}
	if _, err := c.Write(b); err != nil {
		return query, err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err == nil && !packets {
		n, err = c.Read(buf[:binary.BigEndian.Uint16(buf)])
	}
	if err != nil {
		return query, err
	}
	var m dnsmessage.Message
	return m, m.Unpack(buf[:n])
}

// dnsInMemory runs a story in a bubble with a server and a UDP connection to it.
func dnsInMemory(t *testing.T, story func(t *testing.T, d *sortietest.DNS, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := new(sortietest.DNS)
		c, err := d.DialContext(t.Context(), "udp", "192.0.2.53:53")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		story(t, d, c)
	})
}

func dnsAnswers(m dnsmessage.Message) (out []string) {
	for _, r := range m.Answers {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, fmt.Sprint(r.Header.Name, " ", r.Header.TTL, " ", netip.AddrFrom4(b.A)))
		case *dnsmessage.AAAAResource:
			out = append(out, fmt.Sprint(r.Header.Name, " ", r.Header.TTL, " ", netip.AddrFrom16(b.AAAA)))
		case *dnsmessage.CNAMEResource:
			out = append(out, fmt.Sprint(r.Header.Name, " ", r.Header.TTL, " CNAME ", b.CNAME))
		}
	}
	return out
}

func TestDNSAnswersByNameTypeAndTurn(t *testing.T) {
	dnsInMemory(t, func(t *testing.T, d *sortietest.DNS, c net.Conn) {
		d.Host("a.example", 30, "192.0.2.1", "2001:db8::1", "192.0.2.2")
		d.Script("b.example", "A", sortietest.ServFail(), sortietest.DNSReply{
			TTL: 7, CNAME: []string{"c.example"}, Addrs: []string{"192.0.2.3"},
			Records: []sortietest.DNSRecord{{Owner: "foreign.example", TTL: 0xFFFFFFFF, Addr: "192.0.2.4"}},
		})
		for i, tc := range []struct {
			name string
			kind dnsmessage.Type
			code dnsmessage.RCode
			want []string
			soa  bool
		}{
			{"a.example.", dnsmessage.TypeA, 0, []string{"a.example. 30 192.0.2.1", "a.example. 30 192.0.2.2"}, false},
			{"A.Example.", dnsmessage.TypeAAAA, 0, []string{"A.Example. 30 2001:db8::1"}, false},
			{"b.example.", dnsmessage.TypeA, dnsmessage.RCodeServerFailure, nil, false},
			{"b.example.", dnsmessage.TypeA, 0, []string{
				"b.example. 7 CNAME c.example.", "c.example. 7 192.0.2.3", "foreign.example. 4294967295 192.0.2.4",
			}, false},
			{"b.example.", dnsmessage.TypeAAAA, 0, nil, true},
			{"no.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, true},
		} {
			m, err := askDNS(c, uint16(i), tc.name, tc.kind)
			if err != nil || m.ID != uint16(i) || m.RCode != tc.code || !slices.Equal(dnsAnswers(m), tc.want) || len(m.Authorities) > 0 != tc.soa {
				t.Errorf("%s %v: %v, %v", tc.name, tc.kind, m.GoString(), err)
			}
		}
		var asked []string
		for _, q := range d.Questions() {
			asked = append(asked, fmt.Sprint(q, " ", q.Nth))
		}
		if want := []string{
			"a.example. A 1", "a.example. AAAA 1", "b.example. A 1", "b.example. A 2", "b.example. AAAA 1", "no.example. A 1",
		}; !slices.Equal(asked, want) {
			t.Errorf("recorded %q, want %q", asked, want)
		}
	})
}

func TestDNSDelaysAndDropsInVirtualTime(t *testing.T) {
	dnsInMemory(t, func(t *testing.T, d *sortietest.DNS, c net.Conn) {
		d.Script("slow.example", "A", sortietest.DNSReply{Delay: 300 * time.Millisecond, Addrs: []string{"192.0.2.1"}})
		start := time.Now()
		if _, err := askDNS(c, 1, "slow.example.", dnsmessage.TypeA); err != nil || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		d.Outage(sortietest.DNSReply{Drop: true})
		if _, err := askDNS(c, 2, "slow.example.", dnsmessage.TypeA); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want a timeout at the deadline", err, time.Since(start))
		}
		d.Recover()
		c.SetDeadline(time.Time{})
		if _, err := askDNS(c, 3, "slow.example.", dnsmessage.TypeA); err != nil {
			t.Error(err)
		}
	})
}

func TestDNSTruncatesForgesAndGarbles(t *testing.T) {
	dnsInMemory(t, func(t *testing.T, d *sortietest.DNS, c net.Conn) {
		d.Script("tc.example", "A", sortietest.DNSReply{Truncate: true, Addrs: []string{"192.0.2.1"}})
		d.Script("forged.example", "A", sortietest.DNSReply{Forge: true, Addrs: []string{"192.0.2.1"}})
		d.Script("raw.example", "A", sortietest.DNSReply{Raw: []byte("no DNS")})
		if m, err := askDNS(c, 1, "tc.example.", dnsmessage.TypeA); err != nil || !m.Truncated || len(m.Answers) > 0 {
			t.Errorf("over UDP: %v, %v", m.GoString(), err)
		}
		stream, err := d.DialContext(t.Context(), "tcp", "192.0.2.53:53")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if m, err := askDNS(stream, 1, "tc.example.", dnsmessage.TypeA); err != nil || m.Truncated || len(m.Answers) != 1 {
			t.Errorf("over TCP: %v, %v", m.GoString(), err)
		}
		if q := d.Questions()[1]; q.Network != "tcp" || !q.From.IsValid() {
			t.Errorf("recorded %+v", q)
		}
		if m, err := askDNS(c, 7, "forged.example.", dnsmessage.TypeA); err != nil || m.ID == 7 {
			t.Errorf("%v, %v; want the forged answer first", m.GoString(), err)
		}
		c.Close()
		c, _ = d.DialContext(t.Context(), "udp", "")
		defer c.Close()
		if m, err := askDNS(c, 1, "raw.example.", dnsmessage.TypeA); err == nil {
			t.Errorf("%v from a reply that is no message", m.GoString())
		}
	})
}

func TestDNSRespondDecidesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &sortietest.DNS{Respond: func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
			return sortietest.DNSReply{Addrs: []string{"192.0.2.9"}}, q.Nth == 2
		}}
		d.Host("a.example", 30, "192.0.2.1")
		c, _ := d.DialContext(t.Context(), "udp4", "")
		defer c.Close()
		for i, want := range []string{"a.example. 30 192.0.2.1", "a.example. 0 192.0.2.9", "a.example. 30 192.0.2.1"} {
			if m, err := askDNS(c, uint16(i), "a.example.", dnsmessage.TypeA); err != nil || !slices.Equal(dnsAnswers(m), []string{want}) {
				t.Errorf("question %d: %q, %v, want %s", i+1, dnsAnswers(m), err, want)
			}
		}
	})
}

// Two bubbles, one after the other: package net's resolver would not survive the second if it had been set up in the
// first.
func TestGoResolverWorksInEachBubble(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			d := new(sortietest.DNS)
			d.Host("a.example", 30, "192.0.2.1")
			r := &net.Resolver{PreferGo: true, Dial: d.DialContext}
			if got, err := r.LookupNetIP(t.Context(), "ip4", "a.example."); err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestGoResolverOverLoopback(t *testing.T) {
	d := sortietest.NewDNS(t)
	d.Host("a.example", 30, "192.0.2.1")
	d.Script("tc.example", "A", sortietest.DNSReply{Truncate: true, Addrs: []string{"192.0.2.2"}})
	r := &net.Resolver{PreferGo: true, Dial: d.DialLoopback}
	for name, want := range map[string]string{"a.example.": "192.0.2.1", "tc.example.": "192.0.2.2"} {
		got, err := r.LookupNetIP(t.Context(), "ip4", name)
		if err != nil || len(got) != 1 || got[0].Unmap().String() != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	d.Reset()
	if _, err := r.LookupNetIP(context.Background(), "ip6", "a.example."); err == nil || len(d.Questions()) != 1 {
		t.Errorf("%v after %v", err, d.Questions())
	}
	if err := d.Listen(); err == nil {
		t.Error("started twice")
	}
}
