package client

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/backoff"
	"github.com/sortie-go/sortie/internal/budget"
)

// Stopped says why no further attempt was made although the last outcome was one that could have been repeated. The zero
// value: there was nothing to repeat.
type Stopped string

const (
	StoppedNotIdempotent Stopped = "not_idempotent" // the server may have seen the request, which must not happen twice
	StoppedLimit         Stopped = "limit"          // Retry.Attempts is used up
	StoppedDraining      Stopped = "draining"       // the client is draining, and the retry would not fit
	StoppedNotReplayable Stopped = "not_replayable" // the body has been read and cannot be had again
	StoppedDeadline      Stopped = "deadline"       // the wait would outlast the deadline, or the server wants too long a one
	StoppedBudget        Stopped = "budget"         // the retry budget is used up
	StoppedBreakerOpen   Stopped = "breaker_open"   // no breaker admitted the retry that was decided on
)

// maxMoves is how often a call may go on to another endpoint because one could not be reached at all.
const maxMoves = 3

// defaultStatuses are the answers worth repeating. 500 is not: it is mostly deterministic.
var defaultStatuses = [...]int{
	http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// A retryPolicy is a Retry with its defaults filled in.
type retryPolicy struct {
	attempts   int
	waits      backoff.Policy
	statuses   []int
	bufferBody int64 // 0 = none
	keyHeader  string
}

func (r *Retry) compile() *retryPolicy {
	if r == nil {
		return nil
	}
	statuses := r.Statuses
	if statuses == nil {
		statuses = defaultStatuses[:]
	}
	return &retryPolicy{
		attempts: orDefault(r.Attempts, 3),
		waits: backoff.Policy{
			Base: orDefault(r.Base, 25*time.Millisecond), Cap: orDefault(r.Cap, 250*time.Millisecond),
			MaxWish: orDefault(r.MaxRetryAfter, 5*time.Second),
		},
		statuses:   slices.Clone(statuses),
		bufferBody: max(orDefault(r.BufferBody, 64<<10), 0),
		keyHeader:  http.CanonicalHeaderKey(r.IdempotencyHeader),
	}
}

func (b Budget) engine() budget.Config {
	return budget.Config{
		Percent: orDefault(b.Percent, 20), PerSecond: max(orDefault(b.PerSecond, 10), 0), Window: orDefault(b.Window, 10*time.Second),
	}
}

// repeats reports whether an answer is worth repeating.
func (up *upstream) repeats(status int) bool {
	if up.retry != nil {
		return slices.Contains(up.retry.statuses, status)
	}
	return slices.Contains(defaultStatuses[:], status)
}

// prepare makes a call fit for more than one attempt.
func (p *retryPolicy) prepare(c *call) error {
	if p.keyHeader != "" && (c.req.Method == http.MethodPost || c.req.Method == http.MethodPatch) && c.req.Header.Get(p.keyHeader) == "" {
		x := c.extras()
		x.keyHeader, x.key = p.keyHeader, rand.Text()
	}
	if !hasBody(c.req) || c.req.GetBody != nil || c.req.ContentLength <= 0 || c.req.ContentLength > p.bufferBody || !c.idempotent() {
		return nil
	}
	// Read one byte more than declared: a body that is longer than it says is the caller's mistake, and must stay one.
	buffered, err := io.ReadAll(io.LimitReader(c.req.Body, c.req.ContentLength+1))
	c.req.Body.Close()
	c.extras().buffered = buffered
	if err == nil && int64(len(buffered)) != c.req.ContentLength {
		err = errors.New("request body has another length than ContentLength says")
	}
	return err
}

// A step is what comes after an attempt that brought nothing acceptable.
type step struct {
	again bool
	move  bool          // to another endpoint, because this one was not reached
	wait  time.Duration // before it
	why   Stopped       // if not again
}

// decide says whether there is a further attempt, before anything is waited for.
func (p *retryPolicy) decide(c *call, resp *http.Response, f *failure) step {
	when := c.mayRepeat(f)
	if when == never {
		if f != nil && f.reason == ReasonBreakerOpen && len(c.attempts) > 0 {
			return step{why: StoppedBreakerOpen}
		}
		return step{}
	}
	if when == always && c.moves < maxMoves && c.untried() && c.replayable() {
		return step{again: true, move: true}
	}
	switch {
	case when == idempotent && !c.idempotent():
		return step{why: StoppedNotIdempotent}
	case c.counted() >= p.attempts:
		return step{why: StoppedLimit}
	case !c.replayable():
		return step{why: StoppedNotReplayable}
	}
	now := time.Now()
	wait, ok := p.waits.Next(c.counted(), wish(resp, f, now))
	next := now.Add(wait).Add(c.up.headerTime.mean())
	switch deadline, limited := c.deadline(); {
	case !c.client.fitsDrain(next):
		return step{why: StoppedDraining}
	case !ok, limited && !next.Before(deadline):
		return step{why: StoppedDeadline}
	case !c.up.budget.TryRetry(now):
		return step{why: StoppedBudget}
	}
	return step{again: true, wait: wait}
}

// mayRepeat reads the last outcome: a failure, or with none a response that is worth repeating.
func (c *call) mayRepeat(f *failure) repeat {
	last := c.last()
	switch {
	case f == nil:
		return idempotent
	case last == nil || !last.ended:
		return never // refused before there was an attempt
	case reasonFacts[f.reason].repeat == idempotent && last.neverSent():
		return always
	}
	return reasonFacts[f.reason].repeat
}

// counted is the number of attempts that count against Retry.Attempts: all but moves and the one with a new signature.
func (c *call) counted() int {
	n := len(c.attempts) - int(c.moves)
	if c.resigned {
		n--
	}
	return n
}

// wish is how long it is wise to wait: Retry-After, where the server may ask for a pause, or the time until a port is free; 0 is no
// wish.
func wish(resp *http.Response, f *failure, now time.Time) time.Duration {
	if f != nil {
		return f.retryAfter
	}
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	d, _ := backoff.RetryAfter(resp.Header.Get("Retry-After"), now)
	return d
}

// A headerTime is the running average of an upstream's time to headers. Safe for concurrent use.
type headerTime struct{ nanoseconds atomic.Int64 }

// observe moves the average an eighth of the way, as TCP does with its round trips (RFC 6298).
func (h *headerTime) observe(d time.Duration) {
	for {
		old := h.nanoseconds.Load()
		next := old + (int64(d)-old)/8
		if old == 0 {
			next = int64(d)
		}
		if h.nanoseconds.CompareAndSwap(old, next) {
			return
		}
	}
}

func (h *headerTime) mean() time.Duration { return time.Duration(h.nanoseconds.Load()) }

// Bounds of what is read of a response that is not handed on.
const (
	discardBytes = 64 << 10
	discardTime  = 50 * time.Millisecond
)

var errDiscardTime = errors.New("the rest of a discarded body did not come in time")

// A kept response is the last real one, while the call tries for a better one.
type kept struct {
	resp    *http.Response
	attempt *attempt
}

// keep takes a response off the wire. What can be read of it quickly is kept in memory; if that is all of it, its connection
// is free again.
func keep(resp *http.Response, a *attempt) *kept {
	timer := time.AfterFunc(discardTime, func() { a.stop(errDiscardTime) })
	prefix, err := io.ReadAll(io.LimitReader(resp.Body, discardBytes+1))
	timer.Stop()
	resp.Body.Close()
	body := &discardedBody{rest: bytes.NewReader(prefix), end: io.EOF}
	if err != nil || len(prefix) > discardBytes {
		body.end = ErrBodyDiscarded
	}
	resp.Body = body
	return &kept{resp, a}
}

// A discardedBody is what was kept of a body.
type discardedBody struct {
	rest *bytes.Reader
	end  error
}

func (b *discardedBody) Read(p []byte) (int, error) {
	n, err := b.rest.Read(p)
	if err == io.EOF {
		err = b.end
	}
	return n, err
}

func (b *discardedBody) Close() error { return nil }
