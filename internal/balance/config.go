package balance

import (
	"cmp"
	"time"
)

// Picker is the way in which an endpoint is chosen among those that may be used.
type Picker uint8

const (
	PeakEWMA         Picker = iota // of two drawn at random the one with the lesser cost, times what is pending there
	LeastConnections               // the fewest pending, ties at random
	RoundRobin                     // in turn
	Rendezvous                     // by Query.Key, so that each key keeps its endpoint; without a key as PeakEWMA
	InOrder                        // the first
)

// String returns the picker's name in lower case, such as "peak_ewma".
func (p Picker) String() string {
	return [...]string{"peak_ewma", "least_connections", "round_robin", "rendezvous", "in_order"}[p]
}

// Config holds the settings of a balancer.
type Config struct {
	Picker      Picker
	Decay       time.Duration // time constant with which a cost is forgotten; 0 is 10 s
	SlowStart   time.Duration // time until a newcomer has its full share; 0 is at once
	SpillFactor float64       // how many times its share an available endpoint of a tier can bear; 0: no spill
	Eject       *Eject        // nil: nobody is ejected. It is only read

	// OnEject is told of every ejection, in order, one at a time, outside all locks, by a goroutine that is in Observe. It
	// may call any method but Close. May be nil. Configure does not change it.
	OnEject func(Ejection)
}

// Eject says when an endpoint is left out for a while. All fields must be set, but for those that say otherwise.
type Eject struct {
	Connect     int           // failed dials in a row; 0 is no such rule
	Consecutive int           // failures in a row; 0 is no such rule
	Margin      float64       // share of failures above the median of the tier, in one Interval; 0 is no such rule
	Volume      int           // outcomes in that Interval below which Margin says nothing
	Interval    time.Duration // of Margin
	Base        time.Duration // length of the first ejection, times the number of it, and up to a fifth more
	MaxTime     time.Duration // bound of that product
	MaxPercent  int           // of a tier that may be ejected; one always may, the last never
	Panic       int           // percentage of a tier that must be available, else ejection is ignored; 0 is never
	Shadow      bool          // a dry run: nobody is left out
}

func (c Config) withDefaults() Config {
	c.Decay = cmp.Or(c.Decay, 10*time.Second)
	return c
}

// ejects reports whether ejection is carried out.
func (c *Config) ejects() bool { return c.Eject != nil && !c.Eject.Shadow }
