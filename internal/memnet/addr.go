package memnet

import (
	"net"
	"net/netip"
	"strconv"
)

// Ports given out for port 0 and to dialling ends: the range Linux uses.
const (
	firstPort = 32768
	lastPort  = 60999
)

// resolve turns "host:port" into an address, inventing one for a name seen for the first time.
func (n *Network) resolve(network, address string) (netip.AddrPort, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return netip.AddrPort{}, net.UnknownNetworkError(network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, &net.AddrError{Err: "invalid port", Addr: address}
	}
	ip := n.lookup(host)
	if network == "tcp4" && !ip.Is4() || network == "tcp6" && !ip.Is6() {
		return netip.AddrPort{}, &net.AddrError{Err: "no suitable address", Addr: host}
	}
	return netip.AddrPortFrom(ip, uint16(number)), nil
}

func (n *Network) lookup(host string) netip.Addr {
	if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
		return ip.Unmap()
	} else if err == nil || host == "" || host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ip, ok := n.names[host]
	if !ok {
		i := len(n.names) + 2 // 198.18.0.1 is the dialling side
		ip = netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
		n.names[host] = ip
	}
	return ip
}

// clientAddr is the address of the dialling end of a connection to ip.
func clientAddr(ip netip.Addr) netip.Addr {
	switch {
	case ip.IsLoopback():
		return ip
	case ip.Is4():
		return netip.AddrFrom4([4]byte{198, 18, 0, 1})
	}
	return netip.MustParseAddr("2001:2::1")
}

// nextPort is called with n.mu held. A port may be given out again after 28,232 others.
func (n *Network) nextPort() uint16 {
	if n.port++; n.port > lastPort {
		n.port = firstPort
	}
	return n.port
}

func wantsAnyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number == 0
}
