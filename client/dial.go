package client

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/sortie-go/sortie/dnscache"
)

// dialFunc makes one connection to host:port.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// staleOverHTTP is how far past its end an address may be that is dialled without TLS: no certificate notices there that an
// address has a new owner.
const staleOverHTTP = 5 * time.Minute

// dialer returns the function that makes an endpoint's connections: over remembered addresses, each judged by the guard when
// it is about to be dialled, so that an answer which changes between check and use gains nothing, and each counted in the ledger
// of ports. Through a proxy, which the configuration names, there is no address to judge but the proxy's own; its ports count. A
// valid pinned address is dialled whatever the name.
func (k *core) dialer(scheme string, rules *guard, with *kit, proxied bool, pinned netip.AddrPort) dialFunc {
	c, conns := k.client, with.conns
	d := &dnscache.Dialer{Resolver: c.resolver, Timeout: conns.DialTimeout, Wire: c.dial}
	if proxied {
		d.Timeout = orDefault(d.Timeout, 10*time.Second)
		rules = nil
	}
	if scheme == "http" {
		d.MaxStale = staleOverHTTP
	}
	if d.Wire == nil {
		timeout := orDefault(conns.UserTimeout, 30*time.Second)
		sockets := &net.Dialer{Control: func(_, _ string, socket syscall.RawConn) error {
			return setUserTimeout(socket, timeout)
		}}
		d.Wire = sockets.DialContext
	}
	portCounter{ledger: c.ledger, policy: with.ports, guard: rules, warn: k.portsRunShort}.install(d)
	if !pinned.IsValid() {
		return d.DialContext
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, pinned.String())
	}
}
