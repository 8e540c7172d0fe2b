package sortietest

import "fmt"

// Refuse closes the port and resets all connections, as if the process had died: the client sees ECONNREFUSED. It
// lasts until [Upstream.Restore].
//
// That a connection is refused, or hangs, is a state of the upstream and no [Step], because a step belongs to a
// request, and here none arrives.
func (u *Upstream) Refuse() {
	u.inTurn(u.refuse)
}

// BlackHole lets the upstream vanish, as a machine does that loses power or a firewall that drops packets: dials hang
// until the client gives up, and on open connections nothing arrives any more, in either direction, without an error.
// It lasts until [Upstream.Restore].
//
// On real sockets the accept queue is filled to this end, which works on Linux; elsewhere use a [Network].
func (u *Upstream) BlackHole() {
	u.inTurn(u.vanish)
}

// Restore undoes [Upstream.Refuse] and [Upstream.BlackHole]: dials succeed again, those that hang included.
// Connections that were lost stay lost.
func (u *Upstream) Restore() {
	u.inTurn(func() { u.restore() })
}

// ResetConns resets all open connections, with whatever requests run on them.
func (u *Upstream) ResetConns() {
	for _, c := range u.open() {
		c.reset()
	}
}

// CloseIdle closes, unannounced, the connections on which no request runs, as a server does whose idle timeout is
// shorter than the client's.
func (u *Upstream) CloseIdle() {
	for _, c := range u.open() {
		if !c.busy.Load() {
			c.Close()
		}
	}
}

// inTurn runs f, one at a time: Refuse, BlackHole and Restore each go through several states. Before the upstream is
// started there is nothing they could change.
func (u *Upstream) inTurn(f func()) {
	if u.srv == nil {
		return
	}
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	f()
}

func (u *Upstream) refuse() {
	u.mu.Lock()
	ln := u.ln
	u.ln = nil
	u.mu.Unlock()
	u.Network.Restore(u.Addr())
	if ln != nil {
		ln.Close()
		<-ln.ended
	}
	u.ResetConns()
}

func (u *Upstream) vanish() {
	ln := u.restore()
	if ln == nil {
		return
	}
	if u.Network != nil {
		u.Network.BlackHole(u.Addr())
	} else if err := ln.fill(); err != nil {
		u.fail(fmt.Errorf("black hole: %w", err))
	}
	for _, c := range u.open() {
		c.drop()
	}
}

// restore returns the open gate, or nil if the upstream is closed or its port is lost.
func (u *Upstream) restore() *gate {
	u.mu.Lock()
	ln, closed := u.ln, u.closed
	u.mu.Unlock()
	switch {
	case closed:
		return nil
	case ln != nil:
		u.Network.Restore(u.Addr())
		if err := ln.drain(); err != nil {
			u.fail(fmt.Errorf("restore: %w", err))
		}
		return ln
	}
	inner, err := u.Network.listen(u.Addr())
	if err != nil {
		u.fail(fmt.Errorf("restore: %w", err))
		return nil
	}
	return u.serve(inner)
}

// fail tells the test, or keeps err for Close.
func (u *Upstream) fail(err error) {
	u.mu.Lock()
	tb := u.tb
	if tb == nil {
		u.failures = append(u.failures, err)
	}
	u.mu.Unlock()
	if tb != nil {
		tb.Errorf("sortietest: %v", err)
	}
}
