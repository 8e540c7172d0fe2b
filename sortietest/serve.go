package sortietest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
)

// serve accepts from ln in a goroutine of its own. It returns nil if the upstream is closed.
func (u *Upstream) serve(ln net.Listener) *gate {
	g := newGate(ln, u)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		ln.Close()
		return nil
	}
	u.ln = g
	u.serving.Go(func() {
		defer close(g.ended)
		if u.TLS {
			u.srv.ServeTLS(g, "", "")
		} else {
			u.srv.Serve(g)
		}
	})
	return g
}

// handle serves one request by the script.
func (u *Upstream) handle(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connKey{}).(*conn)
	x := &exchange{w: w, r: r, conn: c}
	if n := c.requests.Add(1); u.StaleReuse && n > int64(u.RequestsPerConn) {
		x.fail(hangup)
	}
	if !u.begin(r, c) {
		panic(http.ErrAbortHandler)
	}
	defer u.end()
	defer u.catch(r)
	u.next(r).play(x)
}

// catch tells the test of a panic in Respond or Handle, which net/http would only log.
func (u *Upstream) catch(r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		u.fail(fmt.Errorf("panic on %s %s: %v\n%s", r.Method, r.URL.Path, p, debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// next returns the step for r.
func (u *Upstream) next(r *http.Request) Step {
	u.mu.Lock()
	respond := u.respond
	var s Step
	if n := len(u.steps); n > 0 {
		s = u.steps[min(u.step, n-1)]
		u.step++
	}
	u.mu.Unlock()
	if respond != nil {
		return respond(r)
	}
	return s
}

// track follows net/http's view of a connection.
func (u *Upstream) track(nc net.Conn, state http.ConnState) {
	c := unwrap(nc)
	switch state {
	case http.StateActive:
		c.busy.Store(true)
	case http.StateIdle:
		c.busy.Store(false)
		if limit := int64(u.RequestsPerConn); limit > 0 && !u.StaleReuse && c.requests.Load() >= limit {
			nc.Close()
		}
	case http.StateClosed, http.StateHijacked:
		u.serving.Done()
	}
}

// admit takes charge of an accepted connection, until net/http says that it is through with it.
func (u *Upstream) admit(nc net.Conn) (*conn, bool) {
	c := &conn{Conn: nc, up: u, closed: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, false
	}
	u.serving.Add(1)
	u.journal.stats.Conns++
	c.number = u.journal.stats.Conns
	u.conns[c] = struct{}{}
	u.journal.changed()
	return c, true
}

func (u *Upstream) forget(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
	u.journal.changed()
}

// open returns the connections that are open.
func (u *Upstream) open() []*conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	conns := make([]*conn, 0, len(u.conns))
	for c := range u.conns {
		conns = append(conns, c)
	}
	return conns
}
