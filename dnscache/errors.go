package dnscache

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrClosed is the cause of errors after [Resolver.Close].
var ErrClosed = errors.New("dnscache: resolver is closed")

// The causes inside findings, which end up as text in a *net.DNSError.
var (
	errNoSuchHost = errors.New("no such host")
	errNoAddress  = errors.New("no address")
	errTimeout    = errors.New("no answer in time")
	errNoAnswer   = errors.New("no answer")
	errFull       = errors.New("every name that is kept is pinned")
	errBusy       = errors.New("no answer in time: too many lookups were waiting")
	errNoPacket   = errors.New("only the hosts file was to be asked")
)

// Kind says why a lookup brought no address.
type Kind uint8

// The kinds. There is no zero Kind.
const (
	NotFound Kind = iota + 1 // the name has no address, or can be no host name
	Failure                  // the resolver answered without use, or could not be reached
	Timeout                  // the resolver did not answer in time
	Local                    // no file, memory, port or permission for the question; never cached
	Closed                   // the Resolver is closed, or invalid
)

// String returns the kind as it stands in statistics, such as "not_found".
func (k Kind) String() string {
	switch k {
	case NotFound:
		return "not_found"
	case Failure:
		return "failure"
	case Timeout:
		return "timeout"
	case Local:
		return "local"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error is the error of a lookup. Callers who must tell cases apart ask for its Kind:
//
//	if e, ok := errors.AsType[*dnscache.Error](err); ok {
//		switch e.Kind {
//		case dnscache.NotFound: // the name is wrong, or its service not there yet
//		case dnscache.Local:    // this machine is out of something
//		default:                // DNS is in trouble; e.RetryAt says when it is asked again
//		}
//	}
//
// It unwraps to a *net.DNSError, for code written against package net: IsNotFound is true for NotFound alone, IsTimeout
// for Timeout. An error may be handed to several callers and must not be changed.
type Error struct {
	Name    string // as the caller wrote it, in lower case
	Kind    Kind
	RetryAt time.Time // DNS is not asked before; zero if the next lookup asks
	Err     error     // a *net.DNSError
}

// Error is the text of the *net.DNSError, which names the server where there is one.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the *net.DNSError.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the resolver did not answer in time, as net.Error wants it.
func (e *Error) Timeout() bool { return e.Kind == Timeout }

// Temporary reports whether another try may help, as net.Error wants it.
func (e *Error) Temporary() bool { return e.Kind == Failure || e.Kind == Timeout || e.Kind == Local }

func newError(name string, k Kind, server string, cause error, retry time.Time) *Error {
	return &Error{Name: name, Kind: k, RetryAt: retry, Err: &net.DNSError{
		Err: cause.Error(), UnwrapErr: cause, Name: name, Server: server,
		IsNotFound: k == NotFound, IsTimeout: k == Timeout, IsTemporary: k == Failure || k == Timeout || k == Local,
	}}
}

// findingError carries a failed finding through internal/fresh.
type findingError struct {
	finding
	held  bool          // DNS denies what is held
	delay time.Duration // before the next try
}

// asFinding returns the finding in an error of a record's flight, nil if the error is none of DNS.
func asFinding(err error) *findingError {
	e, _ := errors.AsType[*findingError](err)
	return e
}

func (e *findingError) Error() string { return e.err.Error() }
func (e *findingError) Unwrap() error { return e.err }

// kindOf returns the public kind of a finding without addresses.
func kindOf(k kind) Kind {
	switch k {
	case hasNone, noName:
		return NotFound
	case silent:
		return Timeout
	case localFailed:
		return Local
	}
	return Failure
}
