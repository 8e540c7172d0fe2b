package client

import (
	"net/http"
	"time"
)

// START HERE. This file states the whole path of a call.
//
// A call goes down through the stages in this order and comes back up through them in reverse:
//
//	route      client.go          which upstream, from which side; or the refusal. It must be known before any policy can
//	                              be chosen, and a refusal should cost nothing.
//	cache                         a fresh answer costs no slot, no attempt and no time limit. Not built yet.
//	deadline   stage_deadline.go  the total time, which covers everything below, waiting included, and the body.
//	limit      stage_limit.go     one slot per call, held until the body ends. Below deadline, because the wait for a slot
//	                              is the call's time; above retry, because retries need no slot of their own.
//	retry      stage_retry.go     attempts, and the waits between them, within the upstream's budget.
//	hedge      stage_hedge.go     a second attempt while the first one is slow. Below retry, whose attempts it doubles.
//	pick       stage_pick.go      an endpoint, and with it an attempt: context, time limit, and the one clone of the
//	                              request. Below retry and hedge, so that each attempt can go elsewhere.
//	sign       stage_sign.go      credentials and date, fresh for each attempt, on what is really sent. (Its other half, one
//	                              attempt more when a key has been replaced, stands between retry and hedge.)
//	wire       stage_wire.go      a connection from the endpoint's pool, the response's headers, the time account.
//
// On the way back the response's body is wrapped once (deliver, in client.go): the call, and all it holds, ends with it.
//
// A stage is a function around the next one. A stage that its policy switches off is not in the chain; deadline always
// is, since the context of a call may set limits too.
//
// What a stage may rely on: the caller's request is only read; its body is closed wherever the call ends; an error on its
// way up is a *failure, from which RoundTrip makes the one *Error.

// A sender is a stage that sees the whole call: it brings the response, or a *failure.
type sender func(*call) (*http.Response, error)

// A trier is a stage that sees one attempt.
type trier func(*attempt) (*http.Response, error)

// pipeline builds the chain of one upstream, from the inside out.
func pipeline(up *upstream) sender {
	try := trier(wire)
	try = withSigner(up.signer, try)
	send := withHedge(up, up.hedge, try)
	send = withResign(up, send)
	send = withRetry(up.retry, send)
	send = withLimit(up.limit, send)
	send = withDeadline(up.timeout, send)
	return send
}

// A failure is why there is no response, on its way up to the caller.
type failure struct {
	reason     Reason
	err        error         // the cause; nil if the reason says it all
	retryAfter time.Duration // after which another call may be admitted; 0: nobody knows
}

func (f *failure) Error() string {
	if f.err == nil {
		return f.reason.String()
	}
	return f.reason.String() + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }
