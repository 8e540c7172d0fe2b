package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// lastWord is how long Shutdown waits, after it has cancelled what still ran, for the calls to notice.
const lastWord = time.Second

// A stopping makes Shutdown and Close one action that several may wait for.
type stopping struct {
	mu    sync.Mutex
	done  chan struct{}      // nil: not begun
	hurry context.CancelFunc // makes the one who waits stop waiting

	// Written before done is closed.
	cut  []string // whose calls had to be cancelled
	left int      // how many ignored that
}

// Drain prepares the end: calls go on, new ones too, since inbound requests in flight still need them, but nothing is
// done ahead any more, such as keeping connections ready. Call it at the first SIGTERM, before the server has shut down,
// and [Client.Shutdown] after it.
func (c *Client) Drain() {
	if c.draining.Swap(true) {
		return
	}
	c.drainEnd.Store(time.Now().Add(c.setup.Load().drainFor).UnixNano())
	for _, up := range c.everyUpstream() {
		up.quiet()
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
	s := &c.stopping
	s.mu.Lock()
	if s.done != nil {
		hurry, done := s.hurry, s.done
		s.mu.Unlock()
		defer context.AfterFunc(ctx, hurry)() // whoever is least patient decides
		<-done
		return s.result(ctx)
	}
	patience, hurry := context.WithCancel(ctx)
	defer hurry()
	s.done, s.hurry = make(chan struct{}), hurry
	s.mu.Unlock()

	nothing := c.refuse()
	for _, up := range c.everyUpstream() {
		if up.limit != nil {
			up.limit.slots.Close()
		}
	}
	select {
	case <-nothing:
	case <-patience.Done():
		s.cut = c.cut(nothing)
	}
	c.closePools()
	s.left = c.calls.finish()
	close(s.done)
	return s.result(ctx)
}

// refuse lets no call begin any more, nor a Reload; one that runs ends first. The channel is closed when no call is open.
func (c *Client) refuse() <-chan struct{} {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	return c.calls.close(ErrDraining)
}

// result is what a caller of Shutdown gets, with the error of its own context where that has ended.
func (s *stopping) result(ctx context.Context) error {
	if len(s.cut) == 0 {
		return nil
	}
	why := ctx.Err()
	if why == nil {
		why = ErrClosed // somebody else was in a hurry
	}
	text := strings.Join(s.cut, "; ")
	if s.left > 0 {
		text += fmt.Sprintf("; %d did not end", s.left)
	}
	return fmt.Errorf("client: shutdown cancelled calls (%s): %w", text, why)
}

// Close is Shutdown without patience: open calls are cancelled. Afterwards calls fail with [ErrClosed]. It returns an error
// only if calls ignored that and are left behind.
func (c *Client) Close() error {
	ctx, cancel := context.WithCancel(context.Background()) // the end of a client belongs to no call
	cancel()
	if err := c.Shutdown(ctx); c.stopping.left > 0 {
		return err
	}
	return nil // that calls were cut is what was asked for
}

// cut cancels the open calls, waits a moment for them, and says whose they were.
func (c *Client) cut(nothing <-chan struct{}) (lines []string) {
	now := time.Now()
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
	return lines
}

// cut ends a call because the client ends.
func (c *call) cut() {
	c.mu.Lock()
	attempts, unread, upgraded := c.attempts, c.delivered && !c.reading, c.delivered && c.status == http.StatusSwitchingProtocols
	c.endWaitLocked(ErrDraining)
	c.mu.Unlock()
	for _, a := range attempts {
		a.stop(ErrDraining)
	}
	switch {
	case unread:
		c.abandon(ReasonDraining, ErrDraining)
	case upgraded:
		c.body.inner.Close() // no context reaches a Read of it
	}
}

// waitForBackground waits for the client's own goroutines. One in which a signer or a Transport of the user's ignores that it
// was cancelled is left behind after a moment, as a call is.
func (c *Client) waitForBackground() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.background.Wait()
	}()
	timer := time.NewTimer(lastWord)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// closePools closes every connection and waits for the pools' goroutines.
func (c *Client) closePools() {
	close(c.closing)
	for _, up := range c.everyUpstream() {
		up.close()
	}
	c.waitForBackground()
	c.group.Close()
	if c.ownResolver {
		c.resolver.Close()
	}
}
