package client

import "time"

// validateProtection finds mistakes in the policies that protect, alone and against each other.
func (p *Policy) validateProtection(path string, m *mistakes) {
	timeout := p.Timeout.withDefaults()
	if p.Limit != nil {
		p.Limit.validate(path+".Limit", timeout, m)
	}
	if p.Hedge != nil {
		p.Hedge.validate(path+".Hedge", timeout, m)
	}
	if p.Breaker != nil {
		p.Breaker.validate(path+".Breaker", timeout, m)
	}
	if p.Eject != nil {
		p.Eject.validate(path+".Eject", p.Breaker, m)
	}
	if p.Balance != nil {
		p.Balance.validate(path+".Balance", m)
	}
}

func (l *Limit) validate(path string, timeout Timeout, m *mistakes) {
	checkCount(m, path+".Max", l.Max)
	checkOrNone(m, path+".Queue", l.Queue)
	checkCount(m, path+".QueueWait", l.QueueWait)
	switch {
	case l.Queue == none && l.QueueWait > 0:
		m.addf(path+".QueueWait", "has no effect with Queue -1; remove one of them")
	case timeout.Total > 0 && l.QueueWait > 0:
		shorterThanTotal(m, path+".QueueWait", l.QueueWait, timeout.Total)
	}
	if l.Adaptive == nil {
		return
	}
	a := *l.engine(timeout).Adaptive
	path += ".Adaptive"
	checkCount(m, path+".Min", l.Adaptive.Min)
	checkCount(m, path+".Init", l.Adaptive.Init)
	checkCount(m, path+".Max", l.Adaptive.Max)
	checkCount(m, path+".MaxHealthy", l.Adaptive.MaxHealthy)
	switch limit := orDefault(l.Max, 256); {
	case a.Min > a.Init || a.Init > a.Max:
		m.addf(path, "Min (%d), Init (%d) and Max (%d) are out of order", a.Min, a.Init, a.Max)
	case a.Max > limit:
		m.addf(path+".Max", "%d is more than Limit.Max (%d)", a.Max, limit)
	}
	switch {
	case a.MaxHealthy <= 0:
		m.addf(path+".MaxHealthy", "is missing; without Timeout.Attempt there is no default")
	case timeout.Attempt > 0 && a.MaxHealthy >= timeout.Attempt:
		m.addf(path+".MaxHealthy", "%v is not below Timeout.Attempt (%v), which ends slower attempts first", a.MaxHealthy, timeout.Attempt)
	}
}

func (h *Hedge) validate(path string, timeout Timeout, m *mistakes) {
	if h.ExtraLoad < 0 || h.ExtraLoad > 1 {
		m.addf(path+".ExtraLoad", "%v is not between 0 and 1; use 0 for the default of 0.05", h.ExtraLoad)
	}
	checkCount(m, path+".Delay", h.Delay)
	checkCount(m, path+".Min", h.Min)
	if h.Delay > 0 && h.Min > 0 {
		m.addf(path+".Min", "has no effect with Delay, which is not measured; remove one of them")
	}
	for name, d := range map[string]time.Duration{"Delay": h.Delay, "Min": h.Min} {
		if timeout.Attempt > 0 && d >= timeout.Attempt {
			m.addf(path+"."+name, "%v is not below Timeout.Attempt (%v), which ends the first attempt before", d, timeout.Attempt)
		}
	}
}

func (b *Breaker) validate(path string, timeout Timeout, m *mistakes) {
	checkOrNone(m, path+".Consecutive", b.Consecutive)
	if b.Ratio < 0 || b.Ratio > 1 {
		m.addf(path+".Ratio", "%v is not between 0 and 1; use 0 for the default of 0.5", b.Ratio)
	}
	checkCount(m, path+".Volume", b.Volume)
	checkCount(m, path+".Window", b.Window)
	checkCount(m, path+".Open", b.Open)
	checkCount(m, path+".Probes", b.Probes)
	if window := orDefault(b.Window, 10*time.Second); window > 0 && window < 2*timeout.Attempt {
		m.addf(path+".Window", "%v is shorter than two attempts (%v each), so slow failures would leave it before they count", window, timeout.Attempt)
	}
}

func (e *Eject) validate(path string, b *Breaker, m *mistakes) {
	checkCount(m, path+".Connect", e.Connect)
	checkCount(m, path+".Consecutive", e.Consecutive)
	if e.Margin < 0 || e.Margin > 1 {
		m.addf(path+".Margin", "%v is not between 0 and 1; use 0 for the default of 0.3", e.Margin)
	}
	checkCount(m, path+".Volume", e.Volume)
	checkCount(m, path+".Interval", e.Interval)
	checkCount(m, path+".Base", e.Base)
	checkCount(m, path+".MaxTime", e.MaxTime)
	if e.MaxPercent < 0 || e.MaxPercent > 100 {
		m.addf(path+".MaxPercent", "%d is not between 0 and 100; use 0 for the default of 50", e.MaxPercent)
	}
	if e.Panic < none || e.Panic > 100 {
		m.addf(path+".Panic", "%d is not between 0 and 100; use 0 for the default of 50 or -1 for never", e.Panic)
	}
	if maxPercent, panics := orDefault(e.MaxPercent, 50), orDefault(e.Panic, 50); e.Panic != none && maxPercent+panics > 100 {
		m.addf(path+".MaxPercent", "%d and Panic %d are more than 100 together: panic would undo ejections that are allowed", maxPercent, panics)
	}
	if b != nil && b.Consecutive != none && orDefault(e.Consecutive, 5) > orDefault(b.Consecutive, 10) {
		m.addf(path+".Consecutive", "%d is more than Breaker.Consecutive (%d), so the breaker always comes first", orDefault(e.Consecutive, 5), orDefault(b.Consecutive, 10))
	}
}

func (b *Balance) validate(path string, m *mistakes) {
	if b.Picker > Rendezvous {
		m.addf(path+".Picker", "%d is no picker", b.Picker)
	}
	checkCount(m, path+".Decay", b.Decay)
	checkOrNone(m, path+".SlowStart", b.SlowStart)
	if b.Hash != nil && b.Picker != Rendezvous {
		m.addf(path+".Hash", "has no effect with picker %v; use Rendezvous, or remove it", b.Picker)
	}
}

// single finds what needs several endpoints where only one can exist.
func (p *Policy) single(path string, m *mistakes) {
	if p.Hedge != nil {
		m.addf(path+".Hedge", "has no effect where there is one endpoint only; add Balance or a second base URL, or remove it")
	}
	if p.Eject != nil {
		m.addf(path+".Eject", "has no effect where there is one endpoint only; add Balance or a second base URL, or remove it")
	}
}
