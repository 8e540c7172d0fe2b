package sortietest

import (
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DNSReply is what a [DNS] does with one question. The zero DNSReply answers without an error, a record or a start of
// authority.
type DNSReply struct {
	// Addrs are the addresses, owned by the name asked for, or by the last of CNAME if there are any. Those of the other
	// family are left out.
	Addrs []string
	CNAME []string // the chain of aliases from the name asked for
	TTL   uint32   // of both, in seconds, as it is sent: nothing is clamped

	// Records are sent after those, whoever owns them.
	Records []DNSRecord

	Code DNSCode
	SOA  *DNSAuthority // in the authority section; nil: none

	Delay time.Duration // before the answer is sent
	Drop  bool          // nothing is sent

	Truncate bool   // over UDP the answer says only that it is truncated
	Forge    bool   // before the answer, one with a wrong ID and one for another name are sent, both with 192.0.2.66
	Raw      []byte // is sent in place of an answer, with the ID put in front
}

// DNSRecord is one record of an answer: an address or an alias.
type DNSRecord struct {
	Owner string
	TTL   uint32
	Addr  string // A or AAAA
	CNAME string // if there is no Addr
}

// DNSAuthority is a start of authority, of which only the two numbers matter that say how long a negative answer lives.
type DNSAuthority struct {
	TTL     uint32 // of the record
	Minimum uint32
}

// DNSCode is the response code of an answer.
type DNSCode uint8

// The response codes of RFC 1035.
const (
	DNSSuccess  DNSCode = 0
	DNSFormErr  DNSCode = 1
	DNSServFail DNSCode = 2
	DNSNXDomain DNSCode = 3
	DNSNotImp   DNSCode = 4
	DNSRefused  DNSCode = 5
)

// NoData answers that the name has no address of this family, with a start of authority of 60 s.
func NoData() DNSReply { return DNSReply{SOA: &DNSAuthority{TTL: 60, Minimum: 60}} }

// NXDomain answers that the name does not exist, with a start of authority of 60 s.
func NXDomain() DNSReply {
	r := NoData()
	r.Code = DNSNXDomain
	return r
}

// ServFail answers that the server failed.
func ServFail() DNSReply { return DNSReply{Code: DNSServFail} }

// maxDNSPacket is what fits into a packet over UDP, as most servers see it (DNS flag day 2020). What is longer is truncated.
const maxDNSPacket = 1232

// messages builds what is sent for query, in order.
func (r DNSReply) messages(h dnsmessage.Header, q dnsmessage.Question, network string) [][]byte {
	if r.Raw != nil {
		return [][]byte{append([]byte{byte(h.ID >> 8), byte(h.ID)}, r.Raw...)}
	}
	var out [][]byte
	if r.Forge {
		bad := DNSReply{Addrs: []string{"192.0.2.66", "2001:db8::66"}, TTL: 3600}
		wrong, other := h, q
		wrong.ID++
		other.Name = dnsmessage.MustNewName("forged.example.")
		out = append(out, bad.message(wrong, q, network), bad.message(h, other, network))
	}
	return append(out, r.message(h, q, network))
}

func (r DNSReply) message(h dnsmessage.Header, q dnsmessage.Question, network string) []byte {
	m := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: h.ID, Response: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
			RCode: dnsmessage.RCode(r.Code),
		},
		Questions: []dnsmessage.Question{q},
	}
	if r.Truncate && network == "udp" {
		m.Truncated = true
	} else {
		m.Answers = r.answers(q)
		m.Authorities = r.authorities()
	}
	b, err := m.Pack()
	if err != nil { // a script beyond the format, such as a label of 64 bytes
		return nil
	}
	if len(b) > maxDNSPacket && network == "udp" {
		r.Truncate = true
		return r.message(h, q, network)
	}
	return b
}

func (r DNSReply) answers(q dnsmessage.Question) (out []dnsmessage.Resource) {
	owner := q.Name.String()
	for _, alias := range r.CNAME {
		out = appendRecord(out, DNSRecord{Owner: owner, TTL: r.TTL, CNAME: alias}, q.Type)
		owner = alias
	}
	for _, a := range r.Addrs {
		out = appendRecord(out, DNSRecord{Owner: owner, TTL: r.TTL, Addr: a}, q.Type)
	}
	for _, rec := range r.Records {
		out = appendRecord(out, rec, q.Type)
	}
	return out
}

// appendRecord adds rec, unless it is an address of another type than was asked for.
func appendRecord(out []dnsmessage.Resource, rec DNSRecord, asked dnsmessage.Type) []dnsmessage.Resource {
	owner, err := dnsmessage.NewName(rooted(rec.Owner))
	if err != nil {
		return out
	}
	h := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: rec.TTL}
	if rec.Addr == "" {
		if alias, err := dnsmessage.NewName(rooted(rec.CNAME)); err == nil {
			out = append(out, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
		}
		return out
	}
	addr, err := netip.ParseAddr(rec.Addr)
	switch {
	case err != nil:
	case addr.Is4() && asked == dnsmessage.TypeA:
		out = append(out, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
	case addr.Is6() && asked == dnsmessage.TypeAAAA:
		out = append(out, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
	}
	return out
}

func (r DNSReply) authorities() []dnsmessage.Resource {
	if r.SOA == nil {
		return nil
	}
	zone := dnsmessage.MustNewName("example.")
	return []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: zone, Class: dnsmessage.ClassINET, TTL: r.SOA.TTL},
		Body: &dnsmessage.SOAResource{
			NS: zone, MBox: zone, Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, MinTTL: r.SOA.Minimum,
		},
	}}
}

// rooted returns name with a dot at its end, and its case as it is.
func rooted(name string) string { return strings.TrimSuffix(name, ".") + "." }
