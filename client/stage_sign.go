package client

import (
	"context"
	"net/http"
	"time"
)

// withSigner has the attempt's request signed, when all else about it is final, and shows the signer what came of it. It waits
// for the signer and books that time as "credential".
func withSigner(signer Signer, try trier) trier {
	if signer == nil {
		return try
	}
	return func(a *attempt) (*http.Response, error) {
		a.ownHeader()
		began := a.call.now()
		err := a.sign(signer)
		a.tookToSign(began)
		if err != nil {
			if cause := context.Cause(a.ctx); cause != nil {
				err = cause
			}
			return nil, a.fails(a.reasonOr(ReasonCredential), err)
		}
		resp, err := try(a)
		if o, ok := signer.(observer); ok && err == nil && o.Observe(a.ctx, &a.request, resp) {
			a.signAgain.Store(true)
		}
		return resp, err
	}
}

// tookToSign notes the time in the signer. The call may be over meanwhile, and reported, if the attempt runs beside another.
func (a *attempt) tookToSign(began time.Duration) {
	a.call.mu.Lock()
	defer a.call.mu.Unlock()
	a.last = a.call.now()
	a.signed, a.signing = true, a.last-began
}

// sign signs the attempt, with what the signer has prepared for the whole call.
func (a *attempt) sign(signer Signer) error {
	ctx := a.ctx
	if p, ok := signer.(preparer); ok {
		prepared, err := a.call.prepare(p)
		if err != nil {
			return err
		}
		ctx = signContext{a.ctx, prepared}
	}
	return signer.Sign(ctx, &a.request)
}

// prepare has the signer prepare the call, once.
func (c *call) prepare(p preparer) (context.Context, error) {
	x := c.extras()
	x.preparing.Do(func() { x.prepared, x.prepareErr = p.Prepare(c.context(), c.req) })
	return x.prepared, x.prepareErr
}

// A signContext is an attempt's context with the values of what was prepared for its call.
type signContext struct {
	context.Context
	prepared context.Context
}

func (s signContext) Value(key any) any {
	if v := s.prepared.Value(key); v != nil {
		return v
	}
	return s.Context.Value(key)
}

// withResign makes one more attempt, with a new signature, when the signer says that the rejected identity or date has been
// replaced. It waits for nothing; the extra attempt is outside Retry, which may be off, but not outside the budget.
func withResign(up *upstream, next sender) sender {
	if _, ok := up.signer.(observer); !ok {
		return next
	}
	return func(c *call) (*http.Response, error) {
		resp, err := next(c)
		if err != nil || !c.answer.signAgain.Load() || c.resigned {
			return resp, err
		}
		if why := c.mayResign(); why != "" {
			c.stoppedBy(why)
			c.up.meter.RetrySuppressed(c.context(), string(why))
			return resp, nil
		}
		c.resigned = true
		c.nextIs(KindResign, 0)
		rejected := keep(resp, c.answer)
		c.answer.over()
		before := len(c.attempts)
		resp, err = next(c)
		if len(c.attempts) > before {
			c.up.meter.Retried(c.context(), "credential", retryOutcome(err == nil && resp.StatusCode < 400))
		}
		f, _ := err.(*failure)
		return c.settleFor(rejected, resp, f)
	}
}

// mayResign says why there is no attempt with a new signature; "" if there may be one.
func (c *call) mayResign() Stopped {
	switch {
	case !c.replayable():
		return StoppedNotReplayable
	case !c.up.budget.TryRetry(time.Now()):
		return StoppedBudget
	}
	return ""
}
