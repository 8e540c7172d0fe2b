package breaker

import (
	"sync/atomic"
	"time"
)

// Outcome says how an attempt ended, as far as its endpoint is concerned. The zero Outcome is [Neutral].
type Outcome uint8

const (
	Neutral Outcome = iota // says nothing about the endpoint
	OK
	Failed
)

// A Permit is the right to send one attempt, and the duty to report it. It lies inside the attempt; Admit fills it in.
// The zero Permit reports to nobody. It must not be copied after Admit, nor be used for a second one.
type Permit struct {
	breaker *Breaker
	done    func(error)
	probe   *probe // not nil: admitted half-open
	spent   atomic.Bool
	denied  bool
}

// Admit asks for the permit to send an attempt. False means that the attempt must go elsewhere, and p is unchanged.
func (b *Breaker) Admit(p *Permit) bool {
	if b.holding() {
		return b.deny(p)
	}
	before := b.stamp.Load()
	done, err := b.core.Allow()
	if err != nil && b.expireProbes() {
		done, err = b.core.Allow()
	}
	if err != nil {
		b.notes.deliver()
		return b.deny(p)
	}
	p.breaker, p.done = b, done
	// The core does not tell in which state it admitted: it was half-open at some moment between the two readings, or
	// closed throughout.
	if after := b.stamp.Load(); after != before || state(after) == HalfOpen {
		p.probe = b.addProbe(after, done)
	}
	b.notes.deliver()
	return true
}

// deny is the answer no. In a dry run that is a permit which reports nothing.
func (b *Breaker) deny(p *Permit) bool {
	p.denied = b.cfg.Shadow
	return b.cfg.Shadow
}

// Denied reports whether the attempt goes ahead only because the breaker is a dry run.
func (p *Permit) Denied() bool { return p.denied }

// Probing reports whether the attempt was admitted half-open: then a success should be reported at its first sign, and
// not at the end of a long body.
func (p *Permit) Probing() bool { return p.probe != nil }

// Report tells how the attempt ended. Only the first report counts, so that the end of whatever comes first may report,
// and a last resort may report Neutral. It is safe for concurrent use.
func (p *Permit) Report(o Outcome) {
	if p.done == nil || !p.spent.CompareAndSwap(false, true) {
		return
	}
	if p.probe != nil && !p.breaker.endProbe(p.probe, o) {
		return
	}
	p.done(o.result())
	p.breaker.notes.deliver()
}

func (o Outcome) result() error {
	switch o {
	case OK:
		return nil
	case Failed:
		return errFailed
	}
	return errNeutral
}

// holding reports whether the open time of the breaker before a Reload still runs. The first who finds it over says so.
func (b *Breaker) holding() bool {
	held := b.held.Load()
	if held == 0 {
		return false
	}
	now := time.Now()
	if b.instant(now) <= held {
		return true
	}
	b.mu.Lock() // as every change, so that they stay in order
	defer b.mu.Unlock()
	if b.held.CompareAndSwap(held, 0) && !b.retired {
		b.since = now
		b.notes.add(Change{From: Open, To: Closed, At: now})
	}
	return false
}
