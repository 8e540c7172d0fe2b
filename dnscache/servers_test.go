package dnscache_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// pairOfServers are two servers of which the first is dead.
type pairOfServers struct {
	dead, good *sortietest.DNS
}

func twoServers(t *testing.T) *pairOfServers {
	t.Helper()
	return new(pairOfServers)
}

func (p *pairOfServers) resolver() *dnscache.Resolver {
	return &dnscache.Resolver{
		Servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("192.0.2.54:53")},
		DialDNS: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "192.0.2.53:53" {
				return p.dead.DialContext(ctx, network, address)
			}
			return p.good.DialContext(ctx, network, address)
		},
	}
}

// world makes the servers, inside the bubble.
func (p *pairOfServers) world(*world) {
	p.dead, p.good = new(sortietest.DNS), new(sortietest.DNS)
	p.dead.Outage(sortietest.DNSReply{Drop: true})
	for _, name := range []string{"one.example.com", "two.example.com", "three.example.com"} {
		p.good.Host(name, 30, "192.0.2.1", "2001:db8::1")
	}
}

func (p *pairOfServers) counts() []int {
	return []int{len(p.dead.Questions()), len(p.good.Questions())}
}
