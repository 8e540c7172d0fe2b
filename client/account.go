package client

import (
	"iter"
	"strings"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// Account is the time account of a call or an attempt: how long it was in each [metrics.Phase]. The zero value is empty.
// It is a plain value; copies are independent.
//
// The account of a call is a partition of its wall time: the phases add up to Report.Duration. A phase that did not
// happen is absent, which is not the same as zero: a call over a connection that was open already has no tls phase at
// all, and one whose handshake was answered from memory has one of 0 s (go-resty/resty#396 took one for the other).
type Account struct {
	times    [metrics.NumPhases]time.Duration
	happened uint16 // a bit per phase
}

// Get returns the time spent in phase p, and whether the phase happened at all.
func (a Account) Get(p metrics.Phase) (time.Duration, bool) {
	if p >= metrics.NumPhases {
		return 0, false
	}
	return a.times[p], a.happened&(1<<p) != 0
}

// All yields the phases that happened, in the order of [metrics.Phase], with their times.
func (a Account) All() iter.Seq2[metrics.Phase, time.Duration] {
	return func(yield func(metrics.Phase, time.Duration) bool) {
		for p := range metrics.NumPhases {
			if a.happened&(1<<p) != 0 && !yield(p, a.times[p]) {
				return
			}
		}
	}
}

// Sum returns the total over all phases.
func (a Account) Sum() time.Duration {
	var sum time.Duration
	for _, d := range a.times {
		sum += d
	}
	return sum
}

// String returns the phases that happened in one line, such as "acquire 1.2ms, server 3.4ms, body 80µs".
func (a Account) String() string {
	var b strings.Builder
	for p, d := range a.All() {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.String())
		b.WriteByte(' ')
		b.WriteString(roundForPeople(d).String())
	}
	return b.String()
}

// add books d to phase p. A negative d, from two clocks read in the wrong order, counts as zero.
func (a *Account) add(p metrics.Phase, d time.Duration) {
	a.happened |= 1 << p
	a.times[p] += max(d, 0)
}

// roundForPeople keeps about three digits: nobody reads the nanoseconds of a second.
func roundForPeople(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(10 * time.Nanosecond)
	}
}

// A stopwatch books wall time to one phase after another: each instant goes to exactly one. Its times are those since the
// call began.
type stopwatch struct {
	account Account
	last    time.Duration // up to here everything is booked
}

// book gives the time since the last booking to p.
func (w *stopwatch) book(p metrics.Phase, now time.Duration) {
	w.account.add(p, now-w.last)
	w.last = now
}

// rest gives the time since the last booking to "other", unless there is none: the remainder is shown, never spread.
func (w *stopwatch) rest(now time.Duration) {
	if now > w.last {
		w.book(metrics.PhaseOther, now)
	}
}
