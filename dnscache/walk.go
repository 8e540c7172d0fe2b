package dnscache

import (
	"context"
	"sync"

	"github.com/sortie-go/sortie/internal/fresh"
)

// walk goes through the candidates of a name until one has an address. Both families are asked for each candidate, and so
// both find the same full name: a walk per family could take A from one suffix and AAAA from another.
//
// Each family's outcome is delivered as soon as it is certain. A flight of that family takes it if there is one; else it
// is offered to the record, whose flight it then was.
type walk struct {
	e        *entry
	cands    []candidate
	conf     *resolvConf
	lost     int     // questions to candidates without an address
	seed     finding // asked already, of family seeded
	seeded   family
	resorted bool // the hosts file has it, and DNS, which comes first here, has not
	tickets  [families]fresh.Ticket

	// guarded by entry.mu
	promised  [families]bool // to a flight that has been started and will come for it
	taken     [families]bool // by a flight that is here
	delivered [families]bool

	done  [families]chan struct{} // closed when delivered
	found [families]finding       // written before
	other [families]sibling
}

// sibling is what is known of the other family when one is judged.
type sibling uint8

const (
	otherUnknown  sibling = iota // no answer, or none of use
	otherNegative                // or not asked for at all
	otherGood
)

func newWalk(e *entry) *walk {
	w := &walk{e: e}
	for _, f := range e.core.cfg.asked {
		w.done[f] = make(chan struct{})
		w.tickets[f] = e.recs[f].value.Ticket()
	}
	return w
}

// deliver hands over what became of one family, once.
func (w *walk) deliver(f family, found finding, other sibling) {
	w.e.mu.Lock()
	if w.delivered[f] {
		w.e.mu.Unlock()
		return
	}
	w.delivered[f], w.found[f], w.other[f] = true, found, other
	fetched := w.promised[f] || w.taken[f]
	close(w.done[f])
	w.e.forgetLocked(w)
	w.e.mu.Unlock()
	if !fetched {
		r := w.e.recs[f]
		r.value.Offer(w.tickets[f], r.take(found, other))
	}
}

// outcome is what is known of both families of one candidate.
type outcome [families]finding

func (o outcome) has(k kind, fams []family) bool {
	for _, f := range fams {
		if o[f].kind == k {
			return true
		}
	}
	return false
}

// run asks candidate after candidate, at most for LookupTimeout. It has a place among the lookups of the Resolver, and
// begins when there is one.
func (w *walk) run() {
	c := w.e.core
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.timeout)
	defer cancel()
	places := c.placesFor(w.e)
	if !places.acquire(ctx) {
		w.finish(both(finding{kind: silent, err: errBusy}), candidate{}, false)
		return
	}
	defer places.release()
	if c.cfg.system {
		w.finish(c.askSystem(ctx, w.e.name), candidate{}, false)
		return
	}
	w.conf = c.files.conf.Load()
	w.cands = candidates(w.e.name, c.cfg.mode, w.conf)
	w.list(ctx)
}

// list walks the candidates.
func (w *walk) list(ctx context.Context) {
	c := w.e.core
	var sum tally
	for _, cand := range w.cands {
		if cand.hosts {
			o, dialled := c.askHosts(ctx, cand.name)
			positive := o.has(hasAddrs, c.cfg.asked)
			if !dialled { // the hosts file comes first and has it, or DNS is not configured
				w.finish(o, cand, positive)
				return
			}
			if positive {
				sum.resort, sum.lastResort = o, &cand
			}
			continue
		}
		o, won := w.try(ctx, cand, !sum.soft)
		if won {
			return
		}
		w.lost += len(c.cfg.asked)
		if sum.add(o, c.cfg.asked); sum.over || ctx.Err() != nil {
			break
		}
	}
	if sum.lastResort != nil {
		w.resorted = true
		w.finish(sum.resort, *sum.lastResort, true)
		return
	}
	w.finish(sum.result(c.cfg.asked), candidate{}, false)
}

// try asks one candidate. If it has an address, all is delivered, and it is remembered if that makes sense. Single-request
// asks one family after the other.
func (w *walk) try(ctx context.Context, cand candidate, remember bool) (o outcome, won bool) {
	fams := w.e.core.cfg.asked
	type answered struct {
		f family
		finding
	}
	in := make(chan answered, families)
	ask := func(f family) {
		if w.seed.kind != unasked && w.seeded == f && w.seed.name == cand.name {
			in <- answered{f, w.seed}
			return
		}
		in <- answered{f, w.e.core.ask(ctx, cand.name, f)}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if !w.conf.single {
		for _, f := range fams {
			wg.Go(func() { ask(f) })
		}
	}
	for _, f := range fams {
		if w.conf.single {
			ask(f)
		}
		a := <-in
		o[a.f] = a.finding
		if a.kind == hasAddrs && !won {
			won = true
			w.e.remember(w, cand, remember)
		}
		if won {
			w.deliverKnown(o)
		}
	}
	return o, won
}

// deliverKnown delivers what has been asked of a candidate that has an address.
func (w *walk) deliverKnown(o outcome) {
	for f := range families {
		if o[f].kind == unasked {
			continue
		}
		other := otherUnknown
		if o[f.other()].kind == hasAddrs {
			other = otherGood
		}
		w.deliver(f, o[f], other)
	}
}

// finish delivers both families of a walk that is over.
func (w *walk) finish(o outcome, winner candidate, remember bool) {
	c := w.e.core
	if remember {
		w.e.remember(w, winner, true)
	}
	for _, f := range c.cfg.asked {
		other := otherUnknown
		switch k := o[f.other()].kind; {
		case !c.cfg.wants(f.other()) || k.negative():
			other = otherNegative
		case k == hasAddrs:
			other = otherGood
		}
		w.deliver(f, o[f], other)
	}
}

// tally sums up the candidates without an address.
type tally struct {
	negative   outcome // of each family, the one with the shortest life
	failed     outcome // the last that failed
	soft       bool    // one failed
	over       bool    // going on makes no sense
	resort     outcome // of the hosts file, where DNS comes first
	lastResort *candidate
}

// add notes a candidate. A failure of some kind goes on to the next, as in package net; if nobody has answered at all,
// or this machine is out of something, the next would fare no better.
func (t *tally) add(o outcome, fams []family) {
	answered := false
	for _, f := range fams {
		switch k := o[f].kind; {
		case k == localFailed:
			t.over, t.failed[f], t.soft = true, o[f], true
		case !k.negative():
			t.failed[f], t.soft = o[f], true
			answered = answered || k == failing
		default:
			answered = true
			if t.negative[f].kind == unasked || negativeTTL(o[f]) < negativeTTL(t.negative[f]) {
				t.negative[f] = o[f]
			}
		}
	}
	t.over = t.over || !answered
}

// result is the outcome of the whole list: a family is denied only if every candidate denied it.
func (t *tally) result(fams []family) (o outcome) {
	for _, f := range fams {
		o[f] = t.negative[f]
		if t.failed[f].kind != unasked {
			o[f] = t.failed[f]
		}
		if o[f].kind == unasked { // no candidate was left, as with a list of names that are too long
			o[f] = finding{kind: noName, err: errNoSuchHost}
		}
	}
	return o
}
