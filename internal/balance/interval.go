package balance

import "slices"

// A peer is an endpoint with enough outcomes in an interval to be compared.
type peer struct {
	ep    *Endpoint
	share float64 // of failures
}

// evaluate ends an interval, once.
func (b *Balancer) evaluate(t int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state.Load()
	end := b.evalAt.Load()
	if s.cfg.Eject == nil || t < end {
		return
	}
	b.evalAt.Store(t + int64(s.cfg.Eject.Interval))
	if end == 0 {
		return // nothing was measured for a whole one yet
	}
	for _, tier := range s.tiers {
		b.compareLocked(tier, s.cfg.Eject, t)
	}
}

// compareLocked ejects those which fail more than the median of their tier, the worst first. It is the median and not a
// deviation from the mean, which three dead of ten would widen until none of them stood out (grpc/grpc-java#12537).
func (b *Balancer) compareLocked(tier []*Endpoint, e *Eject, t int64) {
	var peers []peer
	for _, ep := range tier {
		if share, ok := ep.closeInterval(e.Volume); ok {
			peers = append(peers, peer{ep, share})
		}
	}
	slices.SortFunc(peers, func(x, y peer) int {
		switch {
		case x.share > y.share:
			return -1
		case x.share < y.share:
			return 1
		}
		return 0
	})
	median := 0.0
	if n := len(peers); n > 0 {
		median = (peers[n/2].share + peers[(n-1)/2].share) / 2
	}
	for _, p := range peers {
		if above := p.share - median; e.Margin > 0 && above >= e.Margin-1e-9 {
			b.ejectLocked(p.ep, Ejection{Cause: ByMargin, Share: p.share, Median: median}, t)
			p.ep.postpone(e, t)
		}
	}
	for _, ep := range tier {
		ep.forgive(e, t)
	}
}

// closeInterval returns the share of failures in the interval that ends, if there were outcomes enough.
func (ep *Endpoint) closeInterval(volume int) (float64, bool) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ok, failed := ep.interval.ok, ep.interval.failed
	ep.interval.ok, ep.interval.failed = 0, 0
	if ok+failed == 0 || ok+failed < volume {
		return 0, false
	}
	return float64(failed) / float64(ok+failed), true
}

// postpone is for an endpoint that was not well in this interval, whether it was ejected or not.
func (ep *Endpoint) postpone(e *Eject, t int64) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.out.forgive = max(ep.out.forgive, t+int64(e.Interval))
}

// forgive lets the number of ejections fall by one for each interval without trouble.
func (ep *Endpoint) forgive(e *Eject, t int64) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	for ep.out.times > 0 && t >= ep.out.forgive {
		ep.out.times--
		ep.out.forgive += max(int64(e.Interval), 1)
	}
}
