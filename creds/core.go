package creds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
	"github.com/sortie-go/sortie/metrics"
)

// core is what [Cache] and [Tokens] have in common: one value of a source, kept by internal/fresh, with the rules of this
// package. Lock order: mu is never held while a method of val is called, since those may call back.
type core[T any] struct {
	cfg    Config
	nature *nature[T]
	source source[T]
	stable bool // static stability is in force
	val    *fresh.Value[*item[T]]
	events events

	metrics   *metrics.Credential // nil: off
	unobserve func()

	wallShift atomic.Int64 // added to the wall clock; only tests set it
	lastRead  atomic.Int64 // nanoseconds since 1970, with Config.IdleAfter

	began  sync.Once
	closed atomic.Bool   // set under mu
	stop   chan struct{} // closed by close
	ticks  sync.WaitGroup

	mu        sync.Mutex
	timers    []*time.Timer
	looked    time.Time     // when look last compared the clocks
	lookedAt  int64         // the wall clock then
	skew      time.Duration // how far a service's clock is ahead
	lag       time.Duration // the longest time before an end at which a new value came
	repeats   bool          // the source has brought the same value again
	staleNext time.Time     // when a value that came expired is asked for again
	ended     int           // failures in a row since the value expired
	failing   int           // failures in a row
	failure   failure       // the newest
	refused   ring          // keys that services rejected
	forcedAt  time.Time     // start of the newest forced question
	asked     *Event        // the newest question
	answered  []*Event      // questions that have been answered, and whose sequel is not decided yet
	ready     []Event       // to be told by Changed
	fetches   [len(triggers)]Outcomes
	stats     Stats // what else is counted of it
}

// source is what a core asks.
type source[T any] struct {
	name, kind string
	stable     bool // its values may be given out past their end
	fetch      func(context.Context) (T, error)
	poll       time.Duration // how often changed is asked; 0: never
	changed    func() bool   // whether there may be another value, though the one in hand is good
}

// failure is an error as internal/fresh has it and as readers get it.
type failure struct {
	raw, public error
	fatal       bool
}

func newCore[T any](n *nature[T], src source[T], cfg Config) (*core[T], error) {
	stable := cfg.StaticStability == On || cfg.StaticStability == Auto && src.stable
	if err := cfg.validate(stable); err != nil {
		return nil, err
	}
	c := &core[T]{cfg: cfg.withDefaults(), nature: n, source: src, stable: stable, stop: make(chan struct{})}
	if c.cfg.Name == "" {
		c.cfg.Name = src.name
	}
	c.events.fn = cfg.OnRefresh
	c.metrics = cfg.Metrics.Credential(c.cfg.Name)
	c.val = fresh.New[*item[T]](c, fresh.Options{
		Timeout: c.cfg.FetchTimeout, HardWait: c.cfg.HardWait, MinGap: forcedGap, StuckGap: stuckGap,
	})
	c.unobserve = c.metrics.Observe(c.remaining)
	return c, nil
}

const stuckGap = time.Minute

// wall is the wall clock at now, in nanoseconds since 1970.
func (c *core[T]) wall(now time.Time) int64 { return now.UnixNano() + c.wallShift.Load() }

// warm returns the value if a reader at now can have it without more ado: it is good by timers, age and wall clock, and
// nothing has to be started.
func (c *core[T]) warm(now time.Time) *item[T] {
	s := c.val.Peek()
	it := s.Value
	if it == nil || s.Due || it.slow.Load() {
		return nil
	}
	until, wallUntil := s.Plan.Soft, it.softWall
	if s.State == fresh.Soft {
		until, wallUntil = s.Plan.Hard, it.hardWall
	} else if s.State != fresh.Valid {
		return nil
	}
	wall := c.wall(now)
	if wall >= wallUntil || wall < it.backWall || !now.Before(until) && !until.IsZero() {
		return nil
	}
	if c.cfg.IdleAfter > 0 {
		c.lastRead.Store(wall)
	}
	return it
}

// read returns a value that may be used at now, which is the time just read from the clock.
func (c *core[T]) read(ctx context.Context, now time.Time) (*item[T], error) {
	if it := c.warm(now); it != nil {
		return it, nil
	}
	c.begin()
	if c.cfg.IdleAfter > 0 {
		c.lastRead.Store(c.wall(now))
	}
	c.compare(now, time.Millisecond)
	s, err := c.val.GetAt(ctx, now)
	after := time.Now()
	c.countWait(after.Sub(now))
	if err != nil {
		return c.withoutValue(ctx, err, after)
	}
	return c.serve(s.Value, after)
}

// serve counts what is given out beyond its time or against a service's word.
func (c *core[T]) serve(it *item[T], now time.Time) (*item[T], error) {
	left := it.left(now, c.wall(now))
	if left <= 0 && c.closed.Load() {
		return nil, &ExpiredError{Source: c.cfg.Name, Since: it.expires, LastErr: ErrClosed}
	}
	if left > 0 && !it.slow.Load() {
		return it, nil
	}
	if c.countServed(it, left) {
		c.metrics.Happened(eventStale)
	}
	return it, nil
}

// countServed reports whether the item was given out past its end.
func (c *core[T]) countServed(it *item[T], left time.Duration) (stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case it.rejected:
		c.stats.RejectedServed++
	case left <= 0:
		it.publish(c, left) // the timer may not have come so far
		c.stats.StaleServed++
	}
	return left <= 0
}

// withoutValue turns the reason why there is nothing to give into the error for the reader.
func (c *core[T]) withoutValue(ctx context.Context, err error, now time.Time) (*item[T], error) {
	f := c.failed(err)
	if own := ctx.Err(); own != nil && f.raw == nil && errors.Is(err, own) {
		return nil, c.gone(ctx)
	}
	it := c.val.Peek().Value
	switch {
	case it != nil && it.left(now, c.wall(now)) > 0:
		return c.serve(it, now) // rejected, and closed before another could be had
	case it != nil && !f.fatal:
		return nil, &ExpiredError{Source: c.cfg.Name, Since: it.expires, LastErr: f.public}
	case f.public == nil:
		return nil, &FetchError{Source: c.cfg.Name, Err: &AnswerError{"none"}}
	}
	return nil, f.public
}

// gone is the error of a reader whose context has ended.
func (c *core[T]) gone(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return fmt.Errorf("creds: %s: left while waiting: %w", c.cfg.Name, err)
}

// failed returns the failure that belongs to an error of internal/fresh. Its raw error is nil if that is none of the
// source's.
func (c *core[T]) failed(err error) failure {
	c.mu.Lock()
	f := c.failure
	c.mu.Unlock()
	switch {
	case f.raw != nil && f.raw == err: //nolint:errorlint // identity: the very error of the newest try
		return f
	case errors.Is(err, fresh.ErrClosed):
		return failure{public: ErrClosed}
	case errors.Is(err, fresh.ErrNoValue):
		return failure{}
	}
	return failure{public: err}
}

// start is Start of Cache and Tokens.
func (c *core[T]) start(ctx context.Context) error {
	for {
		_, err := c.read(ctx, time.Now())
		if err == nil || c.closed.Load() || ctx.Err() != nil || c.failed(c.val.Peek().Err).fatal {
			return err
		}
		if !c.pause(ctx) {
			return fmt.Errorf("%w; %w", c.gone(ctx), err)
		}
	}
}

// pause waits until the next try is due. It reports false if ctx ends first.
func (c *core[T]) pause(ctx context.Context) bool {
	timer := time.NewTimer(max(time.Until(c.val.Peek().Next), 20*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.stop:
	case <-ctx.Done():
		return false
	}
	return true
}

// close is Close of Cache and Tokens.
func (c *core[T]) close() error {
	c.mu.Lock()
	if !c.closed.Swap(true) {
		close(c.stop)
	}
	for _, t := range c.timers {
		t.Stop()
	}
	c.mu.Unlock()
	c.unobserve()
	c.val.Close()
	c.ticks.Wait()
	c.tell()
	c.events.wait()
	return nil
}
