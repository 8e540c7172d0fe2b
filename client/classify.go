package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"syscall"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/internal/ports"
)

// All judgements about errors are made in this file, on types and on the causes of contexts, never on texts.

// classify says why an attempt failed on the wire. Who ended its context comes first: a connection that is torn down for
// a time limit fails in many ways, all of them ours.
func (a *attempt) classify(err error) Reason {
	wire, _ := errors.AsType[*pool.Error](err)
	if cause := context.Cause(a.ctx); cause != nil {
		reason := a.call.contextReason(cause)
		if reason == ReasonAttemptTimeout && wire != nil && wire.Kind == pool.Wait {
			return waitReason(wire)
		}
		return reason
	}
	if err == errNoTime {
		return ReasonDeadline
	}
	if a.sent.failed() {
		return ReasonRequestBody
	}
	if wire != nil {
		if reason, ok := poolReason(wire); ok {
			return reason
		}
		if wire.Answered && errors.Is(err, net.ErrClosed) {
			return ReasonProtocol // net/http has closed the connection over what it read
		}
	}
	if reason, ok := networkReason(err); ok {
		return reason
	}
	if wire != nil && wire.Kind == pool.Dial {
		return dialReason(wire.Step)
	}
	if wire != nil && wire.Answered {
		return ReasonProtocol // net/http has no type for an answer that it cannot read
	}
	if a.neverSent() && invalidRequest(&a.request) {
		return ReasonInvalidRequest
	}
	return ReasonOther
}

// classifyBody says why reading the response's body failed.
func (a *attempt) classifyBody(err error) Reason {
	if err == ErrBodyDiscarded {
		return ReasonBodyBroken // its attempt has long been over
	}
	return a.reasonOr(ReasonBodyBroken)
}

// contextErrReason reads the error of the caller's context.
func contextErrReason(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// contextReason says who ended the context of an attempt or a wait: the caller, one of our limits, or the end of the client.
// The caller comes first: its context may be that of another call's attempt, whose limits are not ours.
func (c *call) contextReason(cause error) Reason {
	if err := c.context().Err(); err != nil {
		return contextErrReason(err)
	}
	switch cause {
	case errTotal:
		return ReasonDeadline
	case ErrAttemptTimeout:
		return ReasonAttemptTimeout
	case ErrBodyStalled:
		return ReasonBodyStalled
	case ErrDraining:
		return ReasonDraining
	case errLost:
		return ReasonLocalReset
	}
	return ReasonCanceled
}

// reasonOr is def, unless the attempt's context has ended: then that is the reason of whatever failed.
func (a *attempt) reasonOr(def Reason) Reason {
	if cause := context.Cause(a.ctx); cause != nil {
		return a.call.contextReason(cause)
	}
	return def
}

// waitReason says what an attempt waited for when its time ran out before it had a connection. Without a port for another one
// it is that; with connections open, all of them busy, it is the pool that is too small; with none, the endpoint does not answer
// dials.
func waitReason(e *pool.Error) Reason {
	if e.NoPort {
		return ReasonPortBudget
	}
	if e.Open == 0 && e.Dialing > 0 {
		return ReasonConnectTimeout
	}
	return ReasonConnWait
}

// poolReason reads what the pool knows for sure.
func poolReason(e *pool.Error) (Reason, bool) {
	switch e.Kind {
	case pool.Wait, pool.Full:
		return waitReason(e), true
	case pool.Closed:
		return ReasonDraining, true
	}
	if e.Refused {
		return ReasonStreamRefused, true
	}
	return 0, false
}

// networkReason reads the types of errors that net, crypto/tls, net/http and the kernel give.
func networkReason(err error) (Reason, bool) {
	if _, ok := errors.AsType[*guardError](err); ok {
		return ReasonDenied, true
	}
	if _, ok := errors.AsType[*ports.Error](err); ok {
		return ReasonPortBudget, true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return ReasonCertificate, true
	}
	if e, ok := errors.AsType[*dnscache.Error](err); ok && e.Kind == dnscache.Local {
		return ReasonLocalResource, true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return ReasonDNS, true
	}
	dialing := isDial(err)
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if reason, ok := errnoReason(errno, dialing); ok {
			return reason, true
		}
	}
	if dialing {
		if isTimeout(err) {
			return ReasonConnectTimeout, true
		}
		return 0, false
	}
	switch {
	case isTimeout(err):
		return ReasonAttemptTimeout, true // a limit of a foreign Transport's own
	case isTLS(err):
		return ReasonTLS, true
	case isStreamError(err):
		return ReasonRemoteReset, true
	case isProtocolError(err):
		return ReasonProtocol, true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return ReasonConnectionLost, true
	}
	return 0, false
}

// isDial reports that the error comes from making a connection.
func isDial(err error) bool {
	if e, ok := errors.AsType[*pool.Error](err); ok {
		return e.Kind == pool.Dial
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// errnoReason reads the kernel's own word.
func errnoReason(errno syscall.Errno, dialing bool) (Reason, bool) {
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EACCES:
		return ReasonLocalResource, true
	case syscall.EADDRNOTAVAIL:
		return ReasonPortBudget, true
	case syscall.ECONNREFUSED:
		return ReasonConnectRefused, true
	case syscall.ETIMEDOUT:
		if dialing {
			return ReasonConnectTimeout, true
		}
		return ReasonConnectionLost, true // the kernel gave up on unacknowledged data (TCP_USER_TIMEOUT)
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		if dialing {
			return ReasonConnectFailed, true
		}
		return ReasonRemoteReset, true
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return ReasonConnectFailed, true
	}
	return 0, false
}

// dialReason is the reason of a dial that failed in a way that only the step tells.
func dialReason(step pool.StepName) Reason {
	switch step {
	case pool.DNS:
		return ReasonDNS
	case pool.TLS:
		return ReasonTLS
	}
	return ReasonConnectFailed
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// isTLS reports that the two sides could not agree on TLS.
func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.AlertError](err)
	return ok
}

// isStreamError recognises net/http's HTTP/2 stream error: its type is not exported, but it fills any struct with these
// fields.
func isStreamError(err error) bool {
	var e streamError
	return errors.As(err, &e)
}

// A streamError has the fields that net/http's HTTP/2 stream error fills in through [errors.As].
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "HTTP/2 stream error" }

// isProtocolError reports that what came back was no HTTP.
func isProtocolError(err error) bool {
	_, ok := errors.AsType[textproto.ProtocolError](err)
	return ok
}
