// Package memnet is a network in memory, for tests.
//
// It stands where [net.Listen] and [net.Dialer] would, and behaves like TCP between two machines as seen by a Go
// program: connections buffer, writers block when the window is full, dials are refused, time out or hang, a peer
// closes, half-closes, resets or silently vanishes. Errors have the types and causes package net would give
// (*[net.OpError], [syscall.ECONNREFUSED], [syscall.ECONNRESET], [syscall.EPIPE], [os.ErrDeadlineExceeded],
// [net.ErrClosed]), so that code under test judges them as it would in production.
//
// Nothing here does real I/O or starts a goroutine. Every wait is on a channel or a condition variable, and so a
// goroutine blocked in this package counts as idle in a [testing/synctest] bubble: virtual time moves on. A [Network]
// used inside a bubble must be made inside it.
//
// [Network.Listen] gives the listener for an http.Server, and [Network.DialContext] fits http.Transport's field of that
// name. Where the code under test keeps its connections to itself, [Network.Conns] finds them, for [Conn.Reset] and
// [Conn.Drop].
//
// # What differs from a kernel
//
//   - Addresses are made up. A literal IP stays what it is, "localhost" and an empty host are 127.0.0.1, and any other
//     name gets an address in 198.18.0.0/15 which it keeps for the life of the Network. There is no DNS.
//   - A write fails with EPIPE as soon as the peer's close has arrived. A kernel accepts one more write, and learns
//     only from the answer to it that nobody reads any more.
//   - ECONNRESET stays: every later read and write reports it again. Linux reports it once.
//   - A connection whose peer has vanished waits for ever. Linux gives up after some fifteen minutes.
package memnet
