package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// lastWord is how long Shutdown waits, after it has cancelled what still ran, for the calls to notice.
const lastWord = time.Second

// stopOnce makes Shutdown and Close one action that several may wait for.
type stopOnce struct {
	mu     sync.Mutex
	begun  bool
	hurry  context.CancelFunc // makes the one who waits stop waiting
	done   chan struct{}
	result error
}

// Drain prepares the end: calls go on, new ones too, since inbound requests in flight still need them, but nothing is
// done ahead any more, such as keeping connections ready. Call it at the first SIGTERM, before the server has shut down,
// and [Client.Shutdown] after it.
func (c *Client) Drain() {
	if c.draining.Swap(true) {
		return
	}
	c.drainEnd.Store(time.Now().Add(c.drainFor).UnixNano())
	for _, up := range c.everyUpstream() {
		for _, ep := range up.endpoints() {
			_ = ep
		}
	}
}

// drainDeadline is when everything should have ended, once the client drains.
func (c *Client) drainDeadline() (time.Time, bool) {
	end := c.drainEnd.Load()
	return time.Unix(0, end), end != 0
}

// fitsDrain reports whether something that would end at t is still worth beginning.
func (c *Client) fitsDrain(t time.Time) bool {
	end, draining := c.drainDeadline()
	return !draining || t.Before(end)
}

// Shutdown ends the client. New calls fail with [ErrDraining]; open ones may end, bodies included, until ctx ends. Then
// the rest is cancelled, with the cause ErrDraining, and Shutdown returns an error that names each upstream's open calls
// and wraps the context's error. When it returns, connections are closed and no goroutine of the client is left; only a
// call that ignores its cancellation for a second is left behind.
//
// Calling it again is safe: every caller waits for the same end and gets the same result.
func (c *Client) Shutdown(ctx context.Context) error {
	c.Drain()
	c.stop.mu.Lock()
	if c.stop.begun {
		hurry, done := c.stop.hurry, c.stop.done
		c.stop.mu.Unlock()
		defer context.AfterFunc(ctx, hurry)() // whoever is least patient decides
		<-done
		return c.stop.result
	}
	patience, hurry := context.WithCancel(ctx)
	defer hurry()
	c.stop.begun, c.stop.hurry, c.stop.done = true, hurry, make(chan struct{})
	c.stop.mu.Unlock()

	nothing := c.calls.close(ErrDraining)
	for _, up := range c.everyUpstream() {
		if up.limit != nil {
			up.limit.slots.Close()
		}
	}
	select {
	case <-nothing:
	case <-patience.Done():
		c.stop.result = c.cut(nothing, orCause(ctx))
	}
	c.closePools()
	c.calls.close(ErrClosed)
	close(c.stop.done)
	return c.stop.result
}

// Close is Shutdown without patience: open calls are cancelled. Afterwards calls fail with [ErrClosed].
func (c *Client) Close() error {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the end of a client belongs to no call
	cancel()
	err := c.Shutdown(ctx)
	if errors.Is(err, context.Canceled) {
		return nil // that calls were cut is what was asked for
	}
	return err
}

// orCause is the context's error, or that of an impatient second caller.
func orCause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

// cut cancels the open calls, waits a moment for them, and says whose they were.
func (c *Client) cut(nothing <-chan struct{}, why error) error {
	now := time.Now()
	var lines []string
	for _, up := range c.everyUpstream() {
		if open, oldest := c.calls.state(up, now); open > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d open, oldest %v", up.name, open, roundForPeople(oldest)))
		}
		for _, call := range c.calls.of(up) {
			call.cut()
		}
	}
	timer := time.NewTimer(lastWord)
	defer timer.Stop()
	select {
	case <-nothing:
	case <-timer.C:
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("client: shutdown cancelled calls (%s): %w", strings.Join(lines, "; "), why)
}

// cut ends a call because the client ends.
func (c *call) cut() {
	c.mu.Lock()
	last, unread := c.last(), c.status != 0 && !c.reading
	c.endWaitLocked(ErrDraining)
	c.mu.Unlock()
	if last != nil {
		last.cancel(ErrDraining)
	}
	if unread {
		c.abandon(ReasonDraining, ErrDraining)
	}
}

// closePools closes every connection and waits for the pools' goroutines.
func (c *Client) closePools() {
	for _, up := range c.everyUpstream() {
		up.close()
	}
	c.retired.Wait()
	c.group.Close()
	if c.ownResolver {
		c.resolver.Close()
	}
}
