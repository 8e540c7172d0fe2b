package facade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// run is the engine behind a Scope. One mutex guards it; what calls the user's code, or another run's, is noted in
// effects and done after the mutex was released.
type run struct {
	name    string
	onPart  func(PartReport)
	onRun   func(*Report)
	metrics *metrics.Metrics
	permits int
	work    func() // run.worker, bound once: a go statement for a part then allocates nothing

	start         time.Time
	partsEnd, end time.Duration // after start
	grace         time.Duration

	outer     any                     // the node in which the run was begun, if any
	hard      fnContext               // of fn: until end
	cancel    context.CancelCauseFunc // ends hard, and with it soft
	soft      context.Context         // of the parts: until partsEnd
	free      context.CancelFunc      // of soft
	limit     *limitError             // the cause when they end by time
	root      part                    // stands for fn
	rootStory story
	stream    *stream // of Stream

	ready partStack // have their permit, need a goroutine

	mu       sync.Mutex
	timer    *time.Timer // calls expire at partsEnd, then endFn at end
	all      []*part
	first    [8]*part // room for all, in most runs
	names    map[ident]*part
	failure  *Error
	closing  bool // fn has returned: no more parts
	closed   bool // the report is made: nothing is to change
	active   int  // goroutines of the run that have not come to their end
	idle     chan struct{}
	running  int      // permits in use
	busy     int      // fn and started parts, as far as they are not parked
	queued   int      // parts waiting for their limit or for a permit
	starting partLine // have passed their limit, need a permit
	resuming waiterList
	windows  []window // of batches that collect keys
	batches  map[any]any
	searches uint32
}

// begin starts the clock. A run whose options or context forbid it has failed already.
func begin(ctx context.Context, o *Options) *Scope {
	s := &Scope{}
	r := &s.run
	r.name, r.onPart, r.onRun, r.permits = o.Name, o.OnPart, o.OnRun, o.permits()
	r.metrics = o.Metrics
	r.work, r.outer = r.worker, ctx.Value(nodeKey{})
	r.all = r.first[:0]

	r.start = time.Now()
	left := o.Timeout
	if left <= 0 {
		left = defaultTimeout
	}
	if d, ok := ctx.Deadline(); ok && (o.Timeout <= 0 || d.Sub(r.start) < left) {
		left = d.Sub(r.start)
	}
	r.partsEnd, r.end = o.span(left)
	r.grace = r.end - r.partsEnd
	r.limit = &limitError{whose: "run's", limit: r.partsEnd}
	inner, cancel := context.WithCancelCause(ctx)
	r.hard, r.cancel = fnContext{inner, r}, cancel
	r.soft, r.free = context.WithDeadlineCause(inner, r.start.Add(r.partsEnd), r.limit)
	r.root.run, r.root.kind, r.root.name, r.root.story = r, kindRoot, o.Name, &r.rootStory
	r.root.phase, r.root.busy, r.busy = phaseRunning, true, 1
	r.mu.Lock()
	r.timer = time.AfterFunc(r.partsEnd, r.expire)
	r.mu.Unlock()

	if text := o.mistake(); text != "" {
		r.refuse(usage(r.name, "", text))
	} else if left <= 0 {
		r.refuse(&Error{Run: r.name, Kind: TimedOut, Err: fmt.Errorf("too late to begin: %w", context.DeadlineExceeded)})
	} else if ctx.Err() != nil {
		r.refuse(r.cancelled())
	}
	return s
}

// fnContext is the context of the run's function. It ends soon after those of the parts and seldom by time, so it has no
// timer of its own until then; context.WithDeadline would set one for each run.
type fnContext struct {
	context.Context
	run *run
}

// Deadline is the end of the run.
func (c *fnContext) Deadline() (time.Time, bool) { return c.run.start.Add(c.run.end), true }

// Err tells the end by time from the others.
func (c *fnContext) Err() error {
	err := c.Context.Err()
	if errors.Is(err, context.Canceled) && context.Cause(c.Context) == c.run.limit { //nolint:errorlint // identity: this run's
		return context.DeadlineExceeded
	}
	return err
}

// refuse fails the run from outside of it.
func (r *run) refuse(e *Error) {
	var fx effects
	r.mu.Lock()
	r.fail(nil, e, &fx)
	r.unlock(&fx)
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// mistake fails the run because it is written wrongly.
func (r *run) mistake(part, text string) *Error {
	e := usage(r.name, part, text)
	r.refuse(e)
	return e
}

// ident tells equal parts from different ones.
type ident struct {
	name string
	key  any
}

// scanned is how many parts are searched one by one; beyond that there is a map.
const scanned = 16

// find returns the part with this name and key; with key nil the first of that name.
func (r *run) find(id ident) *part {
	if r.names != nil {
		return r.names[id]
	}
	for _, p := range r.all {
		if p.name == id.name && p.named() && (id.key == nil || p.key() == id.key) {
			return p
		}
	}
	return nil
}

// add makes p one of the run's parts.
func (r *run) add(p *part, fx *effects) {
	p.declared = fx.at(r)
	r.all = append(r.all, p)
	switch {
	case r.names != nil:
		r.index(p)
	case len(r.all) > scanned:
		r.names = make(map[ident]*part, 2*scanned)
		for _, p := range r.all {
			r.index(p)
		}
	}
}

func (r *run) index(p *part) {
	if !p.named() {
		return
	}
	if _, ok := r.names[ident{p.name, nil}]; !ok {
		r.names[ident{p.name, nil}] = p
	}
	if key := p.key(); key != nil {
		r.names[ident{p.name, key}] = p
	}
}

// declare makes p, and the elements of its group, parts of the run. It returns the equal part that is there already, if
// there is, or why p was refused. After a failure p is listed in the report, as skipped.
func (r *run) declare(p *part, elements []*part) (twin *part, refused *Error) {
	var fx effects
	r.mu.Lock()
	defer r.unlock(&fx)
	if r.closing {
		return nil, r.over()
	}
	if r.failure == nil {
		twin, refused = r.admit(p, len(elements))
		if refused != nil {
			r.fail(nil, refused, &fx)
		}
		if twin != nil || refused != nil {
			return twin, refused
		}
	} else if len(r.all)+1+len(elements) > maxParts {
		return nil, r.failure
	}
	r.add(p, &fx)
	if p.kind == kindGroup { // has no function, and goes by its elements
		p.phase, p.started = phaseReturned, p.declared
		p.own().sum = &tally{elements: len(elements), left: len(elements)}
	}
	for _, e := range elements {
		r.add(e, &fx)
		r.begin(e, &fx)
	}
	if p.kind != kindGroup || len(elements) == 0 {
		r.begin(p, &fx)
	}
	return nil, nil
}

// begin starts a part that was just declared, or settles it if there is nothing to start.
func (r *run) begin(p *part, fx *effects) {
	switch {
	case r.failure != nil:
		r.settleLost(p, fx)
	case p.kind == kindGroup:
		p.body.gather()
		r.settle(p, StateOK, nil, fx)
	default:
		r.enqueue(p)
	}
}

// admit looks for an equal part and for reasons to refuse p.
func (r *run) admit(p *part, elements int) (twin *part, refused *Error) {
	if namesake := r.find(ident{p.name, nil}); namesake != nil {
		if namesake.key() == nil || p.key() == nil {
			return nil, usage(r.name, p.name, "the name is used twice, without a Key")
		}
		if twin := r.find(ident{p.name, p.key()}); twin != nil {
			return twin, nil
		}
		s := namesake.tell()
		s.namesakes++
		p.own().ordinal = s.namesakes + 1
	}
	if len(r.all)+1+elements > maxParts {
		return nil, usage(r.name, p.name, tooMany)
	}
	return nil, nil
}

// over is the outcome of parts for which the run had no use.
func (r *run) over() *Error {
	if r.failure != nil {
		return r.failure
	}
	return &Error{Run: r.name, Kind: Cancelled, Err: errUnused}
}
