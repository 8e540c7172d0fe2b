//go:build !linux

package sortietest

import "net"

// newDoor returns the door of a gateway.
func (n *NAT) newDoor(ln net.Listener) (natDoor, error) { return newPlainDoor(ln, n.Network), nil }
