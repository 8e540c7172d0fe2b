package facade

import (
	"context"
	"iter"
	"runtime"
	"sync"
)

// Done is an item of [Stream]: a part with its value, or the end.
type Done struct {
	PartReport
	Value any // what Get would return

	// Report is set in the last item, and only there; it has no part and no value.
	Report *Report
}

// Stream runs fn in a new scope and yields the parts that have a value, in the order in which they get it: those that are
// ok, fell back or were skipped by When. It goes on until all parts have an outcome, unlike [Do], also those that nobody
// gets. The last item has the report and, for a run that failed, the error.
//
//	for d, err := range facade.Stream(ctx, o, declareParts) {
//		switch {
//		case err != nil:
//			return err
//		case d.Report == nil:
//			send(d.Name, d.Value)
//		}
//	}
//
// A reader that breaks out cancels the parts; one that is slow keeps none of them waiting. fn runs on a goroutine of its
// own, which has ended when the loop has; a panic in it goes up the stack of the reader. Each range over the result is a
// new run.
func Stream(ctx context.Context, o Options, fn func(context.Context, *Scope) error) iter.Seq2[Done, error] {
	return func(yield func(Done, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		st := &stream{ready: make(chan struct{}, 1), end: make(chan struct{})}
		go st.run(ctx, o, fn)
		defer func() {
			cancel(errStopped)
			<-st.end
			st.rethrow()
		}()
		for ended := false; ; {
			for _, d := range st.take() {
				if !yield(d, nil) {
					return
				}
			}
			if ended {
				if st.report != nil {
					yield(Done{Report: st.report}, st.report.Err)
				}
				return
			}
			select {
			case <-st.ready:
			case <-st.end:
				ended = true // what came last is still to be taken
			}
		}
	}
}

// stream carries parts from the run to the reader. What it holds is bounded by the number of parts.
type stream struct {
	mu    sync.Mutex
	items []Done
	ready chan struct{} // one signal: there may be items

	end      chan struct{} // closed when the run's goroutine ends; the rest is written before
	report   *Report
	returned bool
	panicked any
}

func (st *stream) run(ctx context.Context, o Options, fn func(context.Context, *Scope) error) {
	defer close(st.end)
	defer func() {
		if !st.returned {
			st.panicked = recover()
		}
	}()
	var whole func(context.Context, *Scope) (struct{}, error)
	if fn != nil {
		whole = func(ctx context.Context, s *Scope) (struct{}, error) {
			s.stream = st
			if err := fn(ctx, s); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, s.waitAll(ctx)
		}
	}
	_, rep, _ := Do(ctx, o, whole)
	st.report = rep
	st.returned = true
}

// rethrow does on the reader's goroutine what fn did to its own.
func (st *stream) rethrow() {
	switch {
	case st.returned:
	case st.panicked != nil:
		panic(st.panicked)
	default:
		runtime.Goexit()
	}
}

func (st *stream) push(d Done) {
	st.mu.Lock()
	st.items = append(st.items, d)
	st.mu.Unlock()
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

func (st *stream) take() []Done {
	st.mu.Lock()
	defer st.mu.Unlock()
	items := st.items
	st.items = nil
	return items
}

// waitAll waits for all parts, also those that other parts declare meanwhile.
func (r *run) waitAll(ctx context.Context) error {
	for i := 0; ; i++ {
		p := r.nth(i)
		switch {
		case p == nil:
			return nil
		case p.kind == kindLoad: // those who asked wait for it
			continue
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
		if p.outcome != nil {
			return p.outcome
		}
	}
}

func (r *run) nth(i int) *part {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i >= len(r.all) {
		return nil
	}
	return r.all[i]
}
