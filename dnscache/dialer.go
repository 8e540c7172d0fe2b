package dnscache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Dialer connects to names over the addresses that a [Resolver] remembers: a race with staggered starts (RFC 8305), so
// that dead addresses cost a fraction of a second and not a timeout each. Only Resolver is required. It is safe for
// concurrent use; no field may change after first use. What it learns is kept in the Resolver.
type Dialer struct {
	Resolver *Resolver

	Timeout  time.Duration // of a dial, lookup included; 5 s
	Delay    time.Duration // before the next address is tried; learnt from the name's connect times, 250 ms at first
	Parallel int           // connects at a time: 3, from 1 to 4

	// MaxStale bounds how far past its end an address may be that is dialled, below Resolver.MaxStale; 0 is no other
	// bound. Without TLS nobody notices that an address has a new owner: set it to some minutes there.
	MaxStale time.Duration

	// Admit, if not nil, is asked before each connect; an error rules that address out, and the next one is tried. When
	// the attempt is over, done is called once: with the connection, or with the error, or with both for a connection
	// that came second and has been closed. A nil done is not called.
	Admit func(ctx context.Context, addr netip.AddrPort) (done func(net.Conn, error), err error)

	// Wire makes the socket, to a literal address. Nil is a net.Dialer.
	Wire func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultDialTimeout = 5 * time.Second
	defaultParallel    = 3
	maxParallel        = 4

	// attemptTimeout bounds one connect, so that a silent address leaves room for others.
	attemptTimeout = 2 * time.Second

	// A record younger than this is not looked up again because its addresses do not connect. If one of them ever did,
	// the server is more likely down than moved, and DNS is asked at the pace of the shortest TTL only.
	youngUnproven = time.Second
	youngProven   = 5 * time.Second
)

// Validate reports all mistakes in the fields, joined, those of the Resolver included.
func (d *Dialer) Validate() error {
	var errs []error
	if d.Resolver == nil {
		errs = append(errs, errors.New("dnscache: Dialer.Resolver: missing"))
	} else if err := d.Resolver.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, d.mistakes()...)...)
}

// mistakes lists those of the plain fields.
func (d *Dialer) mistakes() (errs []error) {
	if d.Parallel < 0 || d.Parallel > maxParallel {
		errs = append(errs, fmt.Errorf("dnscache: Dialer.Parallel: %d is not from 1 to %d", d.Parallel, maxParallel))
	}
	for _, f := range []durationField{
		{"Timeout", d.Timeout, false}, {"Delay", d.Delay, false}, {"MaxStale", d.MaxStale, false},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("dnscache: Dialer.%s: %v is negative", f.field, f.value))
		}
	}
	return errs
}

// DialContext is that of a zero [Dialer] on this Resolver. It has the type of http.Transport's field of this name.
func (r *Resolver) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return (&Dialer{Resolver: r}).DialContext(ctx, network, address)
}

// DialContext connects to address, "name:port", on "tcp", "tcp4" or "tcp6". Errors are of type *net.OpError: around an
// *[Error] if there is no address, else around the first failure of the first family, with the number of addresses tried.
// As with net.Dialer the hooks of net/http/httptrace are called for the lookup and for each connect.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, addr, err := d.dial(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if op, ok := err.(*net.OpError); ok && op.Op == "dial" { //nolint:errorlint // that of Wire itself, not one inside another error
		return nil, op
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: addr, Err: err}
}

// dial returns the address with an error if there is one to blame.
func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, net.Addr, error) {
	if d.Resolver == nil || len(d.mistakes()) > 0 {
		return nil, nil, d.Validate()
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, nil, net.UnknownNetworkError(network)
	}
	name, port, err := splitAddress(ctx, network, address)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, or(d.Timeout, defaultDialTimeout))
	defer cancel()
	s, e, err := d.lookup(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return d.connect(ctx, network, port, s, e)
}

// splitAddress accepts a number as the port, or a name that the system's table of services knows.
func splitAddress(ctx context.Context, network, address string) (name string, port uint16, err error) {
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		known, lookupErr := (&net.Resolver{PreferGo: true}).LookupPort(ctx, network, service)
		if lookupErr != nil {
			return "", 0, &net.AddrError{Err: "invalid port", Addr: address}
		}
		n = uint64(known)
	}
	if n == 0 {
		return "", 0, &net.AddrError{Err: "invalid port", Addr: address}
	}
	return name, uint16(n), nil
}

// lookup is off the hot path: it compares the clocks itself, since after a sleep no tick may have run yet.
func (d *Dialer) lookup(ctx context.Context, name string) (*snapshot, *entry, error) {
	trace := httptrace.ContextClientTrace(ctx)
	_, isLiteral := literal(name)
	if trace != nil && trace.DNSStart != nil && !isLiteral {
		trace.DNSStart(httptrace.DNSStartInfo{Host: name})
	}
	if c := d.Resolver.state.Load(); c != nil {
		c.checkClock()
	}
	s, e, err := d.Resolver.lookup(ctx, name, d.MaxStale)
	if trace != nil && trace.DNSDone != nil && !isLiteral {
		info := httptrace.DNSDoneInfo{Err: err}
		if err == nil {
			for _, a := range s.addrs {
				info.Addrs = append(info.Addrs, net.IPAddr{IP: a.AsSlice(), Zone: a.Zone()})
			}
		}
		trace.DNSDone(info)
	}
	return s, e, err
}

// connect races the addresses of s, and if none connects and s may be out of date, those that DNS names instead. An address that was
// only refused here, by Admit or for want of something on our side, is no sign of that.
func (d *Dialer) connect(ctx context.Context, network string, port uint16, s *snapshot, e *entry) (net.Conn, net.Addr, error) {
	c := d.Resolver.state.Load()
	r := d.newRace(c, network, e)
	addrs := fits(slices.Clone(s.addrs), network)
	if len(addrs) == 0 {
		return nil, nil, &net.AddrError{Err: "no suitable address found", Addr: s.asked}
	}
	turn := 0
	if e != nil {
		turn = e.dials.next()
	}
	conn, err := r.run(ctx, dialOrder(addrs, port, turn, c.health.cooling(time.Now())))
	if err != nil && e != nil && ctx.Err() == nil && r.judged && d.outdated(c, port, s) {
		e.giveUpHold(s)
		if again, lookupErr := e.reread(ctx); lookupErr == nil {
			rest := r.untried(fits(slices.Clone(again.addrs), network), port)
			if len(rest) > 0 {
				conn, err = r.run(ctx, dialOrder(rest, port, 0, c.health.cooling(time.Now())))
			}
		}
	}
	if err != nil {
		return nil, r.blamed(), r.failure(err, s.asked)
	}
	return conn, nil, nil
}

// outdated reports whether DNS should be asked again because no address of s connects.
func (d *Dialer) outdated(c *core, port uint16, s *snapshot) bool {
	young := youngUnproven
	for _, a := range s.addrs {
		if !c.health.get(netip.AddrPortFrom(a, port)).success.IsZero() {
			young = youngProven
		}
	}
	now := time.Now()
	for _, rec := range s.recs {
		if good(rec) && now.Sub(rec.Value.at) <= young {
			return false
		}
	}
	return true
}

// giveUpHold ends the hold of records whose addresses all failed.
func (e *entry) giveUpHold(s *snapshot) {
	for f, r := range e.recs {
		if r != nil && good(s.recs[f]) {
			r.endHold()
		}
	}
}

// Failed tells that a connection to addr was made but is of no use, as when the handshake failed: the address goes to the
// end of the order for a while, like one that does not connect.
func (d *Dialer) Failed(addr netip.AddrPort) {
	if d.Resolver == nil {
		return
	}
	if c := d.Resolver.state.Load(); c != nil {
		c.health.failed(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), errHandshake, time.Now())
	}
}

var errHandshake = errors.New("connected, but the handshake failed")

// untraced hides package net's own trace from Wire: a net.Dialer there would call the connect hooks a second time. It is
// found by the package of its key, which cannot be named from here.
type untraced struct{ context.Context }

func (c untraced) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.PkgPath() == "internal/nettrace" {
		return nil
	}
	return c.Context.Value(key)
}
