package breaker

import (
	"cmp"
	"time"
)

// Config holds the settings of a breaker.
type Config struct {
	Consecutive int           // failures in a row that open it; 0 is no such rule
	Ratio       float64       // share of failures that opens it, of at least Volume results; 0 is no such rule
	Volume      int           // results below which Ratio says nothing
	Window      time.Duration // over which Ratio is taken; 0 is 10 s
	Open        time.Duration // how long it stays open, give or take a fifth; 0 is 5 s
	Probes      int           // attempts admitted half-open, all of which must succeed to close it; 0 is 1
	Overdue     time.Duration // after which a probe that nobody has reported is taken for neutral; 0 is 30 s

	// Shadow makes it a dry run: every attempt is admitted, and those that would not have been go unreported, so that the
	// states move as they would have.
	Shadow bool

	// OnChange is told of every change of state, in order, one at a time, outside all locks, by a goroutine that is in
	// Admit, Report or State. It may call any method but Close. May be nil.
	OnChange func(Change)
}

func (c Config) withDefaults() Config {
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Open = cmp.Or(c.Open, 5*time.Second)
	c.Probes = cmp.Or(c.Probes, 1)
	c.Overdue = cmp.Or(c.Overdue, 30*time.Second)
	return c
}

// State is what a breaker does with attempts.
type State uint8

const (
	Closed   State = iota // admits all
	HalfOpen              // admits probes
	Open                  // admits none
)

// String returns the state's name as metrics have it, such as "half_open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	}
	return "open"
}

// Change is a change of state.
type Change struct {
	From, To State
	At       time.Time
}
