package client

import (
	"strconv"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// errNoTime is why an attempt is not sent: the upstream could not even read the request in the time left.
const errNoTime = timeoutCause("less than 1 ms is left, so the attempt was not sent")

// advertise returns the hook that tells the upstream how much time is left, when the connection is in hand; nil if there is
// nothing to tell.
func (a *attempt) advertise() func(pool.Info) error {
	if a.call.up.deadlineHeader() == "" {
		return nil
	}
	return func(pool.Info) error { return a.setDeadlineHeader(time.Now()) }
}

func (up *upstream) deadlineHeader() string {
	if up.name == unlistedName {
		return ""
	}
	return up.timeout.DeadlineHeader
}

// setDeadlineHeader writes the header, or says that there is no time left.
func (a *attempt) setDeadlineHeader(now time.Time) error {
	end, limited := a.deadline()
	if !limited {
		return nil
	}
	left := end.Sub(now)
	if left < time.Millisecond {
		return errNoTime
	}
	name := a.call.up.deadlineHeader()
	value := strconv.FormatInt(left.Milliseconds(), 10)
	if name == "Grpc-Timeout" {
		value = grpcTimeout(left)
	}
	a.request.Header[name] = []string{value}
	return nil
}

// deadline is when the attempt ends: its own limit, the call's or the caller's.
func (a *attempt) deadline() (time.Time, bool) {
	c := a.call
	c.mu.Lock()
	defer c.mu.Unlock()
	end, limited := c.deadline()
	if c.limits.perAttempt > 0 {
		own := c.start.Add(a.start + c.limits.perAttempt)
		if !limited || own.Before(end) {
			return own, true
		}
	}
	return end, limited
}

// grpcTimeout writes a time as gRPC does: at most eight digits and a unit, the finest that fits.
func grpcTimeout(d time.Duration) string {
	const most = 99_999_999
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{time.Nanosecond, "n"}, {time.Microsecond, "u"}, {time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}} {
		if n := int64(d / u.unit); n <= most {
			return strconv.FormatInt(n, 10) + u.name
		}
	}
	return strconv.FormatInt(min(int64(d/time.Hour), most), 10) + "H"
}
