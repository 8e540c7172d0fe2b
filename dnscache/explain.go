package dnscache

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// Explanation says what a Resolver knows about a name and why it asks what it asks. It is made for people: print it. The
// fields serve a debug page.
type Explanation struct {
	Name   string
	Known  bool // there is a record; otherwise the list is what a lookup would ask
	Pinned bool
	Mode   Mode     // in force
	Ndots  int      // of resolv.conf
	Search []string // of resolv.conf
	List   []string // full names in the order of a walk; "hosts" is the hosts file

	Memo    string // the candidate that is asked alone, "" if the next lookup walks the list
	MemoAge time.Duration
	Wasted  int // questions to candidates without an address, in walks that found one

	Result   Result
	Err      error // why there is no address
	Families []FamilyInfo
	Addrs    []AddrInfo
}

// FamilyInfo is the record of one family.
type FamilyInfo struct {
	Family   Family
	Stage    string        // "cold", "valid", "soft", "hard" or "expired" as in the package comment
	Outcome  string        // of the last question: "addresses", "no address", "no such host", or what went wrong
	Server   string        // that answered it
	TTL      time.Duration // left, negative when stale
	Dropped  int           // addresses beyond the 128 that are kept
	Failures int           // in a row
	NextTry  time.Time     // held back until then; zero if not
	HeldFor  time.Duration // how long DNS has denied what is given out; 0 if it does not
	Asking   bool          // a question is on its way
}

// AddrInfo is what dials to one address have shown. Port is 0 for an address that was not dialled.
type AddrInfo struct {
	Addr        netip.AddrPort
	LastSuccess time.Time // zero: never connected
	LastFailure time.Time
	LastError   error
	CoolUntil   time.Time // it comes last until then
}

// Explain returns what is known about name. It asks nothing and changes nothing.
func (r *Resolver) Explain(name string) Explanation {
	x := Explanation{Name: name, Mode: r.Mode}
	c, err := r.core()
	if err != nil {
		x.Err = err
		return x
	}
	if addr, ok := literal(name); ok {
		x.Result = Result{literalSnapshot(addr)}
		return x
	}
	key, ok := canonical(name)
	if !ok {
		x.Err = newError(name, NotFound, "", errNoSuchHost, time.Time{})
		return x
	}
	conf := c.files.conf.Load()
	x.Mode, x.Ndots, x.Search = c.cfg.mode, conf.ndots, slices.Clone(conf.search)
	if !c.cfg.system {
		for _, cand := range candidates(key, c.cfg.mode, conf) {
			x.List = append(x.List, cand.String())
		}
	}
	if e := c.find(key); e != nil {
		e.explain(&x)
	}
	return x
}

// String returns "hosts" or the full name.
func (c candidate) String() string {
	if c.hosts {
		return "hosts"
	}
	return c.name
}

func (e *entry) explain(x *Explanation) {
	now := time.Now()
	x.Known, x.Pinned = true, e.pinned.Load()
	e.mu.Lock()
	s := e.merge()
	if e.memo.valid(now) {
		x.Memo, x.MemoAge = e.memo.cand.String(), now.Sub(e.memo.since)
	}
	x.Wasted = e.wasted
	for _, f := range e.core.cfg.asked {
		x.Families = append(x.Families, e.recs[f].infoLocked(s.recs[f], now))
	}
	e.mu.Unlock()
	if len(s.addrs) > 0 {
		x.Result = Result{s}
	} else if s.err != nil {
		x.Err = s.err
	}
	for _, a := range s.addrs {
		x.Addrs = append(x.Addrs, e.core.addrInfo(a)...)
	}
}

func (r *record) infoLocked(s *fresh.Snapshot[*answer], now time.Time) FamilyInfo {
	info := FamilyInfo{
		Family: r.f.public(), Stage: s.State.String(), Server: r.server, Failures: r.failures,
		Asking: !s.Since.IsZero(),
	}
	switch {
	case r.lastErr != nil:
		info.Outcome = r.lastErr.Error()
	case r.asked:
		info.Outcome = "addresses"
	}
	if a := s.Value; a != nil {
		end := a.end
		if !s.Plan.Aged.IsZero() {
			end = s.Plan.Aged
		}
		info.TTL, info.Dropped = end.Sub(now), a.more
	}
	if s.Next.After(now) {
		info.NextTry = s.Next
	}
	if r.hold != nil {
		info.HeldFor = max(1, now.Sub(r.hold.since))
	}
	return info
}

func (c *core) addrInfo(a netip.Addr) (out []AddrInfo) {
	for port, h := range c.health.of(a) {
		out = append(out, AddrInfo{
			Addr: netip.AddrPortFrom(a, port), LastSuccess: h.success, LastFailure: h.failure, LastError: h.err, CoolUntil: h.cool,
		})
	}
	if len(out) == 0 {
		out = []AddrInfo{{Addr: netip.AddrPortFrom(a, 0)}}
	}
	slices.SortFunc(out, func(a, b AddrInfo) int { return a.Addr.Compare(b.Addr) })
	return out
}

// String returns the explanation in lines for people.
func (x Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", x.Name)
	switch {
	case x.Result.Len() > 0:
		fmt.Fprintf(&b, "%v, from %v%s\n", x.Result, x.Result.Source(), marks(x.Result))
	case x.Err != nil:
		fmt.Fprintf(&b, "%v\n", x.Err)
	default:
		b.WriteString("not known yet\n")
	}
	if len(x.List) > 0 {
		fmt.Fprintf(&b, "  list   %s (%v, ndots %d)\n", strings.Join(x.List, " "), x.Mode, x.Ndots)
	}
	if x.Memo != "" {
		fmt.Fprintf(&b, "  asked  %s alone, for %v\n", x.Memo, x.MemoAge.Round(time.Second))
	}
	if x.Wasted > 0 {
		fmt.Fprintf(&b, "  wasted %d questions to names without an address\n", x.Wasted)
	}
	if x.Pinned {
		b.WriteString("  pinned\n")
	}
	for _, f := range x.Families {
		f.write(&b)
	}
	for _, a := range x.Addrs {
		a.write(&b)
	}
	return b.String()
}

func marks(r Result) string {
	var b strings.Builder
	for _, m := range []struct {
		set  bool
		mark string
	}{{r.Stale(), ", stale"}, {r.Held(), ", held"}, {r.Partial(), ", partial"}} {
		if m.set {
			b.WriteString(m.mark)
		}
	}
	return b.String()
}

func (f FamilyInfo) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %-6v %s", f.Family, f.Stage)
	if f.Outcome != "" {
		fmt.Fprintf(b, ", %s", f.Outcome)
	}
	if f.Server != "" {
		fmt.Fprintf(b, " by %s", f.Server)
	}
	fmt.Fprintf(b, ", TTL %v", f.TTL.Round(time.Second))
	if f.Dropped > 0 {
		fmt.Fprintf(b, ", %d addresses too many", f.Dropped)
	}
	if f.HeldFor > 0 {
		fmt.Fprintf(b, ", held for %v", f.HeldFor.Round(time.Second))
	}
	if f.Failures > 0 {
		fmt.Fprintf(b, ", %d failures", f.Failures)
	}
	if !f.NextTry.IsZero() {
		fmt.Fprintf(b, ", next try in %v", time.Until(f.NextTry).Round(100*time.Millisecond))
	}
	if f.Asking {
		b.WriteString(", asking")
	}
	b.WriteByte('\n')
}

func (a AddrInfo) write(b *strings.Builder) {
	if a.Addr.Port() == 0 {
		fmt.Fprintf(b, "  %v not dialled\n", a.Addr.Addr())
		return
	}
	fmt.Fprintf(b, "  %v", a.Addr)
	if !a.LastSuccess.IsZero() {
		fmt.Fprintf(b, " connected %v ago", time.Since(a.LastSuccess).Round(time.Second))
	}
	if a.LastError != nil {
		fmt.Fprintf(b, " failed %v ago: %v", time.Since(a.LastFailure).Round(time.Second), a.LastError)
	}
	if left := time.Until(a.CoolUntil); left > 0 {
		fmt.Fprintf(b, ", last for %v", left.Round(time.Second))
	}
	b.WriteByte('\n')
}
