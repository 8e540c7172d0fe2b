package client

import (
	"net/netip"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/internal/pool"
)

// follow returns how the pool of an endpoint follows the addresses of its name, and nil for a literal address, which has
// nothing to follow. The watch keeps the name resolved until the pool ends.
func (c *Client) follow(host string) func(tell func(pool.Answer)) (stop func()) {
	if _, ok := literal(host); ok {
		return nil
	}
	return func(tell func(pool.Answer)) (stop func()) {
		return c.resolver.Watch(host, func(u dnscache.Update) { tell(answerOf(u)) })
	}
}

// answerOf says of an update what a pool wants to know. An address is missed only where its own family is news.
func answerOf(u dnscache.Update) pool.Answer {
	return pool.Answer{
		Addrs:  u.Append(make([]netip.Addr, 0, u.Len())),
		TTL:    u.TTL(),
		Fresh4: u.Fresh && u.Family != dnscache.IPv6,
		Fresh6: u.Fresh && u.Family != dnscache.IPv4,
	}
}
