package breaker

import (
	"slices"
	"time"
)

// A probe is a permit given half-open. The core would wait for its report for ever, and admit nobody meanwhile
// (resilience4j/resilience4j#544), so it expires: when somebody is turned away, the probes that are overdue are reported
// as neutral. That needs no timer, since an endpoint that nobody wants is missed by nobody.
type probe struct {
	done    func(error)
	overdue int64
	spent   bool // guarded by Breaker.mu
}

// addProbe notes a probe that was admitted when the stamp was at.
func (b *Breaker) addProbe(at uint64, done func(error)) *probe {
	p := &probe{done: done, overdue: b.instant(time.Now().Add(b.cfg.Overdue))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at == b.stamp.Load() && state(at) == HalfOpen { // else its report will be too late to count
		b.taken++
		b.probes = append(b.probes, p)
		b.fillLocked()
	}
	return p
}

// endProbe ends a probe and reports whether it had not ended before.
func (b *Breaker) endProbe(p *probe, o Outcome) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.spent {
		return false
	}
	p.spent = true
	i := slices.Index(b.probes, p)
	if i < 0 {
		return true
	}
	b.probes = slices.Delete(b.probes, i, i+1)
	if o == Neutral {
		b.taken--
	}
	b.fillLocked()
	return true
}

// fillLocked sets full from taken and probes.
func (b *Breaker) fillLocked() {
	full := int64(0)
	if b.taken >= b.cfg.Probes && len(b.probes) > 0 {
		full = b.probes[0].overdue // they are in the order of their admission
	}
	b.full.Store(full)
}

// expireProbes reports the probes that are overdue as neutral, and whether there were any.
func (b *Breaker) expireProbes() bool {
	if state(b.stamp.Load()) != HalfOpen {
		return false
	}
	now := b.instant(time.Now())
	var expired []*probe
	b.mu.Lock()
	for _, p := range b.probes {
		if now > p.overdue {
			expired = append(expired, p)
		}
	}
	b.mu.Unlock()

	for _, p := range expired {
		if b.endProbe(p, Neutral) {
			p.done(errNeutral)
		}
	}
	return len(expired) > 0
}
