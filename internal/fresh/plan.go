package fresh

import (
	"errors"
	"fmt"
	"time"
)

// State says what a value is worth at an instant. The zero State is [Cold].
type State uint8

// The states, in the order in which a value passes through them.
const (
	Cold    State = iota // there is no value
	Valid                // good, nothing to do
	Soft                 // good, and a refresh is due
	Hard                 // good for the moment: a reader waits a little for the refresh
	Expired              // no longer given out
)

// String returns the state's name in lower case, such as "soft".
func (s State) String() string {
	switch s {
	case Cold:
		return "cold"
	case Valid:
		return "valid"
	case Soft:
		return "soft"
	case Hard:
		return "hard"
	case Expired:
		return "expired"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Plan holds the instants of one value's life. The owner draws it up once, when the value arrives, and may change it
// later through [Value.Adjust]. A zero instant never comes: the zero Plan is a value that stays valid for ever.
type Plan struct {
	// Soft is when a refresh is due. It may lie behind End: then an eager owner's timer starts at Soft, while a reader
	// who comes after End starts at once.
	Soft time.Time

	// Aged changes nothing here: it is an instant that the owner wants to hear of. When it has passed, Snapshot.Aged is
	// set and Changed is called.
	Aged time.Time

	Hard time.Time // from here on a reader waits, at most Options.HardWait, for the refresh
	End  time.Time // from here on the value is no longer given out

	// Last extends the value's life beyond End for one case: a try has brought no other. Readers wait for the first
	// flight that begins after End; if that fails they get the old value, from then on at once. Zero: never.
	Last time.Time
}

// state returns the state of a value with plan p at now.
func (p *Plan) state(now time.Time) State {
	switch {
	case p == nil:
		return Cold
	case passed(p.End, now):
		return Expired
	case passed(p.Hard, now):
		return Hard
	case passed(p.Soft, now):
		return Soft
	}
	return Valid
}

// passed reports whether the instant t, which may be zero for "never", lies at or before now.
func passed(t, now time.Time) bool {
	return !t.IsZero() && !now.Before(t)
}

// earliest returns the earlier of a and b that is after now; zero counts as never.
func earliest(a, b, now time.Time) time.Time {
	if b.IsZero() || !b.After(now) || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// Verdict is what is to happen to the held value. The zero Verdict is [Keep].
type Verdict uint8

// The verdicts.
const (
	Keep    Verdict = iota // the held value stays; with an error it was a failure, without one there was no progress
	Replace                // the new value takes its place
	Drop                   // the held value goes; readers get the error
)

// Outcome is the result of one question to the source.
type Outcome[T any] struct {
	Value   T // used with Replace
	Verdict Verdict
	Err     error // why it was kept or dropped; nil with Replace

	// Transient marks a failure that says nothing about the source: readers who waited get it, the next one asks again
	// at once. The delay then holds back the eager timer only.
	Transient bool
}

// Try describes the try that has just ended without a new value, for the owner to choose the delay before the next.
type Try struct {
	Failures int           // failures in a row, this one included; 0 if there was no error
	Ended    int           // how many of them ended when there was no value, or its End had passed
	Err      error         // the try's error, nil if the source answered without progress
	State    State         // of the held value, now
	Left     time.Duration // time to its End, negative when that has passed; 0 with no End or no value
}

// Snapshot is the state of a Value at one moment. It is immutable and may be kept.
type Snapshot[T any] struct {
	Value T     // the newest value, also when expired; the zero T if there is none
	State State // as moved by timers
	Aged  bool  // Plan.Aged has passed
	Due   bool  // a reader who asks now starts a flight

	Plan *Plan  // of the value; nil without one. Not to be changed
	Gen  uint64 // generation of the value: the number of the flight that brought it

	Err      error     // why the newest try brought nothing; nil after a success
	Failures int       // in a row
	Next     time.Time // no try before; zero if none is held back
	Since    time.Time // start of the flight in progress; zero if there is none
	Tries    uint64    // flights that have ended, those left behind included
	Stuck    int       // sources left behind that have not returned yet

	frozen bool // no timer moves it any more

	// tried is the start of the newest try if that brought nothing.
	tried time.Time
}

// extended reports whether an expired value may be given out at now without another wait.
func (s *Snapshot[T]) extended(now time.Time) bool {
	return passed(s.Plan.End, s.tried) && now.Before(s.Plan.Last)
}

// usable reports whether the value may be given out at now, in state st, to a reader who has nothing to wait for.
func (s *Snapshot[T]) usable(st State, now time.Time) bool {
	switch st {
	case Valid, Soft, Hard:
		return true
	case Expired:
		return !s.tried.IsZero() && now.Before(s.Plan.Last)
	}
	return false
}

// at returns s with the state st, which is s itself in all but the rare case that a reader knows a later time than the
// timers do.
func (s *Snapshot[T]) at(st State) *Snapshot[T] {
	if s.State == st {
		return s
	}
	c := *s
	c.State = st
	return &c
}

// ErrClosed is the error of a read that finds nothing to give after [Value.Close].
var ErrClosed = errors.New("fresh: closed")

// ErrNoValue is the error of a read whose flight brought neither a value nor an error.
var ErrNoValue = errors.New("fresh: no value")

// ErrStuck is the error of a flight whose source ignored its deadline and was left behind.
var ErrStuck = errors.New("fresh: the source ignores its deadline")

// ErrGoexit is the error of a flight whose Fetch ended its goroutine with runtime.Goexit.
var ErrGoexit = errors.New("fresh: Fetch called runtime.Goexit")

// PanicError is the error of a flight whose Fetch panicked.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked
}

// Error names the value passed to panic; the stack is left to those who ask for it.
func (e *PanicError) Error() string { return fmt.Sprintf("fresh: panic in Fetch: %v", e.Value) }

// Unwrap returns the value passed to panic if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
