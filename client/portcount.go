package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/internal/ports"
)

// A portCounter enters the connects of one endpoint in the client's ledger of ports.
type portCounter struct {
	ledger *ports.Ledger
	policy *ports.Policy
	guard  *guard // nil: through a proxy, which was configured
	warn   func(context.Context, ports.Warning)
}

// install puts the counter into a dialer: before each connect, after it, and on what it brings.
func (p portCounter) install(d *dnscache.Dialer) {
	d.Admit, d.Wire = p.admit, p.wire(d.Wire)
}

// admit asks the guard and the ledger. What it returns is told the end of the connect, which may be that of a race that another
// address has won.
func (p portCounter) admit(ctx context.Context, addr netip.AddrPort) (func(net.Conn, error), error) {
	if p.guard != nil {
		if err := p.guard.check(addr.Addr()); err != nil {
			return nil, err
		}
	}
	ticket, warning, err := p.ledger.Admit(addr, p.policy, time.Now())
	if warning != nil {
		p.warn(ctx, *warning)
	}
	if err != nil {
		return nil, err
	}
	return func(nc net.Conn, err error) {
		switch s, ok := nc.(*pool.Socket); {
		case nc == nil:
			ticket.Failed(err, time.Now())
		case err != nil: // it came second, and has been closed
			ticket.Opened()
			ticket.Closed(ports.ClosedByUs, time.Now())
		default:
			ticket.Opened()
			if ok {
				s.Ticket = &ticket
			}
		}
	}, nil
}

// wire makes sockets that can carry a ticket, and knows the kernel's word for a port that it has not.
func (p portCounter) wire(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err == nil {
			return &pool.Socket{Conn: nc}, nil
		}
		if to, parseErr := netip.ParseAddrPort(address); parseErr == nil && ports.NoPort(err) && p.hasAddress(to) {
			return nil, p.ledger.NoPort(to, err)
		}
		return nil, err
	}
}

// hasAddress reports whether this machine certainly has an address to connect from, so that what the kernel lacked was a port. It
// says the same where IPv6 is switched off.
func (p portCounter) hasAddress(to netip.AddrPort) bool {
	return to.Addr().Unmap().Is4() || p.ledger.Answered(to)
}

// portsRunShort passes a warning of the ledger on: to the log, and to whoever listens to the pool.
func (k *core) portsRunShort(ctx context.Context, w ports.Warning) {
	logger := k.client.logger
	if logger == nil {
		logger = slog.Default()
	}
	text := "sortie: local ports to a destination run short"
	if w.Refused {
		text = "sortie: local ports to a destination are used up, no connection is made"
	}
	left := "not growing"
	if w.Forecast.Growing {
		left = w.Forecast.Left.Round(time.Second).String()
	}
	logger.LogAttrs(ctx, slog.LevelWarn, text,
		slog.String("destination", w.Dest.String()), slog.String("upstream", k.name),
		slog.Int("held", w.Held), slog.Int("budget", w.Budget), slog.String("preset", w.Preset), slog.String("used_up_in", left))
	pool.Warn(ctx, w)
}

// wireFailure is the failure of an attempt on the wire. Where a port was missing it carries the error that users know, and when
// there will be one.
func wireFailure(reason Reason, err error) *failure {
	f := &failure{reason: reason, err: err}
	if e, ok := errors.AsType[*ports.Error](err); ok {
		f.err = &PortError{
			Dest: e.Dest, Held: e.Held, Budget: e.Budget, RetryAfter: e.RetryAfter, Preset: e.Preset, Cause: e.Cause, err: err,
		}
		if reason == ReasonPortBudget {
			f.retryAfter = e.RetryAfter
		}
	}
	return f
}

// Deadline is the end of the attempt, for a pool in which it has to wait.
func (a *attempt) Deadline() (time.Time, bool) { return a.deadline() }
