package creds

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// keep is the outcome that leaves the value in hand.
func keep[T any](err error) fresh.Outcome[*item[T]] {
	return fresh.Outcome[*item[T]]{Verdict: fresh.Keep, Err: err}
}

// Fetch is one flight: usually one question to the source. It is two if a service rejected the value while the first was
// under way and that brought no other, for then the first says nothing about the rejection.
func (c *core[T]) Fetch(ctx context.Context, reason string) fresh.Outcome[*item[T]] {
	for why := c.triggerOf(reason); ; why = TriggerRejected {
		e := c.ask(why)
		value, err, fatal := c.call(ctx)
		out := c.judge(value, err, fatal, e)
		if e.replan {
			c.replan() // before readers hear of it: a fatal answer ends static stability
		}
		if out.Verdict == fresh.Replace || ctx.Err() != nil || !c.askAgain(e) {
			return out
		}
	}
}

// ask notes the beginning of a question.
func (c *core[T]) ask(why Trigger) *Event {
	e := &Event{Source: c.cfg.Name, Trigger: why, Start: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if it := c.val.Peek().Value; it != nil {
		it.owed = false
	}
	if why.Class() == "rejected" || why == TriggerPoll {
		c.forcedAt = e.Start
		c.stats.Forced++
	}
	c.asked = e
	return e
}

// askAgain reports whether a rejection came while the question was under way.
func (c *core[T]) askAgain(e *Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.val.Peek().Value
	if it == nil || !it.owed {
		return false
	}
	e.Next = time.Now()
	c.readyLocked(e)
	return true
}

// call asks the source. A panic is the source's failure, not the process's.
func (c *core[T]) call(ctx context.Context) (value T, err error, fatal bool) { //nolint:revive // fatal says more about err
	defer func() {
		if r := recover(); r != nil {
			err, fatal = &PanicError{Value: r, Stack: debug.Stack()}, false
		}
	}()
	value, err = c.source.fetch(ctx)
	if err != nil {
		return value, err, isFatal(err) || c.cfg.Fatal != nil && c.cfg.Fatal(err)
	}
	return value, c.nature.check(value), false
}

// judge decides what an answer is worth, beside the value in hand.
func (c *core[T]) judge(value T, err error, fatal bool, e *Event) fresh.Outcome[*item[T]] {
	now := time.Now()
	wall := c.wall(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Duration = now.Sub(e.Start)
	held := c.val.Peek().Value
	if held != nil && held.fatal != fatal && (fatal || err == nil) {
		held.fatal, e.replan = fatal, true
	}
	if err != nil {
		return c.failLocked(err, fatal, e)
	}
	it := newItem(c.nature, value, now, wall)
	e.Key, e.Expires, e.Lifetime = c.nature.tail(it.key), it.expires, it.life
	it.stale = !it.expires.IsZero() && it.life <= 0
	switch {
	case it.stale && !(held == nil && c.stable && -it.life < c.maxStale()):
		return c.failLocked(&AnswerError{fmt.Sprintf("expired %v ago", (-it.life).Round(time.Second))}, false, e)
	case held == nil:
		return c.acceptLocked(held, it, now, wall, e)
	case c.refused.has(it.key):
		if held.left(now, wall) <= 0 {
			return c.failLocked(&AnswerError{"a service has rejected it before"}, false, e)
		}
	case held.left(now, wall) <= 0 || !c.comesBack(held, it):
		return c.acceptLocked(held, it, now, wall, e)
	}
	c.receiveLocked(it, held.windows.soft, false)
	c.repeats = true
	e.Outcome = OutcomeUnchanged
	c.answeredLocked(e)
	return keep[T](nil)
}

// comesBack reports whether an answer is the value in hand again. Expiries that are counted from the answer differ a
// little each time.
func (c *core[T]) comesBack(held, it *item[T]) bool {
	if !c.nature.same(held.value, it.value) || it.expires.IsZero() != held.expires.IsZero() {
		return false
	}
	return it.expires.Sub(held.expires) <= min(time.Second, held.life/10)
}

func (c *core[T]) acceptLocked(held, it *item[T], now time.Time, wall int64, e *Event) fresh.Outcome[*item[T]] {
	if held != nil && !held.expires.IsZero() {
		c.lag = max(c.lag, held.left(now, wall)) // how early this source is known to bring another
	}
	if it.stale {
		d, _ := delay(position{ended: 1}, uniform)
		c.staleNext = now.Add(d)
	} else if !it.expires.IsZero() {
		it.setWindows(c.cfg.windowsFor(it.life, c.lagLocked(), uniform))
	}
	if it.windows.clamped {
		err := &ThresholdError{Source: c.cfg.Name, Asked: c.cfg.Soft, Used: it.windows.used, Lifetime: it.life}
		if c.cfg.Strict && held == nil {
			return c.failLocked(err, true, e)
		}
		if c.stats.Clamped == 0 {
			c.stats.Clamped++
			e.clamped = err
		}
	}
	it.publish(c, it.left(now, wall))
	c.receiveLocked(it, it.windows.soft, true)
	e.Outcome = OutcomeOK
	c.answeredLocked(e)
	return fresh.Outcome[*item[T]]{Value: it, Verdict: fresh.Replace}
}

// lagLocked returns what windowsFor is to know of this source: nothing, unless it was asked too early before.
func (c *core[T]) lagLocked() time.Duration {
	if !c.repeats {
		return 0
	}
	return c.lag
}

// failLocked makes the failure as readers will see it. Delay fills in what is decided there, before anybody sees it.
func (c *core[T]) failLocked(err error, fatal bool, e *Event) fresh.Outcome[*item[T]] {
	if _, ok := errors.AsType[*PanicError](err); ok {
		c.stats.Panics++
	}
	e.Outcome, e.Err = OutcomeFatal, err
	if !fatal {
		e.Outcome, e.Err = OutcomeError, &FetchError{Source: c.cfg.Name, Err: err}
	}
	c.answeredLocked(e)
	return keep[T](e.Err)
}

// triggerOf names what started a flight, from the word that internal/fresh gives: the state found, or the reason of Force.
func (c *core[T]) triggerOf(reason string) Trigger {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.val.Peek().Value
	switch {
	case it != nil && it.stale:
		return TriggerExpired
	case it != nil && it.rejected && reason == fresh.Expired.String() && it.left(time.Now(), c.wall(time.Now())) > 0:
		return TriggerRejected
	case it != nil && !it.back.IsZero() && reason == fresh.Soft.String():
		return TriggerClock
	}
	return Trigger(reason)
}
