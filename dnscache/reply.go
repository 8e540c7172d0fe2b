package dnscache

import (
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// verdict is what the tap makes of one reply.
type verdict uint8

const (
	ignored   verdict = iota // not an answer to this query: package net ignores it, too
	truncated                // noted; the answer comes over TCP
	positive                 // addresses that belong to the name
	noData                   // the name exists, without an address of this family
	nxDomain                 // the name does not exist
	softFail                 // an answer that is of no use
)

// parsed is a reply that counts, with what package net does not tell.
type parsed struct {
	verdict verdict
	rcode   dnsmessage.RCode
	why     string // what was wrong, with softFail
	netUses bool   // and package net takes its addresses all the same
	addrs   []netip.Addr
	ttl     uint32 // the smallest of the chain of aliases and addresses
	hasSOA  bool
	negTTL  uint32 // min(TTL, minimum) of the start of authority (RFC 2308 section 5)
}

// query is what was asked on a connection.
type query struct {
	id       uint16
	question dnsmessage.Question
}

// parseQuery reads a query that package net is about to send.
func parseQuery(msg []byte) (query, bool) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return query{}, false
	}
	question, err := p.Question()
	return query{h.ID, question}, err == nil
}

// parseReply judges one message that arrived on the connection on which q was asked: over UDP, or on a stream.
func parseReply(q query, msg []byte, stream bool) parsed {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return parsed{}
	}
	question, err := p.Question()
	if err != nil || !h.Response || h.ID != q.id || !sameQuestion(question, q.question) {
		return parsed{}
	}
	switch {
	case h.Truncated && stream:
		return parsed{verdict: softFail, rcode: h.RCode, why: "truncated over TCP", netUses: true}
	case h.Truncated:
		return parsed{verdict: truncated}
	}
	if p.SkipAllQuestions() != nil {
		return malformed(h.RCode)
	}
	return judge(&p, h, q)
}

func sameQuestion(a, b dnsmessage.Question) bool {
	return a.Type == b.Type && a.Class == b.Class && strings.EqualFold(a.Name.String(), b.Name.String())
}

func malformed(code dnsmessage.RCode) parsed {
	return parsed{verdict: softFail, rcode: code, why: "malformed reply", netUses: true}
}

// judge reads the sections after the question.
func judge(p *dnsmessage.Parser, h dnsmessage.Header, q query) parsed {
	s, ok := readSections(p, q.question.Type)
	if !ok {
		return malformed(h.RCode)
	}
	out := parsed{rcode: s.extended(h.RCode), hasSOA: s.hasSOA, negTTL: s.negTTL}
	switch {
	case out.rcode == dnsmessage.RCodeNameError:
		out.verdict = nxDomain
	case out.rcode != dnsmessage.RCodeSuccess:
		out.verdict, out.why = softFail, "server answered "+codeName(out.rcode)
	case len(s.records) == 0 && !h.Authoritative && !h.RecursionAvailable && !s.additional:
		// A referral, as from a server that does not serve this name and does not ask others (golang/go#15434).
		out.verdict, out.why = softFail, "lame referral"
	default:
		s.follow(q.question, &out)
	}
	return out
}

// sections is what the parts of a reply hold.
type sections struct {
	records    []rr // of the answer: aliases, and addresses of the type asked for
	hasSOA     bool
	negTTL     uint32
	additional bool
	ext        func(dnsmessage.RCode) dnsmessage.RCode
}

// rr is one alias or address.
type rr struct {
	owner string // lower case
	ttl   uint32
	alias string // "" for an address
	addr  netip.Addr
}

func readSections(p *dnsmessage.Parser, asked dnsmessage.Type) (s sections, ok bool) {
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return s, false
		}
		r := rr{owner: strings.ToLower(h.Name.String()), ttl: sane(h.TTL)}
		switch {
		case h.Type == dnsmessage.TypeCNAME:
			b, bad := p.CNAMEResource()
			r.alias, err = strings.ToLower(b.CNAME.String()), bad
		case h.Type == dnsmessage.TypeA && asked == h.Type:
			b, bad := p.AResource()
			r.addr, err = netip.AddrFrom4(b.A), bad
		case h.Type == dnsmessage.TypeAAAA && asked == h.Type:
			b, bad := p.AAAAResource()
			r.addr, err = netip.AddrFrom16(b.AAAA), bad
		default:
			err = p.SkipAnswer()
			r.owner = ""
		}
		if err != nil {
			return s, false
		}
		if r.owner != "" {
			s.records = append(s.records, r)
		}
	}
	return s, s.readAuthority(p) && s.readAdditional(p)
}

func (s *sections) readAuthority(p *dnsmessage.Parser) bool {
	for {
		h, err := p.AuthorityHeader()
		if err != nil {
			return errors.Is(err, dnsmessage.ErrSectionDone)
		}
		if h.Type != dnsmessage.TypeSOA || s.hasSOA {
			if p.SkipAuthority() != nil {
				return false
			}
			continue
		}
		soa, err := p.SOAResource()
		if err != nil {
			return false
		}
		s.hasSOA, s.negTTL = true, min(sane(h.TTL), sane(soa.MinTTL))
	}
}

func (s *sections) readAdditional(p *dnsmessage.Parser) bool {
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return errors.Is(err, dnsmessage.ErrSectionDone)
		}
		s.additional = true
		if h.Type == dnsmessage.TypeOPT {
			s.ext = h.ExtendedRCode
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

func (s *sections) extended(code dnsmessage.RCode) dnsmessage.RCode {
	if s.ext == nil {
		return code
	}
	return s.ext(code)
}

// maxAliases bounds the chain that is followed, and with it loops.
const maxAliases = 16

// follow walks the aliases from the name asked for, and takes the addresses that a name of that chain owns: package net
// takes any address of the section, whoever owns it.
func (s *sections) follow(q dnsmessage.Question, out *parsed) {
	name := strings.ToLower(q.Name.String())
	chain := []string{name}
	ttl, aliases := uint32(math.MaxUint32), 0
	for len(chain) <= maxAliases {
		r, ok := s.alias(name)
		if !ok {
			break
		}
		ttl = min(ttl, r.ttl)
		name = r.alias
		chain = append(chain, name)
		aliases++
	}
	owned := make(map[string]bool, len(chain))
	for _, name := range chain {
		owned[name] = true
	}
	foreign := false
	for _, r := range s.records {
		switch {
		case r.alias != "":
		case owned[r.owner]:
			ttl = min(ttl, r.ttl)
			out.addrs = append(out.addrs, r.addr)
		default:
			foreign = true
		}
	}
	switch {
	case len(out.addrs) > 0:
		out.verdict, out.ttl = positive, ttl
	case foreign:
		out.verdict, out.why, out.netUses = softFail, "addresses belong to other names", true
	case aliases >= maxAliases:
		out.verdict, out.why, out.netUses = softFail, "too many aliases", true
	default:
		out.verdict = noData
	}
}

func (s *sections) alias(owner string) (rr, bool) {
	for _, r := range s.records {
		if r.alias != "" && r.owner == owner {
			return r, true
		}
	}
	return rr{}, false
}

// sane treats a TTL with its top bit set as huge (RFC 8767 section 4), which the clamp then cuts. Older resolvers took it
// for zero, and a program that keeps it signed for the past.
func sane(ttl uint32) uint32 {
	if ttl > math.MaxInt32 {
		return math.MaxUint32
	}
	return ttl
}

// codeName returns the name of a response code as dig prints it.
func codeName(code dnsmessage.RCode) string {
	switch code {
	case dnsmessage.RCodeSuccess:
		return "NOERROR"
	case dnsmessage.RCodeFormatError:
		return "FORMERR"
	case dnsmessage.RCodeServerFailure:
		return "SERVFAIL"
	case dnsmessage.RCodeNameError:
		return "NXDOMAIN"
	case dnsmessage.RCodeNotImplemented:
		return "NOTIMP"
	case dnsmessage.RCodeRefused:
		return "REFUSED"
	}
	return "RCODE" + strconv.Itoa(int(code))
}
