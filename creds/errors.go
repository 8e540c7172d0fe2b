package creds

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is the cause of reads that find nothing to give after Close.
var ErrClosed = errors.New("creds: closed")

// ErrStuck is the cause of a fetch whose source ignored its deadline and was left behind. It is not asked again for 60 s.
var ErrStuck = errors.New("creds: the source ignores its deadline")

// ErrGoexit is the cause of a fetch whose source ended its goroutine with [runtime.Goexit], as a test's FailNow does.
var ErrGoexit = errors.New("creds: the source called runtime.Goexit")

// FetchError says that a source brought no usable answer. Every reader who was waiting, and every one who comes before
// the next try, gets the same value. A fatal error, one that the next try will not cure, is returned as it is instead.
type FetchError struct {
	Source   string    // Config.Name
	Failures int       // in a row, this one included
	RetryAt  time.Time // no try before
	Err      error     // the source's error, *[AnswerError], *[PanicError], [ErrStuck] or [ErrGoexit]
}

// Error names the source and the cause.
func (e *FetchError) Error() string {
	return fmt.Sprintf("creds: %s: fetch failed (%d in a row): %v", e.Source, e.Failures, e.Err)
}

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// ExpiredError says that the value in hand has expired, and that no other could be had.
type ExpiredError struct {
	Source  string    // Config.Name
	Since   time.Time // the expiry, as the source stated it
	LastErr error     // why there is no newer value: usually *[FetchError], or [ErrClosed]; nil if the source keeps bringing the same
}

// Error names the source, the expiry and the last error.
func (e *ExpiredError) Error() string {
	text := fmt.Sprintf("creds: %s: expired at %s", e.Source, e.Since.UTC().Format(time.RFC3339))
	if e.LastErr != nil {
		text += ": " + e.LastErr.Error()
	}
	return text
}

// Unwrap returns the last error.
func (e *ExpiredError) Unwrap() error { return e.LastErr }

// ThresholdError says that the life which a source hands out is too short for Config.Soft. It is returned under
// Config.Strict, before a first value has been accepted; otherwise the window is clamped, with one warning.
type ThresholdError struct {
	Source   string
	Asked    time.Duration // Config.Soft
	Used     time.Duration // what it would be clamped to
	Lifetime time.Duration // of the answer, at receipt
}

// Error names both durations.
func (e *ThresholdError) Error() string {
	return fmt.Sprintf("creds: %s: Soft is %v, and the source hands out %v, which allows %v at most",
		e.Source, e.Asked, e.Lifetime.Round(time.Second), e.Used.Round(time.Second))
}

// AnswerError says that a source answered without error, but with something that cannot be used.
type AnswerError struct {
	Problem string // such as "no access key"; never a secret
}

// Error names the problem.
func (e *AnswerError) Error() string { return "unusable answer: " + e.Problem }

// PanicError says that a source panicked.
type PanicError struct {
	Value any    `json:"-"` // what was passed to panic; it may hold a secret
	Stack []byte // of the goroutine that panicked
}

// Error names the type of what was passed to panic.
func (e *PanicError) Error() string { return fmt.Sprintf("the source panicked with a %T", e.Value) }

// Unwrap returns the value passed to panic, if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
