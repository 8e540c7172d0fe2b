package pool

import (
	"context"
	"time"
)

// CloseIdle closes the idle connections.
func (p *Pool) CloseIdle() {
	now := time.Now()
	p.mu.Lock()
	for i := len(p.conns) - 1; i >= 0; i-- {
		if c := p.conns[i]; c.streams == 0 {
			p.closeLocked(c, now, closeCause{reason: ReasonShutdown, detail: "close_idle"})
		}
	}
	h1 := p.h1
	p.mu.Unlock()
	p.deliver()
	if h1 != nil {
		h1.CloseIdle()
	}
}

// Drain ends the pool in peace: no request gets a connection any more, those that wait get ErrClosed, idle connections and
// dials are closed at once and the others when what runs on them has ended, bodies included. It returns nil when nothing is
// left, or the context's error; the pool then goes on draining. It may be called again.
func (p *Pool) Drain(ctx context.Context) error {
	for _, each := range p.startDrain() {
		select {
		case <-each.settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close ends the pool at once: what still runs sees its connection closed, without the farewell that TLS would wait for.
// When it returns no goroutine or timer of the pool is left. It may be called again, and after Drain.
func (p *Pool) Close() error {
	pools := p.startDrain()
	for _, each := range pools {
		each.cutAll()
	}
	for _, each := range pools {
		<-each.settled
	}
	return nil
}

// startDrain closes what can be closed now, and returns the pool with its sibling.
func (p *Pool) startDrain() []*Pool {
	p.mu.Lock()
	p.drainLocked(time.Now())
	h1 := p.h1
	p.mu.Unlock()
	p.unwatch()
	p.deliver()
	if h1 == nil {
		return []*Pool{p}
	}
	return append(h1.startDrain(), p)
}

func (p *Pool) drainLocked(now time.Time) {
	if p.draining {
		return
	}
	p.draining = true
	p.cancel()
	for _, t := range []*time.Timer{p.gate.timer, p.sweep.timer, p.follow.timer} {
		if t != nil {
			t.Stop()
		}
	}
	for p.waiters.head != nil {
		p.waiters.head.of.wakeLocked(nil, &refusal{kind: Closed, err: ErrClosed})
	}
	p.coolLocked()
	for i := len(p.conns) - 1; i >= 0; i-- {
		p.retireLocked(p.conns[i], now, closeCause{reason: ReasonShutdown})
	}
	p.settleLocked()
}

// cutAll closes every connection that is left, and the sockets of those whose closing takes its time.
func (p *Pool) cutAll() {
	now := time.Now()
	p.mu.Lock()
	p.cut = true
	for len(p.conns) > 0 {
		p.closeLocked(p.conns[len(p.conns)-1], now, closeCause{reason: ReasonShutdown, detail: "cut"})
	}
	sockets := make([]*netConn, 0, len(p.closers))
	for c := range p.closers {
		sockets = append(sockets, c.raw)
	}
	p.mu.Unlock()
	for _, raw := range sockets {
		raw.Close()
	}
	p.deliver()
}

// http1 returns the sibling that keeps connections for requests which must be HTTP/1. It has limits of its own.
func (p *Pool) http1() *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.h1 == nil && !p.draining {
		cfg := p.cfg
		cfg.MinIdle = 0
		p.h1 = p.group.newPool(cfg, p.transport.h1(), p.events)
	}
	if p.h1 == nil {
		return p // which refuses
	}
	return p.h1
}
