package facade

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"
)

// State is how a part ended.
type State uint8

// The states, from what a page hopes for to what ends it. The order is that of their gravity.
const (
	StatePending   State = iota // no outcome yet
	StateOK                     // its function returned a value
	StateSkipped                // not called: When said no, or what it needed had failed, or the run had
	StateFallback               // its function failed, and a fallback took its place
	StateUnused                 // the run succeeded without waiting for it
	StateCancelled              // the run failed, for another reason, while it ran
	StateFailed                 // it is why the run failed
)

var stateNames = [...]string{"pending", "ok", "skipped", "fallback", "unused", "cancelled", "failed"}

// String returns the state's name: pending, ok, skipped, fallback, unused, cancelled or failed.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return "state(" + strconv.Itoa(int(s)) + ")"
	}
	return stateNames[s]
}

// Wait is a time spent in Get.
type Wait struct {
	Part     string        // the part that was waited for
	From, To time.Duration // since the start of the run
}

// PartReport tells how one part went.
type PartReport struct {
	Name   string
	State  State
	Shared bool // the value comes from a call that another run began

	// Late says that a function of the part still ran when Do returned: it does not heed its context.
	Late bool

	// Started is when the part got its permit, since the start of the run; Queued is how long it waited for that. For a
	// part that never started, Started is when it was given up.
	Started, Queued time.Duration

	// Took is the time from then on until the outcome was known, waiting for other parts and falling back included. Of it,
	// Parked was spent waiting in Get, and Fallback in FallbackFunc.
	Took, Parked, Fallback time.Duration

	// Waits are the times in Get that took any time; beyond 64 they are not kept. A part that found the value there has no
	// wait.
	Waits []Wait

	Batch    int // of a batch's call: how many keys it asked for
	Elements int // of Each: how many there are
	Unlisted int // of Each: how many of them are not in the report

	Notes []slog.Attr // from Annotate

	// Err is nil or an *Error: why the part failed, fell back, or did not run.
	Err error
}

// Report tells how a run went. It belongs to the caller and is not changed after Do returned.
type Report struct {
	Name  string
	Start time.Time
	Took  time.Duration

	// Limit is the time that the parts had.
	Limit time.Duration

	// Complete says that the run succeeded and no fallback stands in for a part.
	Complete bool

	// Parts are in the order of declaration. Of an Each the whole comes first, then up to 64 elements, those that did not
	// go well before the others.
	Parts []PartReport

	// Waits are the times that the function of the run spent in Get.
	Waits []Wait

	Stragglers int         // parts that were Late
	Notes      []slog.Attr // from Annotate, with the context of the run's function
	Err        error       // what Do returned
}

// maxNotes and maxWaits bound what a report keeps for each part, listed the elements for each Each.
const (
	maxNotes = 32
	maxWaits = 64
	listed   = 64
)

// Annotate adds attributes to the report line of the part that ctx belongs to, for example cache=STALE or attempts=2. It
// does nothing outside of a run, when the run has ended, and beyond 32 attributes.
func Annotate(ctx context.Context, attrs ...slog.Attr) {
	switch n := ctx.Value(nodeKey{}).(type) {
	case *part:
		n.run.annotate(n, attrs, false)
	case *sharedCall:
		n.annotate(attrs)
	}
}

func (c *sharedCall) annotate(attrs []slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, attrs[:min(len(attrs), maxNotes-len(c.notes))]...)
}

func (c *sharedCall) noted() []slog.Attr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.notes)
}

func (r *run) annotate(p *part, attrs []slog.Attr, shared bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	s := p.tell()
	s.shared = s.shared || shared
	s.notes = append(s.notes, attrs[:min(len(attrs), maxNotes-len(s.notes))]...)
}

// rootWaits is how many waits of the run's function there is room for at once: of eight parts that take their time, three
// on average are the slowest so far.
const rootWaits = 4

// note keeps a wait, if it took any time.
func (p *part) note(w Wait) {
	if w.To == w.From {
		return
	}
	s := p.tell()
	if len(s.waits) >= maxWaits {
		return
	}
	if s.waits == nil && p.kind == kindRoot { // which waits for several parts, where a part waits for one or two
		s.waits = make([]Wait, 0, rootWaits)
	}
	s.waits = append(s.waits, w)
}

// publish passes the outcome of a part on to those who want to know at once.
func (r *run) publish(p *part, fx *effects) {
	if r.onPart != nil || r.stream != nil {
		r.publishTo(p, fx)
	}
}

func (r *run) publishTo(p *part, fx *effects) {
	if r.onPart != nil {
		fx.more().reports = append(fx.more().reports, p.report())
	}
	if r.stream != nil && p.outcome == nil && p.kind != kindLoad {
		r.stream.push(Done{PartReport: p.report(), Value: p.body.boxed()})
	}
}

// report returns what is known of the part so far.
func (p *part) report() (rep PartReport) {
	p.fill(&rep)
	return rep
}

// fill is report in place: reports are large.
func (p *part) fill(rep *PartReport) {
	rep.Name = p.label()
	rep.State = p.state
	rep.Started = p.started
	rep.Queued = p.started - p.declared
	rep.Took = p.ended - p.started
	if p.kind == kindGroup {
		rep.Elements = p.terms.sum.elements
	}
	if s := p.story; s != nil {
		s.fill(rep)
	}
	if p.state == StateFallback && p.kind == kindPart {
		rep.Fallback = p.ended - p.story.fell
	}
	if p.err != nil {
		rep.Err = p.err
	}
}

func (s *story) fill(rep *PartReport) {
	rep.Parked = s.parkedFor
	rep.Shared = s.shared
	rep.Waits = slices.Clip(s.waits)
	rep.Batch = s.keys
	rep.Notes = slices.Clip(s.notes)
}

// report closes the run's books. What a straggler still runs at counts up to this moment.
func (r *run) report() *Report {
	now := r.now()
	rep := &Report{
		Name: r.name, Start: r.start, Took: now, Limit: r.partsEnd, Complete: r.failure == nil,
		Parts: make([]PartReport, 0, min(len(r.all), 2*listed)), Waits: r.rootStory.waits, Notes: r.rootStory.notes,
	}
	if r.failure != nil {
		rep.Err = r.failure
	}
	var list lister
	for _, p := range r.all {
		late := p.rescuing || p.phase == phaseGivenUp
		if late {
			rep.Stragglers++
			if p.state == StateCancelled || p.state == StateUnused {
				p.ended = now
			}
		}
		if p.state == StateFallback {
			rep.Complete = false
		}
		if !list.wants(p) {
			rep.Parts[list.group].Unlisted++
			continue
		}
		if p.kind == kindGroup {
			list = lister{group: len(rep.Parts), bad: listed, good: max(listed-p.terms.sum.bad, 0)}
		}
		rep.Parts = append(rep.Parts, PartReport{Late: late})
		p.fill(&rep.Parts[len(rep.Parts)-1])
	}
	return rep
}

// lister chooses the elements of an Each that the report lists.
type lister struct{ group, good, bad int }

func (l *lister) wants(p *part) bool {
	room := &l.bad
	if p.group() == nil {
		return true
	}
	if p.state == StateOK {
		room = &l.good
	}
	*room--
	return *room >= 0
}
