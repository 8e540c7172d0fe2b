package facade

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// ErrNoResult is what those who asked for a key get when Batch.Load answered without it.
var ErrNoResult = errors.New("no result for this key")

var (
	errUnused  = errors.New("the run ended without this part")
	errStopped = errors.New("the reader of the stream stopped")
)

// Kind says in one word why a run or a part failed. There is no kind zero.
type Kind uint8

// The kinds.
const (
	Failed    Kind = iota + 1 // a function returned an error
	TimedOut                  // a limit in time was over: the run's, the part's, or one further down
	Cancelled                 // the caller went away
	Panicked                  // a function panicked, or called runtime.Goexit
	Cycle                     // parts wait for each other
	Usage                     // the run is written wrongly
)

var kindNames = [...]string{
	Failed: "failed", TimedOut: "timeout", Cancelled: "cancelled", Panicked: "panic", Cycle: "cycle", Usage: "usage",
}

// String returns the kind's name as it stands in reports: failed, timeout, cancelled, panic, cycle or usage.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return "kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}

// Error says which part ended a run, and why. [Do] returns no other type of error, and the errors of a [Report] have it:
//
//	if fe, ok := errors.AsType[*facade.Error](err); ok {
//		switch fe.Kind {
//		case facade.Cancelled: // nobody waits for the answer
//		case facade.TimedOut:  // fe.Part, and fe.Also, were late
//		default:               // fe.Part failed; errors.As reaches what its function returned
//		}
//	}
//
// An Error is not changed after it was returned.
type Error struct {
	Run  string   // Options.Name
	Part string   // the part that failed; empty where the function of the run did, or its caller went away
	Also []string // other parts in the same state: late ones, or the rest of the circle, in its order
	Kind Kind
	Err  error // what the part's function returned, where it did
}

// usage is the error of a run that is written wrongly.
func usage(run, part, text string) *Error {
	return &Error{Run: run, Part: part, Kind: Usage, Err: errors.New(text)}
}

// Error names the run, the parts and the reason, and for a timeout the limit.
func (e *Error) Error() string {
	run := "facade: "
	if e.Run != "" {
		run += e.Run + ": "
	}
	return run + e.text()
}

func (e *Error) text() string {
	switch {
	case e.Kind == Cycle:
		return "parts wait for each other: " + strings.Join(e.Path(), " -> ")
	case len(e.Also) > 0:
		return "parts " + e.names() + ": " + e.reason()
	case e.Part != "":
		return "part " + strconv.Quote(e.Part) + ": " + e.reason()
	}
	return e.reason()
}

// reason leaves out the name of the run where an inner Error would repeat it.
func (e *Error) reason() string {
	inner, ok := e.Err.(*Error) //nolint:errorlint // not one inside another text
	switch {
	case e.Err == nil:
		return e.Kind.String()
	case ok && inner.Run == e.Run:
		return inner.text()
	}
	return e.Err.Error()
}

// namesShown is how many parts an error's text names; the fields have them all.
const namesShown = 8

func (e *Error) names() string {
	names := append([]string{e.Part}, e.Also...)
	more := ""
	if n := len(names) - namesShown; n > 0 {
		names, more = names[:namesShown], fmt.Sprintf(" and %d more", n)
	}
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	return strings.Join(names, ", ") + more
}

// Path returns the circle of a [Cycle], such as a, b, a: each part waits for the next one. It is nil for other kinds.
func (e *Error) Path() []string {
	if e.Kind != Cycle {
		return nil
	}
	return append(append([]string{e.Part}, e.Also...), e.Part)
}

// Unwrap returns Err, so that errors.Is and errors.As reach what the part's function returned.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the failure was one of time, here or further down.
func (e *Error) Timeout() bool { return e.Kind == TimedOut }

// Is makes a timeout equal to context.DeadlineExceeded, and a cancellation to context.Canceled, whatever cause was given.
func (e *Error) Is(target error) bool {
	return e.Kind == TimedOut && target == context.DeadlineExceeded ||
		e.Kind == Cancelled && target == context.Canceled
}

// PanicError is the failure of a function that panicked, or that left by runtime.Goexit, as testing's FailNow does.
type PanicError struct {
	Part  string // the part, batch or callback; empty for the function of the run
	Value any    // the argument of panic; nil for Goexit
	Stack []byte // of the goroutine, taken where it was recovered
}

// Error returns the value in a line; the stack is not part of it.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "runtime.Goexit was called"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns Value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// panicked is called by a deferred function with what recover returned, when the function in question did not return.
func panicked(part string, value any) error {
	return &PanicError{Part: part, Value: value, Stack: debug.Stack()}
}

// limitError names the limit that was over.
type limitError struct {
	whose string
	limit time.Duration
	err   error // what the function made of it, if it said more than "deadline exceeded"
}

func (e *limitError) Error() string {
	text := fmt.Sprintf("not done within the %s limit of %v", e.whose, e.limit)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *limitError) Unwrap() error        { return e.err }
func (e *limitError) Timeout() bool        { return true }
func (e *limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// overLimit wraps what a function returned after its limit, if that adds to "deadline exceeded".
func overLimit(whose string, limit time.Duration, err error) error {
	if _, ok := err.(*limitError); ok || err == context.DeadlineExceeded || err == context.Canceled { //nolint:errorlint // identity: one inside another says more
		err = nil
	}
	return &limitError{whose: whose, limit: limit, err: err}
}

// kindOf classifies what a function returned while its run was alive.
func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind != Cancelled { // an inner run's caller is not this run's
		return e.Kind
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return Panicked
	}
	if isTimeout(err) {
		return TimedOut
	}
	return Failed
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// causeOf is context.Cause for callers: it stays equal to ctx.Err() when the cause is of another kind.
func causeOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
