package client

import "fmt"

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
	errorType string
	verdict   verdict
	repeat    repeat
}{
	ReasonOK:             {"ok", "", good, never},
	ReasonStatus:         {"status", "", byStatus, idempotent},
	ReasonCanceled:       {"canceled", "", neutral, never},
	ReasonDeadline:       {"deadline", "timeout", bySlowness, never},
	ReasonAttemptTimeout: {"attempt_timeout", "timeout", bad, idempotent},
	ReasonBodyStalled:    {"body_stalled", "timeout", bad, never},
	ReasonBodyBroken:     {"body_broken", "body_error", bad, never},
	ReasonDNS:            {"dns", "dns_error", neutral, always},
	ReasonConnectRefused: {"connect_refused", "connection_refused", badDial, always},
	ReasonConnectTimeout: {"connect_timeout", "connect_timeout", badDial, always},
	ReasonConnectFailed:  {"connect_failed", "connection_failed", badDial, always},
	ReasonTLS:            {"tls", "tls_error", badDial, always},
	ReasonCertificate:    {"certificate", "tls_error", badDial, never},
	ReasonConnectionLost: {"connection_lost", "connection_reset", bad, idempotent},
	ReasonRemoteReset:    {"remote_reset", "connection_reset", bad, idempotent},
	ReasonStreamRefused:  {"stream_refused", "connection_reset", neutral, always},
	ReasonLocalReset:     {"local_reset", "", neutral, never},
	ReasonProtocol:       {"protocol", "protocol_error", bad, idempotent},
	ReasonRequestBody:    {"request_body", "body_error", neutral, never},
	ReasonCredential:     {"credential", "credential_error", neutral, never},
	ReasonOverflow:       {"overflow", "queue_full", neutral, never},
	ReasonConnWait:       {"conn_wait", "queue_full", neutral, always},
	ReasonPortBudget:     {"port_budget", "port_budget", neutral, always},
	ReasonLocalResource:  {"local_resource", "connection_failed", neutral, never},
	ReasonBreakerOpen:    {"breaker_open", "breaker_open", neutral, never},
	ReasonNoEndpoint:     {"no_endpoint", "no_endpoint", neutral, never},
	ReasonNoUpstream:     {"no_upstream", "no_upstream", neutral, never},
	ReasonDenied:         {"denied", "no_endpoint", neutral, never},
	ReasonDraining:       {"draining", "draining", neutral, never},
	ReasonInvalidRequest: {"invalid_request", "_OTHER", neutral, never},
	ReasonPanic:          {"panic", "panic", neutral, never},
	ReasonOther:          {"other", "_OTHER", bad, idempotent},
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
		return "_OTHER"
	}
	return reasonFacts[r].errorType
}
