package dnscache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"time"
)

// race connects to addresses until one answers. It belongs to one dial; its goroutines are the Resolver's.
type race struct {
	d       *Dialer
	core    *core
	network string
	entry   *entry // nil for a literal, or a name that is not kept

	tried  map[netip.AddrPort]bool
	silent map[netip.AddrPort]int // started as the nth, and nothing heard
	first  *attempt               // that failed, of the first family
	judged bool                   // some address has failed, and not for something of ours
	lead   netip.Addr             // whose family that is
}

// attempt is one connect and its end.
type attempt struct {
	addr netip.AddrPort
	conn net.Conn
	err  error
	nth  int
	took time.Duration
	ours bool                  // refused by Admit, or for want of something on our side: it says nothing about the address
	done func(net.Conn, error) // of Admit
}

func (d *Dialer) newRace(c *core, network string, e *entry) *race {
	return &race{
		d: d, core: c, network: network, entry: e,
		tried: make(map[netip.AddrPort]bool), silent: make(map[netip.AddrPort]int),
	}
}

var (
	errLost      = errors.New("dnscache: another address connected first")
	errSilent    = errors.New("dnscache: silent until another address connected")
	errAllFailed = errors.New("dnscache: no address connected")
)

// run dials the addresses in order and returns the first connection. The others are cancelled, and close what they get.
func (r *race) run(ctx context.Context, order []netip.AddrPort) (net.Conn, error) {
	if !r.lead.IsValid() {
		r.lead = order[0].Addr()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errLost)
	defer context.AfterFunc(r.core.ctx, func() { cancel(ErrClosed) })()
	parallel := or(r.d.Parallel, defaultParallel)
	results := make(chan *attempt)
	timer := time.NewTimer(0)
	defer timer.Stop()
	running := 0
	for {
		if len(order) == 0 && running == 0 {
			return nil, errAllFailed
		}
		var due <-chan time.Time
		if len(order) > 0 && running < parallel {
			due = timer.C
		}
		select {
		case <-due:
			if !r.launch(ctx, order[0], results) {
				return nil, ErrClosed
			}
			order = order[1:]
			running++
			timer.Reset(r.delay())
		case a := <-results:
			running--
			a.done(a.conn, a.err)
			if r.note(a) {
				return a.conn, nil
			}
			timer.Reset(0)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *race) delay() time.Duration {
	switch {
	case r.d.Delay > 0:
		return r.d.Delay
	case r.entry == nil:
		return unknownDelay
	}
	return r.entry.dials.delay()
}

// launch starts a connect, and reports false after Close. If the race ends first, the attempt cleans up after itself.
func (r *race) launch(ctx context.Context, addr netip.AddrPort, results chan<- *attempt) bool {
	nth := len(r.tried)
	r.tried[addr], r.silent[addr] = true, nth
	return r.core.spawn(func() {
		a := r.attempt(ctx, addr)
		a.nth = nth
		select {
		case results <- a:
		case <-ctx.Done():
			if a.conn != nil {
				a.conn.Close()
				a.err = context.Cause(ctx)
			}
			a.done(a.conn, a.err)
		}
	})
}

// attempt connects to one address.
func (r *race) attempt(ctx context.Context, addr netip.AddrPort) *attempt {
	a := &attempt{addr: addr, done: func(net.Conn, error) {}}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if r.d.Admit != nil {
		done, err := r.d.Admit(ctx, addr)
		if err != nil {
			a.err, a.ours = err, true
			return a
		}
		if done != nil {
			a.done = done
		}
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(r.network, addr.String())
	}
	start := time.Now()
	a.conn, a.err = r.wire(ctx, addr)
	a.took = time.Since(start)
	if a.err != nil {
		a.conn, a.ours = nil, isLocal(a.err)
	}
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(r.network, addr.String(), a.err)
	}
	return a
}

func (r *race) wire(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	dial := r.d.Wire
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return dial(untraced{ctx}, r.network, addr.String())
}

// note takes the end of an attempt, and reports whether it won.
func (r *race) note(a *attempt) bool {
	now := time.Now()
	delete(r.silent, a.addr)
	if a.err == nil {
		r.won(a, now)
		return true
	}
	if !a.ours {
		r.judged = true
		r.core.health.failed(a.addr, a.err, now)
	}
	if r.first == nil || r.saysMore(a, r.first) {
		r.first = a
	}
	return false
}

// saysMore reports whether a failure says more than another: about the address rather than about us, then of the family that
// leads.
func (r *race) saysMore(a, than *attempt) bool {
	if a.ours != than.ours {
		return than.ours
	}
	return r.leads(a) && !r.leads(than)
}

func (r *race) leads(a *attempt) bool { return a.addr.Addr().Is4() == r.lead.Is4() }

// won notes a success. Addresses that were started before and are still silent will be tried last next time.
func (r *race) won(a *attempt, now time.Time) {
	r.core.health.connected(a.addr, now)
	for addr, nth := range r.silent {
		if nth < a.nth {
			r.core.health.failed(addr, errSilent, now)
		}
	}
	if e := r.entry; e != nil {
		e.dials.took(a.took)
		f := v6
		if a.addr.Addr().Is4() {
			f = v4
		}
		e.preferFamily(f)
	}
}

// untried returns the addresses that no attempt was made for.
func (r *race) untried(addrs []netip.Addr, port uint16) (out []netip.Addr) {
	for _, a := range addrs {
		if !r.tried[netip.AddrPortFrom(a, port)] {
			out = append(out, a)
		}
	}
	return out
}

// blamed returns the address that the error names, nil if none failed.
func (r *race) blamed() net.Addr {
	if r.first == nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(r.first.addr)
}

// failure is the error of a race that nobody won, which run ended with cause.
func (r *race) failure(cause error, name string) error {
	err := cause
	if r.first != nil && (errors.Is(cause, errAllFailed) || isTimeout(cause) && isTimeout(r.first.err)) {
		err = r.first.err // with nothing but silence, the first timeout says as much as the last
	}
	if len(r.tried) < 2 {
		return err
	}
	return &raceError{name, len(r.tried), err}
}

// raceError is the first failure, with the number of addresses that were tried.
type raceError struct {
	name  string
	tried int
	err   error
}

func (e *raceError) Error() string {
	return fmt.Sprintf("%v (the first of %d addresses of %s)", e.err, e.tried, e.name)
}

func (e *raceError) Unwrap() error { return e.err }

// Timeout reports whether the first failure was one, as net.Error wants it.
func (e *raceError) Timeout() bool { return isTimeout(e.err) }

// Temporary is there for net.Error.
func (e *raceError) Temporary() bool { return e.Timeout() }
