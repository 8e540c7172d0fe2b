package sortietest

import (
	"context"
	"net"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
)

// Network is a network in memory. On it upstreams have whatever addresses a test wants, dials can hang on any system,
// and distance costs time. It is made for [testing/synctest] bubbles: every wait on it counts as idle, so that virtual
// time moves on. Inside a bubble, make the Network inside it.
//
// Clients reach it through [Network.DialContext], which fits http.Transport.DialContext and the field Dial of this
// module's client.Config. Connections behave like TCP's, with the errors package net would
// give. There is no DNS: a literal IP stands for itself, any other name gets an address of its own.
//
// A Network has nothing to close. Its methods may be called from several goroutines at once.
type Network struct {
	net *memnet.Network
}

// NewNetwork returns a network on which nobody listens.
func NewNetwork() *Network {
	return &Network{net: memnet.New()}
}

// NewUpstream starts an upstream at address, "10.0.0.1:80" or "catalog.example:80", which is closed when the test
// ends. For more than steps, set [Upstream.Network] and [Upstream.Address].
func (n *Network) NewUpstream(tb TB, address string, steps ...Step) *Upstream {
	tb.Helper()
	u := &Upstream{Network: n, Address: address, Steps: steps}
	u.Start(tb)
	return u
}

// DialContext connects to address. It has the type of http.Transport's field of this name.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.net.DialContext(ctx, network, address)
}

// Listen announces on address, for servers that are no [Upstream]. Port 0 picks a free one.
func (n *Network) Listen(address string) (net.Listener, error) {
	return n.net.Listen(address)
}

// SetRTT sets how long a round trip to address takes, for connections dialled from now on: one round trip to connect,
// half of one for everything sent. Zero, as at the start, is no time at all.
func (n *Network) SetRTT(address string, rtt time.Duration) {
	n.net.SetRTT(address, rtt)
}

// Dials returns how many dials to address there were, whatever became of them: what a client spends on an address that
// refuses or hangs.
func (n *Network) Dials(address string) int {
	return n.net.Dials(address)
}

// BlackHole makes dials to address hang until the client gives up, whether somebody listens there or not.
// [Upstream.BlackHole] also silences open connections, and ends with the upstream. This one ends with
// [Network.Restore] alone. Call it before a bubble ends: net/http leaves dials running for which no request waits.
func (n *Network) BlackHole(address string) {
	n.net.BlackHole(address)
}

// Restore undoes [Network.BlackHole]. Dials that hang go on.
func (n *Network) Restore(address string) {
	if n != nil {
		n.net.Restore(address)
	}
}

// listen is Listen, where nil is the loopback interface and an empty address any free port.
func (n *Network) listen(address string) (net.Listener, error) {
	address = orAnyPort(address)
	if n == nil {
		return net.Listen("tcp", address)
	}
	return n.net.Listen(address)
}

func orAnyPort(address string) string {
	if address == "" {
		return "127.0.0.1:0"
	}
	return address
}
