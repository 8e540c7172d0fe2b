package client

import (
	"context"
	"time"
)

// CallOptions change how one call is made. Zero fields leave what the policy says.
type CallOptions struct {
	Side       Side          // the side to call from
	Total      time.Duration // instead of Timeout.Total; −1 is no limit
	Attempt    time.Duration // instead of Timeout.Attempt; −1 is no limit
	HashKey    string        // the key by which Rendezvous chooses an endpoint
	NoRetry    bool          // make one attempt, whatever Retry says
	NoHedge    bool          // make no second attempt, whatever Hedge says
	Idempotent Choice        // whether the request may be sent again although the server may have seen it
}

// Choice answers a question that may be left open. The zero value leaves it open.
type Choice uint8

const (
	Unset Choice = iota // as the method and the headers say
	Yes
	No
)

type callOptionsKey struct{}

// WithCall returns a context under which calls are made with the given options. Contexts nest: the options of the inner
// one win where they are not zero.
func WithCall(ctx context.Context, opts CallOptions) context.Context {
	var outer CallOptions
	if o := callOptions(ctx); o != nil {
		outer = *o
	}
	opts.Side = orDefault(opts.Side, outer.Side)
	opts.Total = orDefault(opts.Total, outer.Total)
	opts.Attempt = orDefault(opts.Attempt, outer.Attempt)
	opts.HashKey = orDefault(opts.HashKey, outer.HashKey)
	opts.NoRetry = opts.NoRetry || outer.NoRetry
	opts.NoHedge = opts.NoHedge || outer.NoHedge
	opts.Idempotent = orDefault(opts.Idempotent, outer.Idempotent)
	return context.WithValue(ctx, callOptionsKey{}, &opts)
}

// callOptions returns the options of a context; nil if it has none.
func callOptions(ctx context.Context) *CallOptions {
	opts, _ := ctx.Value(callOptionsKey{}).(*CallOptions)
	return opts
}

type templateKey struct{}

// WithTemplate returns a context that gives calls a name with few distinct values, such as "/items/{id}", for reports,
// spans and metrics. It changes nothing else.
func WithTemplate(ctx context.Context, template string) context.Context {
	return context.WithValue(ctx, templateKey{}, template)
}

func template(ctx context.Context) string {
	t, _ := ctx.Value(templateKey{}).(string)
	return t
}
