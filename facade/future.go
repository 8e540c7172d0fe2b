package facade

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Future is the value that a part will have. It comes from [Go] or [Each] and is safe for concurrent use.
type Future[T any] struct {
	part  part
	fn    func(context.Context) (T, error) // of an Each: gathers the elements' values
	opt   *Part[T]
	value T
}

// Go declares a part of the run and starts it, or queues it if no permit is free. Its context carries the values of the
// caller's context, and ends when the part's time is over or the run has no more use for it.
//
// Mistakes fail the run and name the part: no name, a name used twice without Key, a nil function, more than one opt, and
// options that cannot be meant. After the run has failed or ended Go starts nothing; the future then has that error.
func Go[T any](s *Scope, name string, fn func(context.Context) (T, error), opt ...Part[T]) *Future[T] {
	f := &Future[T]{fn: fn}
	text := f.configure(name, opt)
	if text == "" && fn == nil {
		text = "the function is nil"
	}
	return enter(s, f, nil, text)
}

// configure takes the options over and returns what is wrong with them.
func (f *Future[T]) configure(name string, opt []Part[T]) string {
	p := &f.part
	p.name, p.body = name, f
	if len(opt) > 0 {
		o := opt[0]
		f.opt = &o
		p.optional = o.Optional
		if o.Timeout != 0 || o.Key != nil || o.Limit != nil {
			p.terms = &terms{key: o.Key, timeout: o.Timeout, limit: o.Limit}
		}
	}
	switch {
	case name == "":
		return "a part has no name"
	case len(opt) > 1:
		return "more than one Part value"
	case f.opt != nil:
		return f.opt.mistake()
	}
	return ""
}

// enter declares a configured part, or fails the run. The future it returns is the twin's if the part has one.
func enter[T any](s *Scope, f *Future[T], elements []*part, text string) *Future[T] {
	p := &f.part
	if s == nil || s.work == nil {
		p.refuse(usage("", p.name, "the scope is not one of a run"))
		return f
	}
	p.run = &s.run
	for _, e := range elements {
		e.run = p.run
	}
	if text != "" {
		p.refuse(s.mistake(p.name, text))
		return f
	}
	twin, err := s.declare(p, elements)
	if err != nil {
		p.refuse(err)
		return f
	}
	if twin == nil {
		return f
	}
	if same, ok := twin.body.(*Future[T]); ok {
		return same
	}
	p.refuse(s.mistake(p.name, "two parts with an equal Key have values of different types"))
	return f
}

// refuse settles a part that is not part of any run, before anybody else knows it.
func (p *part) refuse(err *Error) {
	p.state, p.err, p.outcome = StateSkipped, err, err
	p.settled.Store(true)
}

// Get waits for the part and returns its value. ctx should be the one given to the calling part's function, or to the
// function of the run: it tells who waits for whom, and frees the caller's permit meanwhile.
//
// The error is nil for a part that is ok, fell back or was skipped by When. It is the failure of the run if that has
// failed, this part's own failure included; a [Cycle] if the part waits, over others, for the caller; or ctx's, with its
// cause, if that ended first.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	if !f.part.settled.Load() {
		if err := f.part.wait(ctx); err != nil {
			var zero T
			return zero, err
		}
	}
	if err := f.part.outcome; err != nil {
		return f.value, err
	}
	return f.value, nil
}

// State tells how the part ended, without waiting: [StatePending] if it has not.
func (f *Future[T]) State() State {
	if !f.part.settled.Load() {
		return StatePending
	}
	return f.part.state
}

func (f *Future[T]) exec() {
	var v T
	var err error
	returned := false
	f.part.arm()
	defer func() {
		if !returned {
			err = panicked(f.part.label(), recover())
		}
		f.complete(v, err)
	}()
	v, err = f.invoke()
	returned = true
}

// errSkip is how invoke says that When said no.
var errSkip = errors.New("skipped")

func (f *Future[T]) invoke() (v T, err error) {
	p := &f.part
	if f.opt == nil {
		return f.fn(p)
	}
	if f.opt.When != nil {
		ok, err := f.opt.When(p)
		if err != nil {
			return v, err
		}
		if !ok {
			return v, errSkip
		}
	}
	if f.opt.Share != nil {
		return f.opt.Share.join(p, f.fn)
	}
	return f.fn(p)
}

// complete settles the part by what its function returned, unless somebody was faster.
func (f *Future[T]) complete(v T, err error) {
	p, r := &f.part, f.part.run
	var failure *Error
	if err != nil && !errors.Is(err, errSkip) {
		failure = p.failure(err)
	}
	p.disarm(err)
	fx := effects{leaving: true}
	r.mu.Lock()
	r.returned(p, &fx)
	if failure != nil && !p.settled.Load() && !p.fallingBack {
		p.err = failure
		r.notice(&fx) // if the run is over, that is why
	}
	switch {
	case p.settled.Load() || p.fallingBack:
	case err == nil:
		f.value = v
		r.settle(p, StateOK, nil, &fx)
	case errors.Is(err, errSkip):
		f.useFallback()
		r.settle(p, StateSkipped, nil, &fx)
	default:
		r.lapse(p, failure, &fx)
	}
	r.unlock(&fx)
}

func (f *Future[T]) rescuable() bool { return f.opt != nil && f.opt.FallbackFunc != nil }

func (f *Future[T]) useFallback() {
	if f.opt != nil {
		f.value = f.opt.Fallback
	}
}

func (f *Future[T]) gather() {
	if f.fn != nil {
		f.value, _ = f.fn(&f.part)
	}
}

func (f *Future[T]) boxed() any { return f.value }

// fallbackTime bounds a FallbackFunc.
const fallbackTime = 50 * time.Millisecond

func (f *Future[T]) rescue(why error) {
	p, r := &f.part, f.part.run
	ctx, cancel := context.WithTimeout(&r.hard, fallbackTime)
	defer cancel()
	// A function that does not heed its context is left behind, as those of parts are.
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		fx := r.join()
		f.rescued(nil, context.DeadlineExceeded, &fx)
		r.unlock(&fx)
	})
	var v T
	var err error
	returned := false
	defer func() {
		if !returned {
			err = panicked(p.label()+" (fallback)", recover())
		}
		stop()
		fx := effects{leaving: true}
		r.mu.Lock()
		p.rescuing = false
		f.rescued(&v, err, &fx)
		r.unlock(&fx)
	}()
	v, err = f.opt.FallbackFunc(node{ctx, p}, why)
	returned = true
}

// rescued takes the value of the FallbackFunc, or the plain one if it failed. Called under the run's lock.
func (f *Future[T]) rescued(v *T, err error, fx *effects) {
	p := &f.part
	if p.settled.Load() {
		return
	}
	if err == nil {
		f.value = *v
	} else {
		f.useFallback()
		both := *p.err
		both.Err = fmt.Errorf("%w (fallback: %w)", p.err.Err, err)
		p.err = &both
	}
	p.run.settle(p, StateFallback, p.err, fx)
}

// node is the context of a function that runs for a part, but not on its context.
type node struct {
	context.Context
	at any
}

func (n node) Value(key any) any {
	if key == (nodeKey{}) {
		return n.at
	}
	return n.Context.Value(key)
}
