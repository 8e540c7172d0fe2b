package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Sentinel causes, for [errors.Is]. Each stands for one [Reason]; [Error.Reason] has all of them.
var (
	ErrNoUpstream     = errors.New("no upstream lists this host, and Config.Strict refuses the others")
	ErrNoEndpoint     = errors.New("no endpoint left")
	ErrOverflow       = errors.New("limit and queue are full")
	ErrBreakerOpen    = errors.New("no endpoint's breaker admits the call")
	ErrPortBudget     = errors.New("no local port left")
	ErrDenied         = errors.New("address refused by the guard")
	ErrCredential     = errors.New("signer failed")
	ErrAttemptTimeout = error(timeoutCause("no response headers within the attempt's time"))
	ErrBodyDiscarded  = errors.New("the rest of this response was discarded before another attempt")
	ErrBodyStalled    = error(timeoutCause("reading the body made no progress"))
	ErrDraining       = errors.New("client is shutting down")
	ErrClosed         = errors.New("client is closed")
)

// errTotal is the cause when the total time is over. Callers see it as [context.DeadlineExceeded], which is what their
// own deadline would have given.
const errTotal = timeoutCause("the call's total time is over")

// errLost is the cause that ends the slower of two attempts. No caller sees it.
var errLost = errors.New("another attempt was faster")

// A timeoutCause is the cause of a time limit of ours.
type timeoutCause string

func (c timeoutCause) Error() string        { return string(c) }
func (c timeoutCause) Timeout() bool        { return true }
func (c timeoutCause) Temporary() bool      { return true }
func (c timeoutCause) Is(target error) bool { return target == context.DeadlineExceeded }

// Error is a call that failed: every error that [Client.RoundTrip], [Client.Do] and a response's body return, except for
// [io.EOF] and [http.ErrBodyReadAfterClose]. Its fields are facts; for the questions that callers usually have there are [NeverSent], [Refused],
// [IsTimeout] and [IsCanceled].
//
//	switch e, ok := errors.AsType[*client.Error](err); {
//	case err == nil:
//	case client.IsCanceled(err): // the caller left
//	case client.Refused(err):    // decided here: 503
//	case ok:
//		log.Print(e.Reason, e.Report.Account)
//	}
//
// [errors.Is] finds the reason's sentinel, [context.Canceled], [context.DeadlineExceeded] for every timeout, and whatever
// the cause wraps, such as [syscall.ECONNREFUSED].
type Error struct {
	Upstream   string // its name; "_unlisted" for hosts that no upstream lists
	Method     string
	Target     string // logical host and path, without query and user info
	Endpoint   string // base of the last attempt, scheme and host; "" if none was chosen
	Reason     Reason
	Stopped    Stopped // why it was not tried again
	Attempts   int
	Status     int           // of the response, where there was one
	Body       []byte        // the first 4 KiB of it, from GetJSON
	RetryAfter time.Duration // after which another call may be admitted; 0 if nobody knows
	Err        error         // the cause; nil if Status says it all
	Report     Report        // final, or so far if the error came from a body that may still be read
}

// Error returns one line, without query, user info or headers.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Method, e.Target)
	if e.Upstream != "" {
		fmt.Fprintf(&b, " (upstream %s)", e.Upstream)
	}
	fmt.Fprintf(&b, ": %s", e.Reason)
	if e.Status != 0 {
		fmt.Fprintf(&b, " %d", e.Status)
	}
	if e.Endpoint != "" {
		fmt.Fprintf(&b, " at %s", e.Endpoint)
	}
	if d := e.Report.Duration; d > 0 {
		fmt.Fprintf(&b, " after %v", roundForPeople(d))
	}
	if cause := e.Err; cause != nil {
		fmt.Fprintf(&b, ": %v", withoutURL(cause))
	} else if cause := e.sentinel(); cause != nil {
		fmt.Fprintf(&b, ": %v", cause)
	}
	return oneLine(b.String())
}

// withoutURL is an error whose text may show a URL, with query and password, without it.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// oneLine keeps a cause from breaking the line: logs are read by line.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// Unwrap returns the sentinel of the reason, if it has one, and the cause.
func (e *Error) Unwrap() []error {
	sentinel := e.sentinel()
	switch {
	case sentinel == nil && e.Err == nil:
		return nil
	case sentinel == nil:
		return []error{e.Err}
	case e.Err == nil:
		return []error{sentinel}
	}
	return []error{sentinel, e.Err}
}

func (e *Error) sentinel() error {
	switch e.Reason {
	case ReasonCanceled:
		return context.Canceled
	case ReasonAttemptTimeout:
		return ErrAttemptTimeout
	case ReasonBodyStalled:
		return ErrBodyStalled
	case ReasonNoUpstream:
		return ErrNoUpstream
	case ReasonNoEndpoint:
		return ErrNoEndpoint
	case ReasonOverflow:
		return ErrOverflow
	case ReasonBreakerOpen:
		return ErrBreakerOpen
	case ReasonPortBudget:
		return ErrPortBudget
	case ReasonDenied:
		return ErrDenied
	case ReasonDraining:
		if e.Err != ErrClosed {
			return ErrDraining
		}
	case ReasonCredential:
		return ErrCredential
	}
	return nil
}

// Is reports true for [context.DeadlineExceeded] when the error is a timeout of any kind.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Timeout()
}

// Timeout reports whether a time limit ended the call: ours, the caller's or the network's.
func (e *Error) Timeout() bool {
	switch e.Reason {
	case ReasonDeadline, ReasonAttemptTimeout, ReasonBodyStalled, ReasonConnectTimeout:
		return true
	case ReasonDNS, ReasonConnWait:
		t, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](e.Err)
		return ok && t.Timeout()
	}
	return false
}

// Temporary reports the same as Timeout, for code that still asks for [net.Error].
func (e *Error) Temporary() bool { return e.Timeout() }

// ReasonOf returns the reason of a failed call, also when err wraps the [*Error]. For nil it is [ReasonOK], for an error
// that is not from this package [ReasonOther].
func ReasonOf(err error) Reason {
	if err == nil {
		return ReasonOK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonOther
}

// NeverSent reports that the server certainly has not seen the request, so that even a POST may be made again.
func NeverSent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Report.neverSent
}

// Refused reports that the call was decided here, without asking the server: answer 503, not 502.
func Refused(err error) bool {
	switch ReasonOf(err) {
	case ReasonOverflow, ReasonBreakerOpen, ReasonPortBudget, ReasonDenied, ReasonNoUpstream, ReasonDraining:
		return NeverSent(err)
	}
	return false
}

// IsTimeout reports that a time limit ended the call; see [Error.Timeout].
func IsTimeout(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Timeout()
}

// IsCanceled reports that the caller's own cancellation ended the call.
func IsCanceled(err error) bool { return ReasonOf(err) == ReasonCanceled }

// mistakes collects what is wrong with a configuration, each with the path of its field.
type mistakes struct{ all []error }

func (m *mistakes) addf(path, format string, args ...any) {
	m.all = append(m.all, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
}

func (m *mistakes) add(path string, err error) {
	if err != nil {
		m.addf(path, "%w", err)
	}
}

// err joins the mistakes, one per line, or is nil if there are none.
func (m *mistakes) err() error { return errors.Join(m.all...) }
