package dnscache

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// family is an index: A and AAAA are two records with a life of their own.
type family int

const (
	v4 family = iota
	v6
	families
)

// network returns the family's name for net.Resolver.
func (f family) network() string { return [families]string{"ip4", "ip6"}[f] }

// String returns the record type.
func (f family) String() string { return [families]string{"A", "AAAA"}[f] }

func (f family) other() family { return 1 - f }

// public returns the family as users name it.
func (f family) public() Family { return [families]Family{IPv4, IPv6}[f] }

// of reports whether addr belongs to the family.
func (f family) of(addr netip.Addr) bool { return addr.Is4() == (f == v4) }

// kind is what became of one question.
type kind uint8

const (
	unasked     kind = iota
	hasAddrs         // addresses
	hasNone          // the name exists, without an address of this family
	noName           // the name does not exist
	failing          // an answer of no use, or nobody to ask
	silent           // no answer in time
	localFailed      // our own side
)

// negative reports whether the answer denies an address.
func (k kind) negative() bool { return k == hasNone || k == noName }

// finding is the outcome of one question.
type finding struct {
	kind   kind
	addrs  []netip.Addr // positive; in the server's order
	known  bool         // a TTL was told
	ttl    uint32       // positive: the owner's; negative: that of the start of authority
	source Source
	name   string // that was asked for
	server string // that answered
	err    error  // why, unless positive
	routed bool   // IPv6: there is a route to the first address
}

// ask puts one question: an absolute name and one family.
func (c *core) ask(ctx context.Context, name string, f family) finding {
	q := &collector{core: c, ctx: ctx}
	defer context.AfterFunc(ctx, q.abort)()
	for {
		before := q.tries
		// A resolver of its own for each question: net.Resolver joins equal questions, and the second would see nothing
		// of the wire. The question ends by closing its sockets, so that nothing of package net outlives it.
		r := net.Resolver{PreferGo: true, Dial: q.dial}
		addrs, err := r.LookupNetIP(context.WithoutCancel(ctx), f.network(), name)
		out := q.judge(f, addrs, err)
		out.name = name
		more := out.kind == failing || out.kind == silent
		if !more || !q.more(before) {
			return out
		}
	}
}

// more reports whether Resolver.Servers have tries left. Package net counts the servers of resolv.conf, not ours.
func (q *collector) more(before int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.aborted && q.tries > before && q.tries < triesPerServer*len(q.core.cfg.servers)
}

// judge puts together what package net returned and what was seen on the wire.
func (q *collector) judge(f family, addrs []netip.Addr, err error) finding {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	if err == nil {
		return q.judgeAddrs(f, addrs)
	}
	reply := q.reply
	out := finding{source: SourceDNS, server: q.from, known: reply.hasSOA, ttl: reply.negTTL}
	switch _, wrongFamily := errors.AsType[*net.AddrError](err); {
	case q.local != nil:
		out.kind, out.err = localFailed, q.local
	case wrongFamily && q.sent == 0:
		out.kind, out.source, out.known, out.ttl = hasNone, SourceHosts, true, hostsTTL
		out.err = errNoAddress
	case reply.verdict == noData:
		out.kind, out.err = hasNone, errNoAddress
	case reply.verdict == nxDomain:
		out.kind, out.err = noName, errNoSuchHost
	case reply.verdict == softFail:
		out.kind, out.err = failing, errors.New(reply.why)
	case q.timeouts > 0:
		out.kind, out.server, out.err = silent, q.server, errTimeout
	case q.aborted:
		out.kind, out.server, out.err = silent, q.server, context.Cause(q.ctx)
	case q.tries == 0:
		out.kind, out.err = noName, errNoSuchHost // DNS is not configured: "hosts: files"
	default:
		out.kind, out.server, out.err = failing, q.server, cmpErr(q.dialErr, err)
	}
	return out
}

// judgeAddrs is judge where package net has addresses.
func (q *collector) judgeAddrs(f family, addrs []netip.Addr) finding {
	reply := q.reply
	switch {
	case reply.netUses:
		return finding{kind: failing, source: SourceDNS, server: q.from, err: errors.New(reply.why)}
	case reply.verdict != positive:
		// From the hosts file: no question was needed, or the answers were of no use ("hosts: dns files").
		addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !f.of(a) })
		return finding{kind: hasAddrs, source: SourceHosts, addrs: addrs, known: true, ttl: hostsTTL}
	}
	owned := make([]netip.Addr, 0, len(reply.addrs))
	for _, a := range reply.addrs {
		if slices.Contains(addrs, a) {
			owned = append(owned, a)
		}
	}
	if len(owned) == 0 {
		return finding{kind: failing, source: SourceDNS, server: q.from, err: errors.New("no usable address in the reply")}
	}
	return finding{kind: hasAddrs, source: SourceDNS, server: q.from, addrs: owned, known: true, ttl: reply.ttl}
}

// hostsTTL is how long an entry of the hosts file counts, in seconds: package net reads the file again at most that often.
const hostsTTL = 5

// cmpErr returns the more telling of two errors.
func cmpErr(seen, net error) error {
	if seen != nil {
		return seen
	}
	return net
}

// askHosts asks the hosts file under a short name, for both families at once. Dials fail, so no packet leaves: an answer
// without a dial comes from a file that is asked first, one after dials from a file that is asked last. It reports
// whether DNS would have been asked.
func (c *core) askHosts(ctx context.Context, short string) (out outcome, dialled bool) {
	var dials atomic.Bool
	r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Store(true)
		return nil, errNoPacket
	}}
	addrs, err := r.LookupNetIP(context.WithoutCancel(ctx), "ip", short)
	for f := range families {
		out[f] = finding{kind: noName, source: SourceHosts, name: short, err: errNoSuchHost}
		if err != nil {
			continue
		}
		out[f] = finding{kind: hasNone, source: SourceHosts, name: short, known: true, ttl: hostsTTL, err: errNoAddress}
		var own []netip.Addr
		for _, a := range addrs {
			if a = a.Unmap(); f.of(a) {
				own = append(own, a)
			}
		}
		if len(own) > 0 {
			out[f].kind, out[f].addrs, out[f].err = hasAddrs, own, nil
		}
	}
	return out, dials.Load()
}

// askSystem asks the platform's own resolver for both families at once. Package net leaves a thread of the C library
// behind when a lookup is given up, so the lookup keeps its place among at most 64 until it really ends.
func (c *core) askSystem(ctx context.Context, name string) (out outcome) {
	if !c.threads.acquire(ctx) {
		return both(finding{kind: silent, source: SourceSystem, name: name, err: errBusy})
	}
	type result struct {
		addrs []netip.Addr
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer c.threads.release()
		addrs, err := c.cfg.systemLookup(context.WithoutCancel(ctx), name)
		done <- result{addrs, err}
	}()
	select {
	case r := <-done:
		return systemFindings(name, r.addrs, r.err)
	case <-ctx.Done():
		return both(finding{kind: silent, source: SourceSystem, name: name, err: errTimeout})
	}
}

func both(f finding) outcome { return outcome{f, f} }

func systemFindings(name string, addrs []netip.Addr, err error) outcome {
	base := finding{source: SourceSystem, name: name, err: err}
	if err != nil {
		dns, ok := errors.AsType[*net.DNSError](err)
		switch {
		case isLocal(err):
			base.kind = localFailed
		case ok && dns.IsNotFound:
			base.kind = noName
		case isTimeout(err):
			base.kind = silent
		default:
			base.kind = failing
		}
		return both(base)
	}
	base.kind, base.err = hasNone, errNoAddress
	out := both(base)
	for _, a := range addrs {
		a = a.Unmap()
		f := v6
		if a.Is4() {
			f = v4
		}
		out[f].kind, out[f].err = hasAddrs, nil
		out[f].addrs = append(out[f].addrs, a)
	}
	return out
}

// places is a bound on what runs at a time.
type places chan struct{}

func (p places) acquire(ctx context.Context) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
	}
	select {
	case p <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p places) release() { <-p }

// clampSeconds turns a TTL into a duration within bounds.
func clampSeconds(ttl uint32, least, most time.Duration) time.Duration {
	return min(max(time.Duration(ttl)*time.Second, least), most)
}
