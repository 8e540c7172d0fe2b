package metrics

import "strconv"

// ErrorType is a value of the attribute error.type, the same for calls and attempts, in metrics and in spans. The set is
// closed: the constants below, and the status codes from 400 to 599, which stand for themselves; see [StatusError].
//
// The zero value is no error. A call that its caller cancelled has none either (semantic-conventions#3495): nobody wants
// to be woken because a browser was closed. A deadline that passed is one.
type ErrorType uint16

// The error types that are no status codes.
const (
	NoError ErrorType = iota // the attribute is absent
	ErrorTimeout
	ErrorConnectTimeout
	ErrorDNS
	ErrorConnectionRefused
	ErrorConnectionFailed
	ErrorConnectionReset
	ErrorTLS
	ErrorProtocol
	ErrorBody
	ErrorCredential
	ErrorPortBudget
	ErrorQueueFull
	ErrorNoEndpoint
	ErrorBreakerOpen
	ErrorNoUpstream
	ErrorDraining
	ErrorPanic
	ErrorOther

	numErrorTypes
)

// numFailures is how many status codes are error types: 400 to 599.
const numFailures = 200

var errorTypeNames = [numErrorTypes]string{
	ErrorTimeout:           "timeout",
	ErrorConnectTimeout:    "connect_timeout",
	ErrorDNS:               "dns_error",
	ErrorConnectionRefused: "connection_refused",
	ErrorConnectionFailed:  "connection_failed",
	ErrorConnectionReset:   "connection_reset",
	ErrorTLS:               "tls_error",
	ErrorProtocol:          "protocol_error",
	ErrorBody:              "body_error",
	ErrorCredential:        "credential_error",
	ErrorPortBudget:        "port_budget",
	ErrorQueueFull:         "queue_full",
	ErrorNoEndpoint:        "no_endpoint",
	ErrorBreakerOpen:       "breaker_open",
	ErrorNoUpstream:        "no_upstream",
	ErrorDraining:          "draining",
	ErrorPanic:             "panic",
	ErrorOther:             other,
}

// StatusError returns the error type of an answer with this status code: the code itself from 400 to 599, [NoError] below.
// A code that HTTP does not have is [ErrorOther].
func StatusError(status int) ErrorType {
	switch {
	case status < 400:
		return NoError
	case status <= 599:
		return ErrorType(status)
	}
	return ErrorOther
}

// String returns the value of the attribute, such as "timeout" or "503", and "" for [NoError].
func (e ErrorType) String() string {
	e = e.known()
	if e < numErrorTypes {
		return errorTypeNames[e]
	}
	return strconv.Itoa(int(e))
}

// known returns e, or ErrorOther if it is not of the set.
func (e ErrorType) known() ErrorType {
	if e < numErrorTypes || e >= 400 && e <= 599 {
		return e
	}
	return ErrorOther
}
