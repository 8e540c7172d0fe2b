package facade

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

const (
	defaultTimeout = 30 * time.Second
	defaultPermits = 16

	// maxParts bounds a run's memory: a loop that declares parts without end is a mistake to be told.
	maxParts = 10_000
	tooMany  = "more than 10000 parts"
)

// Options are the settings of one run. The zero value is usable; a run without a name is hard to recognise in reports.
type Options struct {
	// Name stands in errors and reports. It should come from a small set: "page", not "page of user 7".
	Name string

	// Timeout is the time the caller gives the run. Zero means until the caller's deadline, or 30 s where it has none;
	// the earlier of the two counts.
	Timeout time.Duration

	// Reserve is how long before the deadline Do returns, so that the caller can still make use of the answer. Zero means
	// 5 % of the time left, but at least 5 ms and at most 250 ms; negative means none. It is never more than half of the
	// time left.
	Reserve time.Duration

	// Grace is how long before that the contexts of the parts end, so that fallbacks can step in and functions return.
	// Zero means half of the reserve, at most 10 ms; negative means none. Do also waits no longer than this for functions
	// that it cancelled.
	Grace time.Duration

	// Permits is how many parts run at once. Zero means 16, negative no limit. A part that is waiting in Get counts as
	// not running. Parts beyond that are queued in the order of their declaration.
	Permits int

	// OnPart, if set, is called once for each part when its outcome is known: on the part's own goroutine, or, for a part
	// that never ran or was given up, on the one that ended it. It is called under no lock and may use the run. Do waits
	// for it as it does for parts, and a panic in it fails the run.
	OnPart func(PartReport)

	// Metrics, if set, records each run under Name, and its parts under theirs: an Each counts as one part.
	Metrics *metrics.Metrics

	// OnRun, if set, is called with the report just before Do returns, on the caller's goroutine. It is also called when
	// the function of the run panicked: the report's error then has the value and the stack.
	OnRun func(*Report)
}

// span returns how long after its start a run's parts end, and the run itself, when its deadline is left away.
func (o *Options) span(left time.Duration) (parts, end time.Duration) {
	left = max(left, 0)
	share := min(max(left/20, 5*time.Millisecond), 250*time.Millisecond)
	reserve := o.Reserve
	switch {
	case reserve == 0:
		reserve = share
	case reserve > 0:
		share = reserve
	}
	reserve = min(max(reserve, 0), left/2)
	end = left - reserve

	// Without a reserve functions still need a moment to return: the grace is then that of the usual reserve.
	grace := o.Grace
	if grace == 0 {
		grace = min(min(share, left/2)/2, 10*time.Millisecond)
	}
	return end - min(max(grace, 0), end/2), end
}

func (o *Options) mistake() string {
	if o.Timeout < 0 {
		return fmt.Sprintf("Options.Timeout is negative: %v", o.Timeout)
	}
	return ""
}

func (o *Options) permits() int {
	switch {
	case o.Permits == 0:
		return defaultPermits
	case o.Permits < 0:
		return math.MaxInt
	}
	return o.Permits
}

// Scope is a run in progress, the place where [Go] and [Each] start parts. It is safe for concurrent use; parts may start
// parts. When its run has ended it starts nothing any more. The zero Scope does neither.
type Scope struct{ run }

// Do runs fn in a new scope, on the caller's goroutine, and returns its value with a report on the parts.
//
// The context given to fn ends at the run's end, those of the parts a little before (see [Options]). When a required part
// fails the run fails at once: the others are cancelled, every Get returns that failure, and so does Do when fn has
// returned. When fn returns a value, what still runs is cancelled as unused: to wait for a part, Get it.
//
// Do then waits for the parts' functions to return, for at most Options.Grace. A panic in fn goes up the caller's stack
// once the parts have ended. The report is never nil. The error, if not nil, is an [*Error], and the value is then zero.
func Do[T any](ctx context.Context, o Options, fn func(context.Context, *Scope) (T, error)) (T, *Report, error) {
	s := begin(ctx, &o)
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		s.finish(panicked("", v))
		if v != nil {
			panic(v)
		}
	}()
	var v T
	var err error
	if fn == nil {
		s.refuse(usage(o.Name, "", "the function of the run is nil"))
	} else if s.failure == nil { // no lock: without parts, nobody else can fail the run
		v, err = fn(&s.root, s)
	}
	returned = true
	rep := s.finish(err)
	if rep.Err != nil {
		var zero T
		return zero, rep, rep.Err
	}
	return v, rep, nil
}
