package client

import (
	"fmt"

	"github.com/sortie-go/sortie/metrics"
)

// Reason says how an attempt or a call ended. The set is closed: every outcome has exactly one, and a call has the Reason
// of the attempt whose result the caller got. It is coarser in metrics and spans, see [Reason.ErrorType].
//
// The zero value is [ReasonOK].
type Reason uint8

// The reasons. Two letters in brackets are Envoy's response flag for the same thing.
const (
	ReasonOK             Reason = iota // an answer below 400
	ReasonStatus                       // an answer of 400 or more
	ReasonCanceled                     // the caller cancelled [DC]
	ReasonDeadline                     // the total time or the caller's deadline was over [DT]
	ReasonAttemptTimeout               // no headers within the attempt's time [UT]
	ReasonBodyStalled                  // a read of the body made no progress [SI]
	ReasonBodyBroken                   // the body ended early, was reset, or was badly framed [UC]
	ReasonDNS                          // no address known [DF]
	ReasonConnectRefused               // connection refused [UF]
	ReasonConnectTimeout               // dial or handshake took too long [UF]
	ReasonConnectFailed                // unreachable, or reset while connecting [UF]
	ReasonTLS                          // handshake failed [UF]
	ReasonCertificate                  // not trusted, or for another name [UF]
	ReasonConnectionLost               // closed after bytes were written, without an answer [UC]
	ReasonRemoteReset                  // connection or stream reset by the peer [UR]
	ReasonStreamRefused                // HTTP/2: REFUSED_STREAM, or GOAWAY below our stream [UR]
	ReasonLocalReset                   // cut by us: a hedge that lost; only attempts [LR]
	ReasonProtocol                     // not valid HTTP, or a header too large [UPE]
	ReasonRequestBody                  // the caller's body failed or has the wrong length
	ReasonCredential                   // the signer returned an error
	ReasonOverflow                     // limit and queue full, or the wait was over [UO]
	ReasonConnWait                     // the attempt ended while waiting for a pooled connection [UO]
	ReasonPortBudget                   // port budget used up, or no local port left [UO]
	ReasonLocalResource                // out of files, buffers or memory, or not permitted, on our side
	ReasonBreakerOpen                  // no endpoint's breaker admits [UO]
	ReasonNoEndpoint                   // no endpoint left to pick [UH]
	ReasonNoUpstream                   // unlisted host under Strict [NR]
	ReasonDenied                       // Guard left no address
	ReasonDraining                     // the client is draining or closed
	ReasonInvalidRequest               // the request cannot be sent as it is
	ReasonPanic                        // in a signer or a Transport of the user's; all was released, then it went on
	ReasonOther                        // anything else

	numReasons
)

// A verdict says what an outcome means for the endpoint: it is what a breaker and a balancer will be told.
type verdict uint8

const (
	neutral verdict = iota // moves no counter
	good
	bad
	badDial    // a failure, once per dial
	byStatus   // depends on the status code
	bySlowness // depends on how long the attempt ran
)

// A repeat says when an attempt that ended so may be made again, as far as the reason alone decides it.
type repeat uint8

const (
	never      repeat = iota
	always            // nothing was sent: any method
	idempotent        // the server may have seen it
)

// reasonFacts is the table of client.Reason: name, error type and the two judgements, one row per reason.
var reasonFacts = [numReasons]struct {
	name      string
	errorType metrics.ErrorType
	verdict   verdict
	repeat    repeat
}{
	ReasonOK:             {"ok", metrics.NoError, good, never},
	ReasonStatus:         {"status", metrics.NoError, byStatus, idempotent},
	ReasonCanceled:       {"canceled", metrics.NoError, neutral, never},
	ReasonDeadline:       {"deadline", metrics.ErrorTimeout, bySlowness, never},
	ReasonAttemptTimeout: {"attempt_timeout", metrics.ErrorTimeout, bad, idempotent},
	ReasonBodyStalled:    {"body_stalled", metrics.ErrorTimeout, bad, never},
	ReasonBodyBroken:     {"body_broken", metrics.ErrorBody, bad, never},
	ReasonDNS:            {"dns", metrics.ErrorDNS, neutral, always},
	ReasonConnectRefused: {"connect_refused", metrics.ErrorConnectionRefused, badDial, always},
	ReasonConnectTimeout: {"connect_timeout", metrics.ErrorConnectTimeout, badDial, always},
	ReasonConnectFailed:  {"connect_failed", metrics.ErrorConnectionFailed, badDial, always},
	ReasonTLS:            {"tls", metrics.ErrorTLS, badDial, always},
	ReasonCertificate:    {"certificate", metrics.ErrorTLS, badDial, never},
	ReasonConnectionLost: {"connection_lost", metrics.ErrorConnectionReset, bad, idempotent},
	ReasonRemoteReset:    {"remote_reset", metrics.ErrorConnectionReset, bad, idempotent},
	ReasonStreamRefused:  {"stream_refused", metrics.ErrorConnectionReset, neutral, always},
	ReasonLocalReset:     {"local_reset", metrics.NoError, neutral, never},
	ReasonProtocol:       {"protocol", metrics.ErrorProtocol, bad, idempotent},
	ReasonRequestBody:    {"request_body", metrics.ErrorBody, neutral, never},
	ReasonCredential:     {"credential", metrics.ErrorCredential, neutral, never},
	ReasonOverflow:       {"overflow", metrics.ErrorQueueFull, neutral, never},
	ReasonConnWait:       {"conn_wait", metrics.ErrorQueueFull, neutral, always},
	ReasonPortBudget:     {"port_budget", metrics.ErrorPortBudget, neutral, always},
	ReasonLocalResource:  {"local_resource", metrics.ErrorConnectionFailed, neutral, never},
	ReasonBreakerOpen:    {"breaker_open", metrics.ErrorBreakerOpen, neutral, never},
	ReasonNoEndpoint:     {"no_endpoint", metrics.ErrorNoEndpoint, neutral, never},
	ReasonNoUpstream:     {"no_upstream", metrics.ErrorNoUpstream, neutral, never},
	ReasonDenied:         {"denied", metrics.ErrorNoEndpoint, neutral, never},
	ReasonDraining:       {"draining", metrics.ErrorDraining, neutral, never},
	ReasonInvalidRequest: {"invalid_request", metrics.ErrorOther, neutral, never},
	ReasonPanic:          {"panic", metrics.ErrorPanic, neutral, never},
	ReasonOther:          {"other", metrics.ErrorOther, bad, idempotent},
}

// String returns the reason's name in lower case, such as "connect_refused".
func (r Reason) String() string {
	if r >= numReasons {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonFacts[r].name
}

// ErrorType returns the value of the error.type attribute in metrics and spans; "" means that nothing went wrong. The
// caller's own cancellation is no error (semantic-conventions#3495). For [ReasonStatus] it is the status code itself, which
// [Report.ErrorType] fills in.
func (r Reason) ErrorType() string {
	if r >= numReasons {
		return metrics.ErrorOther.String()
	}
	return reasonFacts[r].errorType.String()
}
