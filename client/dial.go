package client

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialFunc makes one connection to host:port.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns the function that makes an endpoint's connections. Every address is judged by the guard when it is
// about to be dialled, after the name has been looked up, so an answer that changes between check and use gains nothing.
// Through a proxy, which the configuration names, there is no address to judge but the proxy's own.
func (c *Client) dialer(rules *guard, conns Conns, proxied bool) dialFunc {
	if proxied {
		rules = nil
	}
	if c.dial != nil {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			return resolveAndDial(ctx, network, address, rules, c.dial)
		}
	}
	d := &net.Dialer{}
	userTimeout := orDefault(conns.UserTimeout, 30*time.Second)
	d.Control = func(_, address string, socket syscall.RawConn) error {
		if rules != nil {
			addr, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if err := rules.check(addr.Addr()); err != nil {
				return err
			}
		}
		return setUserTimeout(socket, userTimeout)
	}
	return d.DialContext
}

// resolveAndDial looks the host up and gives the addresses to dial, in turn, until one connects.
func resolveAndDial(ctx context.Context, network, address string, rules *guard, dial dialFunc) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var first error
	for _, addr := range addrs {
		addr = addr.Unmap()
		err := error(nil)
		if rules != nil {
			err = rules.check(addr)
		}
		if err == nil {
			var conn net.Conn
			if conn, err = dial(ctx, network, net.JoinHostPort(addr.String(), port)); err == nil {
				return conn, nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
