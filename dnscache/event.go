package dnscache

import (
	"fmt"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	EventRefreshFailed EventKind = iota // a question of one family failed; what is held stays
	EventStaleServed                    // a stale address was given out, the first since the last good answer
	EventHoldBegan                      // DNS denies a name whose addresses are kept for now
	EventHoldEnded                      // it has addresses again, or they are given up
	EventFamilyLost                     // a family failed so often that it is asked only every 5 min
	EventFamilyBack                     // and answers again
	EventConfigChanged                  // resolv.conf or hosts is another, or NetworkChanged was called
	EventClockStep                      // the machine slept, or the wall clock was set forward
)

// String returns the kind's name, such as "refresh_failed".
func (k EventKind) String() string {
	switch k {
	case EventRefreshFailed:
		return "refresh_failed"
	case EventStaleServed:
		return "stale_served"
	case EventHoldBegan:
		return "hold_began"
	case EventHoldEnded:
		return "hold_ended"
	case EventFamilyLost:
		return "family_lost"
	case EventFamilyBack:
		return "family_back"
	case EventConfigChanged:
		return "config_changed"
	case EventClockStep:
		return "clock_step"
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is something an operator wants to know of; see [Resolver.OnEvent].
type Event struct {
	Kind   EventKind
	Time   time.Time
	Name   string        // "" where it concerns all
	Family Family        // the one concerned, or Both
	Err    error         // why, if there is a reason
	Step   time.Duration // of a clock step
}

// maxEvents is how many events wait for OnEvent before the oldest are dropped.
const maxEvents = 256

func (c *core) event(e Event) {
	if c.events != nil {
		c.events.add(e)
	}
}
