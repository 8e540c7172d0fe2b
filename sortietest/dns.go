package sortietest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// DNS is a scripted DNS server. It is reached in two ways, which may be mixed:
//
//   - [DNS.DialContext] connects in memory. It has the type of net.Resolver's and dnscache.Resolver's dial functions,
//     ignores the address it is given, and is made for [testing/synctest] bubbles. The zero DNS serves it as it is;
//     there is nothing to close.
//   - [NewDNS] and [DNS.Start] listen on the loopback interface, UDP and TCP on one port, for programs that speak DNS
//     themselves.
//
// A name without a script does not exist: the answer is [NXDomain] with the start of authority of [NoData]. Its methods may
// be called from several goroutines at once.
//
//	dns := new(sortietest.DNS)
//	dns.Host("api.shop.example", 30, "192.0.2.1", "2001:db8::1")
//	dns.Script("redis.b", "A", sortietest.DNSReply{Drop: true}, sortietest.DNSReply{Addrs: []string{"192.0.2.7"}})
type DNS struct {
	// Respond, if not nil, decides for each question before any script; with false the script goes on. It must not
	// change after first use, and may be called from several goroutines at once.
	Respond func(DNSQuestion) (DNSReply, bool)

	mu      sync.Mutex
	scripts map[dnsKey]*dnsScript
	count   map[dnsKey]int
	outage  *DNSReply
	asked   []DNSQuestion
	port    uint16 // of the last connection in memory
	udp     net.PacketConn
	tcp     net.Listener
	conns   map[net.Conn]struct{}
	done    chan struct{} // closed by Close; nil before Start
	closed  bool
	serving sync.WaitGroup
}

// DNSQuestion is a question that a [DNS] was asked.
type DNSQuestion struct {
	Name    string // lower case, with the dot at its end: "api.shop.example."
	Type    string // "A", "AAAA", or "TYPE65" for what has no name here
	Network string // "udp" or "tcp"
	From    netip.AddrPort
	Time    time.Time // of arrival
	Nth     int       // 1 for the first question for this name and type
}

// String returns name and type, such as "api.shop.example. AAAA".
func (q DNSQuestion) String() string { return q.Name + " " + q.Type }

type dnsKey struct{ name, kind string }

type dnsScript struct {
	replies []DNSReply
	next    int
}

// keepQuestions is how many questions are remembered; the oldest are forgotten first.
const keepQuestions = 100_000

// NewDNS starts a server on a free loopback port, which is closed when the test ends.
func NewDNS(tb TB) *DNS {
	tb.Helper()
	d := new(DNS)
	d.Start(tb)
	return d
}

// Start listens on the loopback interface until the test ends or [DNS.Close] is called. If it cannot, the test fails.
func (d *DNS) Start(tb TB) {
	tb.Helper()
	if err := d.Listen(); err != nil {
		tb.Fatalf("sortietest: %v", err)
		return
	}
	tb.Cleanup(func() { d.Close() })
}

// Script says what the first question for name and type gets, the second, and so on; the last reply repeats. An empty
// type is both A and AAAA, each with a count of its own. It replaces an earlier script; without replies the name has
// none any more.
func (d *DNS) Script(name, kind string, replies ...DNSReply) {
	kinds := []string{kind}
	if kind == "" {
		kinds = []string{"A", "AAAA"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.scripts == nil {
		d.scripts = make(map[dnsKey]*dnsScript)
	}
	for _, kind := range kinds {
		key := dnsKey{dnsName(name), kind}
		if len(replies) == 0 {
			delete(d.scripts, key)
			continue
		}
		d.scripts[key] = &dnsScript{replies: replies}
	}
}

// Host gives name these addresses, with the TTL in seconds, A and AAAA each where it belongs. A family without an
// address gets [NoData].
func (d *DNS) Host(name string, ttl uint32, addrs ...string) {
	byType := map[string][]string{}
	for _, a := range addrs {
		kind := "A"
		if strings.Contains(a, ":") {
			kind = "AAAA"
		}
		byType[kind] = append(byType[kind], a)
	}
	for _, kind := range []string{"A", "AAAA"} {
		reply := NoData()
		if len(byType[kind]) > 0 {
			reply = DNSReply{TTL: ttl, Addrs: byType[kind]}
		}
		d.Script(name, kind, reply)
	}
}

// Outage answers every question with reply, whatever the scripts say, until [DNS.Recover]. The scripts do not move on
// meanwhile.
func (d *DNS) Outage(reply DNSReply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outage = &reply
}

// Recover ends an [DNS.Outage].
func (d *DNS) Recover() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outage = nil
}

// Questions returns what was asked since the start or the last [DNS.Reset], in order of arrival: the last 100,000.
func (d *DNS) Questions() []DNSQuestion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]DNSQuestion(nil), d.asked...)
}

// Reset forgets the questions. Scripts and their positions stay.
func (d *DNS) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = nil
}

// DialContext connects to the server in memory: a connection that is a net.PacketConn for "udp", "udp4" and "udp6", and
// a stream for "tcp". The address only tells connections apart: it is their RemoteAddr if it is a literal one.
func (d *DNS) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	_ = resolverPrimed // that it is initialised is what counts
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	local, remote := d.addresses(address)
	switch network {
	case "udp", "udp4", "udp6":
		return newDNSPacketConn(d, local, remote), nil
	case "tcp", "tcp4", "tcp6":
		return d.dialStream(local, remote), nil
	}
	return nil, net.UnknownNetworkError(network)
}

// addresses makes up the two ends of a connection in memory. Source ports count up, as a NAT would see them.
func (d *DNS) addresses(address string) (local, remote netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.port++
	if d.port < 1024 {
		d.port = 1024
	}
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		remote = netip.MustParseAddrPort("127.0.0.1:53")
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), d.port), remote
}

// answer notes the question and returns the reply to it.
func (d *DNS) answer(q DNSQuestion) DNSReply {
	q, reply, outage := d.note(q)
	if d.Respond != nil && !outage {
		if r, ok := d.Respond(q); ok {
			return r
		}
	}
	return reply
}

func (d *DNS) note(q DNSQuestion) (_ DNSQuestion, reply DNSReply, outage bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := dnsKey{q.Name, q.Type}
	if d.count == nil {
		d.count = make(map[dnsKey]int)
	}
	d.count[key]++
	q.Time, q.Nth = time.Now(), d.count[key]
	d.asked = append(d.asked, q)
	if len(d.asked) > keepQuestions {
		d.asked = d.asked[1:]
	}
	if d.outage != nil {
		return q, *d.outage, true
	}
	if s := d.scripts[key]; s != nil {
		s.next++
		return q, s.replies[min(s.next, len(s.replies))-1], false
	}
	if d.knownLocked(q.Name) {
		return q, NoData(), false
	}
	return q, NXDomain(), false
}

// knownLocked reports whether the name has a script for another type: then it exists.
func (d *DNS) knownLocked(name string) bool {
	return d.scripts[dnsKey{name, "A"}] != nil || d.scripts[dnsKey{name, "AAAA"}] != nil
}

// dnsName returns the name as questions have it.
func dnsName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) + "." }

var errDNSStarted = errors.New("DNS server started twice")
