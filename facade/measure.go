package facade

// lateOutcome is counted beside a part's state, for one whose function still ran at the end.
const lateOutcome = "late"

// counted is a part as metrics count it.
type counted struct{ name, outcome string }

// countPartsLocked lists what is to be counted of the parts, which nobody changes any more. Elements of an Each go by their
// group, as their number is no number of parts, but each that is late is told.
func (r *run) countPartsLocked() []counted {
	if r.metrics == nil {
		return nil
	}
	out := make([]counted, 0, len(r.all))
	for _, p := range r.all {
		name := p.name
		if g := p.group(); g == nil {
			out = append(out, counted{name, p.state.String()})
		} else {
			name = g.name
		}
		if p.rescuing || p.phase == phaseGivenUp {
			out = append(out, counted{name, lateOutcome})
		}
	}
	return out
}

// measure records the run, when it is over.
func (r *run) measure(rep *Report, parts []counted) {
	if r.metrics == nil {
		return
	}
	outcome := "complete"
	switch {
	case rep.Err != nil:
		outcome = "failed"
	case !rep.Complete:
		outcome = "degraded"
	}
	ctx, f := r.hard.Context, r.metrics.Facade(r.name)
	f.Ended(ctx, rep.Took, outcome)
	for _, p := range parts {
		f.Part(ctx, p.name, p.outcome)
	}
}
