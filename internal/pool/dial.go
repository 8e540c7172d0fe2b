package pool

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"
)

// A dialing is one dial. It belongs to the pool: the caller it was started for may leave, and the connection then goes to
// the next one, or lies idle.
type dialing struct {
	pool    *Pool
	seq     uint64    // waiters up to this one had joined when it began
	waiter  *send     // the one it was started for; guarded by pool.mu
	warming bool      // it was started for nobody in particular
	warm    *warmWant // but for this, or for MinIdle
	fails   int       // failures in a row when it began
	crowded bool      // it found no place in the group
	raw     *netConn  // nil until there is a socket; owned by the dialling goroutine

	mu    sync.Mutex // guards what follows, as traces come from anywhere; a leaf
	on    bool       // a step is running
	step  StepName   // the last that began
	since time.Time
	steps [3]Step
	alpn  string // of the last handshake
}

// run dials, and gives the result to the pool.
func (d *dialing) run() {
	p := d.pool
	wait, stop := context.WithTimeout(p.ctx, p.cfg.DialTimeout)
	err := p.group.enter(wait)
	stop()
	if err != nil {
		d.crowded = true
		p.dialed(d, nil, err)
		return
	}
	p.watch()
	c, err := d.connect()
	p.group.dialEnded()
	p.dialed(d, c, err)
}

// connect opens the connection, up to the end of the last handshake.
func (d *dialing) connect() (*conn, error) {
	p := d.pool
	ctx, stop := context.WithTimeout(p.ctx, p.cfg.DialTimeout)
	defer stop()
	ctx = context.WithValue(ctx, dialKey{}, d)
	ctx = httptrace.WithClientTrace(ctx, d.trace())
	cc, err := p.transport.http.NewClientConn(ctx, p.cfg.Scheme, p.cfg.Host)
	d.leave()
	if err != nil {
		if d.raw != nil {
			d.raw.Close()
		} else {
			p.group.socketClosed()
		}
		return nil, err
	}
	c := &conn{pool: p, id: p.group.lastID.Add(1), cc: cc, raw: d.raw, peer: &Peer{d.raw.remote(), "HTTP/1.1"}}
	c.ready.of = c
	if c.h2 = p.transport.cfg.Protocol == H2C || d.negotiated() == "h2"; c.h2 {
		c.peer.Proto = "HTTP/2.0"
		cc.SetStateHook(c.onState)
		c.lookForGreeting()
	}
	if p.cfg.MaxAge > 0 {
		c.maxAge = time.Duration(float64(p.cfg.MaxAge) * (0.9 + 0.2*rand.Float64()))
	}
	d.raw.owner.Store(c)
	return c, nil
}

// socket is what net/http's DialContext comes down to.
func (d *dialing) socket(ctx context.Context, network, address string) (net.Conn, error) {
	d.enter(Connect)
	nc, err := d.pool.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.raw = newNetConn(nc, d.pool.group)
	if d.pool.cfg.Proxy != nil {
		d.enter(Proxy)
	} else {
		d.leave()
	}
	return d.raw, nil
}

// trace times the steps. DNS and Connect are told by whatever Dial uses; a Dial that tells nothing is all Connect.
func (d *dialing) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { d.swap(Connect, DNS) },
		DNSDone:           d.resolved,
		TLSHandshakeStart: func() { d.enter(TLS) },
		TLSHandshakeDone:  d.shook,
	}
}

func (d *dialing) resolved(info httptrace.DNSDoneInfo) {
	if info.Err == nil { // else the dial has failed in this step
		d.swap(DNS, Connect)
	}
}

func (d *dialing) shook(cs tls.ConnectionState, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alpn = cs.NegotiatedProtocol
	if err == nil {
		d.endLocked()
	}
}

func (d *dialing) negotiated() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alpn
}

// enter ends the running step and begins another.
func (d *dialing) enter(step StepName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enterLocked(step)
}

// swap is enter for hooks that may come late or twice, as those of two racing lookups do.
func (d *dialing) swap(from, to StepName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on && d.step == from {
		d.enterLocked(to)
	}
}

func (d *dialing) enterLocked(step StepName) {
	d.endLocked()
	d.on, d.step, d.since = true, step, time.Now()
	d.steps[timed(step)].Happened = true
}

// leave ends the running step; what follows, until another begins, is nobody's time.
func (d *dialing) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLocked()
}

func (d *dialing) endLocked() {
	if d.on {
		d.steps[timed(d.step)].Time += time.Since(d.since)
		d.on = false
	}
}

// timed is the step in whose time the time of step is shown: a proxy's answer is part of connecting.
func timed(step StepName) StepName {
	if step == Proxy {
		return Connect
	}
	return step
}

// sofar returns the steps as they stand, the running one included, and the last that began.
func (d *dialing) sofar() ([3]Step, StepName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	steps := d.steps
	if d.on {
		steps[timed(d.step)].Time += time.Since(d.since)
	}
	return steps, d.step
}

// addTo adds the steps so far to those of a caller who waited for them.
func (d *dialing) addTo(setup *[3]Step) {
	steps, _ := d.sofar()
	for i, s := range steps {
		setup[i].Happened = setup[i].Happened || s.Happened
		setup[i].Time += s.Time
	}
}

func (d *dialing) remote() netip.AddrPort {
	if d.raw == nil {
		return netip.AddrPort{}
	}
	return d.raw.remote()
}
