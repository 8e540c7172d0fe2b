package creds_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
)

// A scenario puts a Cache into a state, then looks at what a read gets from a source that takes 100 ms, and at when and
// by which rule the next try is planned. Lives are 15 minutes, windows 5 minutes and 1 minute.
type scenario struct {
	name     string
	state    state
	stable   bool
	fetch    fetch
	want     string // the key, or a word for the error
	wait     time.Duration
	flags    string
	rule     string
	min, max time.Duration // until the next try
	after    string        // what a read gets when the fetch is over; empty: as want
}

type (
	state int
	fetch int
)

const (
	cold state = iota
	valid
	soft
	hard
	expired
	rejected
	rejectedExpired
	backOff // in soft, with failures, then rejected
	wallAhead
	wallBack
	idle // no reads for 10 lives
	closed
	closedExpired
)

const (
	works fetch = iota
	fails
	fatal
	same
)

const (
	lifetime = 15 * time.Minute
	took     = 100 * time.Millisecond
)

// The table of what a read gets, as the specification of this package has it.
var scenarios = []scenario{
	{"cold, ok (S6)", cold, false, works, "K1", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"cold, fails (S8)", cold, false, fails, "fetch error", took, "", "cold", time.Second, 1250 * time.Millisecond, ""},
	{"cold, fatal (S23)", cold, false, fatal, "fatal", took, "", "cold", time.Second, 1250 * time.Millisecond, ""},
	{"valid (S1)", valid, false, fails, "K1", 0, "", "ahead", 5 * time.Minute, 5 * time.Minute, ""},
	{"soft, ok (S2)", soft, false, works, "K1", 0, "", "ahead", 10 * time.Minute, 10 * time.Minute, "K2"},
	{"soft, fails (S3)", soft, false, fails, "K1", 0, "", "retry", 500 * time.Millisecond, time.Second, ""},
	{"soft, fatal (S16)", soft, false, fatal, "K1", 0, "", "fatal", 30 * time.Second, 30 * time.Second, ""},
	{"soft, same", soft, false, same, "K1", 0, "", "unchanged", time.Minute, time.Minute, ""},
	{"hard, ok (S4)", hard, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"hard, fails (S5)", hard, false, fails, "K1", took, "", "retry", 500 * time.Millisecond, time.Second, ""},
	{"hard, fatal (S17)", hard, false, fatal, "K1", took, "", "fatal", 7 * time.Second, 7500 * time.Millisecond, ""},
	{"hard, same", hard, false, same, "K1", took, "", "unchanged", 7 * time.Second, 7500 * time.Millisecond, ""},
	{"expired, ok (S6)", expired, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"expired, fails (S7)", expired, false, fails, "expired error", took, "", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"expired, same (S9)", expired, false, same, "expired error", took, "", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"expired, fatal (S17)", expired, false, fatal, "fatal", took, "", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"expired, stable, ok", expired, true, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"expired, stable, fails (S7)", expired, true, fails, "K1", took, "stale", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"expired, stable, fatal", expired, true, fatal, "fatal", took, "", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"rejected, ok (S18)", rejected, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"rejected, fails (S19)", rejected, false, fails, "K1", took, "rejected", "retry", time.Second, time.Second, ""},
	{"rejected, same", rejected, false, same, "K1", took, "rejected", "unchanged", time.Minute, time.Minute, ""},
	{"rejected, fatal", rejected, false, fatal, "K1", took, "rejected", "fatal", 30 * time.Second, 30 * time.Second, ""},
	{"rejected, expired, ok", rejectedExpired, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"rejected, expired, fails", rejectedExpired, false, fails, "expired error", took, "rejected", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"rejected, expired, stable, fails", rejectedExpired, true, fails, "expired error", took, "rejected", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"rejected, expired, fatal", rejectedExpired, false, fatal, "fatal", took, "rejected", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"back-off, rejected, ok (S20)", backOff, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"back-off, rejected, fails (S20)", backOff, false, fails, "K1", took, "rejected", "retry", 8 * time.Second, time.Minute, ""},
	{"wall clock ahead, ok", wallAhead, false, works, "K2", took, "", "ahead", 10 * time.Minute, 10 * time.Minute, ""},
	{"wall clock ahead, fails", wallAhead, false, fails, "expired error", took, "", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"wall clock ahead, stable, fails", wallAhead, true, fails, "K1", took, "stale", "expired", 2500 * time.Millisecond, 5 * time.Second, ""},
	{"wall clock back, ok", wallBack, false, works, "K1", 0, "", "ahead", 10 * time.Minute, 25 * time.Minute, "K2"},
	{"wall clock back, fails", wallBack, false, fails, "K1", 0, "", "retry", 500 * time.Millisecond, time.Second, ""},
	{"no reads for 10 lives", idle, false, works, "K15", 0, "", "ahead", 0, 10 * time.Minute, ""},
	{"closed", closed, false, works, "K1", 0, "", "ahead", 0, 10 * time.Minute, ""},
	{"closed, expired", closedExpired, true, works, "expired error", 0, "", "ahead", -time.Hour, 0, ""},
}

func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			src := &source{life: lifetime, took: took}
			cfg := creds.Config{Soft: 5 * time.Minute, Jitter: -1}
			if sc.stable {
				cfg.StaticStability = creds.On
			}
			switch sc.state {
			case soft, hard, expired, rejectedExpired:
				// No timer refreshes: the read finds the state as it is, and no back-off.
				cfg.IdleAfter = time.Minute
			}
			story(t, src, cfg, func(t *testing.T, c *creds.Cache) { sc.play(t, src, c) })
		})
	}
}

// play tells one scenario, in a bubble.
func (sc *scenario) play(t *testing.T, src *source, c *creds.Cache) {
	sc.reach(t, src, c)
	k, wait, err := tryRead(t, c)
	if got := outcomeOf(k, err); got != sc.want || wait != sc.wait {
		t.Errorf("read %s after %v, want %s after %v (%v)", got, wait, sc.want, sc.wait, err)
	}
	time.Sleep(took - wait)
	synctest.Wait() // a fetch behind the read is over
	s := c.Stats()
	if next := time.Until(s.Next); s.Rule != sc.rule || next < sc.min-2*took || next > sc.max {
		t.Errorf("next try in %v by rule %q, want %v to %v by %q", next, s.Rule, sc.min, sc.max, sc.rule)
	}
	if got := flagsOf(c); got != sc.flags {
		t.Errorf("flags %q, want %q", got, sc.flags)
	}
	k, wait, err = tryRead(t, c)
	if got := outcomeOf(k, err); got != sc.want && got != sc.after || wait != 0 {
		t.Errorf("the next read %s after %v, want the same at once", got, wait)
	}
}

// reach puts the Cache into the scenario's state, in a bubble, with the source as it is to be from then on.
func (sc *scenario) reach(t *testing.T, src *source, c *creds.Cache) {
	start := time.Now()
	until := func(d time.Duration) { time.Sleep(time.Until(start.Add(took + d))) }
	set := func(f fetch) { src.change(func(s *source) { s.answer = f.answer(s) }) }
	if sc.state != cold {
		read(t, c)
	}
	switch sc.state {
	case cold:
		set(sc.fetch)
	case valid, closed:
		set(sc.fetch)
		until(5 * time.Minute)
	case soft:
		until(10 * time.Minute)
		set(sc.fetch)
	case hard:
		until(14*time.Minute + 30*time.Second)
		set(sc.fetch)
	case expired:
		until(16 * time.Minute)
		set(sc.fetch)
	case rejected:
		until(5 * time.Minute)
		set(sc.fetch)
		c.InvalidateIf("K1", "test")
	case rejectedExpired:
		until(5 * time.Minute)
		set(fails)
		c.InvalidateIf("K1", "test")
		until(16 * time.Minute)
		set(sc.fetch)
	case backOff:
		set(fails)
		until(10*time.Minute + 30*time.Second)
		set(sc.fetch)
		c.InvalidateIf("K1", "test")
	case wallAhead:
		until(5 * time.Minute)
		set(sc.fetch)
		src.setLife(lifetime + 20*time.Minute)
		c.StepWall(20 * time.Minute)
	case wallBack:
		until(5 * time.Minute)
		set(sc.fetch)
		src.setLife(lifetime - 20*time.Minute)
		c.StepWall(-20 * time.Minute)
	case idle:
		until(10 * lifetime)
	}
	switch sc.state {
	case closed:
		c.Close()
	case closedExpired:
		c.Close()
		until(16 * time.Minute)
	}
}

func (f fetch) answer(s *source) func(context.Context, int) (aws.Credentials, error) {
	return func(context.Context, int) (aws.Credentials, error) {
		switch f {
		case fails:
			return aws.Credentials{}, errSource
		case fatal:
			return aws.Credentials{}, refused{}
		case same:
			k, _ := s.again()
			return k, nil
		}
		return s.fresh(), nil
	}
}

func outcomeOf(k string, err error) string {
	if err == nil {
		return k
	}
	if _, ok := errors.AsType[*creds.ExpiredError](err); ok {
		return "expired error"
	}
	if _, ok := errors.AsType[*creds.FetchError](err); ok {
		return "fetch error"
	}
	if err == (refused{}) {
		return "fatal"
	}
	return err.Error()
}

func flagsOf(c *creds.Cache) string {
	s := c.Peek()
	switch {
	case s == nil:
		return ""
	case s.Rejected && s.Stale:
		return "rejected stale"
	case s.Rejected:
		return "rejected"
	case s.Stale:
		return "stale"
	}
	return ""
}
