package client

import (
	"context"
	"net/http"
)

// A detached context has the values and the deadline of the caller's, but does not end with it. Attempts get theirs from it: the
// call hears of the caller's end once, whatever it has under way, and tells its attempts. One that goes on beside the winner
// when the call is over does not hear of it any more.
type detached struct{ context.Context }

func (*detached) Done() <-chan struct{} { return nil }
func (*detached) Err() error            { return nil }

// watchCallerLocked has the caller's end end what is under way. It is called when an attempt has entered, which has missed it if it
// came before.
func (c *call) watchCallerLocked() {
	ctx := c.context()
	switch {
	case ctx.Done() == nil, c.ended:
	case c.unwatch == nil:
		c.unwatch = context.AfterFunc(ctx, c.callerEnded)
	case ctx.Err() != nil:
		c.last().cancel(endOf(ctx))
	}
}

// callerEnded runs when the caller's context has ended. A body that nobody reads is lost then anyway, and what the call holds must
// not wait for a Close that may never come.
func (c *call) callerEnded() {
	ctx := c.context()
	cause := endOf(ctx)
	c.mu.Lock()
	attempts, upgraded := c.attempts, c.status == http.StatusSwitchingProtocols
	c.mu.Unlock()
	if upgraded {
		return // the connection lives as long as its two ends want
	}
	for _, a := range attempts {
		a.stop(cause)
	}
	c.abandon(contextErrReason(ctx.Err()), context.Cause(ctx))
}

// endOf is the end of the caller's context as the cause of another's end: its own cause, and that it was one of time.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == context.DeadlineExceeded && cause != err {
		return &timeOver{cause}
	}
	return cause
}

// timeOver is the cause that a caller has given its deadline.
type timeOver struct{ cause error }

func (e *timeOver) Error() string   { return e.cause.Error() }
func (e *timeOver) Unwrap() []error { return []error{e.cause, context.DeadlineExceeded} }
func (e *timeOver) Timeout() bool   { return true }
func (e *timeOver) Temporary() bool { return true }
