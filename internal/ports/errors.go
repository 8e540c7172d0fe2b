package ports

import (
	"fmt"
	"net/netip"
	"time"
)

// Error is a connect that was not made for want of a port.
type Error struct {
	Dest       netip.AddrPort
	Held       int           // ports
	Budget     int           // ports there are; 0 = not known
	RetryAfter time.Duration // until one is free; 0 = nobody knows, as none of those held is about to cool
	Cooling    bool          // ports of this client are about to come free: waiting can help
	Preset     string        // of the rule that refused
	Cause      error         // the kernel's word; nil = the rule's
}

func (e *Error) Error() string {
	when := "none of them will come free by itself"
	if e.RetryAfter > 0 {
		when = fmt.Sprintf("the next is free in %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Cause != nil {
		return fmt.Sprintf("no local port to %v (%d of %d held): %v", e.Dest, e.Held, e.Budget, e.Cause)
	}
	return fmt.Sprintf("port budget to %v used up: %d of %d held (%s), %s", e.Dest, e.Held, e.Budget, e.Preset, when)
}

// Unwrap returns the kernel's word.
func (e *Error) Unwrap() error { return e.Cause }

// Warning says that the ports to a destination run short.
type Warning struct {
	Dest     netip.AddrPort
	Held     int
	Budget   int
	Preset   string
	Forecast Forecast
	Refused  bool // the connect it came with was refused
}

// Forecast is what comes of the present rate.
type Forecast struct {
	Steady  float64       // ports held in the end
	Left    time.Duration // until the rule refuses; 0 = it does now
	Growing bool          // false: it will not come to that, and Left says nothing
}
