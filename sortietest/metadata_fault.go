package sortietest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MetadataPlace is a kind of request to a [Metadata]. Places may be joined: OnToken|OnRoles.
type MetadataPlace uint8

// The places.
const (
	OnToken     MetadataPlace = 1 << iota // PUT /latest/api/token
	OnRoles                               // GET …/iam/security-credentials/
	OnCreds                               // GET …/iam/security-credentials/role
	OnContainer                           // the container endpoint
	OnSTS                                 // AssumeRoleWithWebIdentity
	OnAll       = OnToken | OnRoles | OnCreds | OnContainer | OnSTS
)

// String returns the place's name, such as "token", or several joined by '|'.
func (p MetadataPlace) String() string {
	var names []string
	for i, name := range []string{"token", "roles", "creds", "container", "sts"} {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "other"
	}
	return strings.Join(names, "|")
}

// MetadataFault is what goes wrong with a request. Of the fields below Delay the first that is set decides; with none the
// request is answered, after Delay.
type MetadataFault struct {
	Delay      time.Duration // before anything else
	Hang       bool          // no answer, until the fault is restored or the Metadata closed; then as without the fault
	Reset      bool          // the connection is reset
	Status     int           // an answer of this status
	RetryAfter time.Duration // with Status: the header Retry-After, in seconds
	Truncate   bool          // the connection closes in the middle of the answer
}

// metadataRule is a fault with its place and time. Metadata.mu guards it.
type metadataRule struct {
	place    MetadataPlace
	fault    MetadataFault
	left     int // requests that it hits; negative: no limit
	from, to time.Time
	done     chan struct{} // closed when it has been restored
}

// Fail makes the requests of a place fail until restore is called. Of several faults for one request the one that was set
// last wins.
func (m *Metadata) Fail(place MetadataPlace, f MetadataFault) (restore func()) {
	return m.rule(&metadataRule{place: place, fault: f, left: -1})
}

// FailNext makes the next n requests of a place fail.
func (m *Metadata) FailNext(n int, place MetadataPlace, f MetadataFault) {
	m.rule(&metadataRule{place: place, fault: f, left: n})
}

// Outage makes the requests of a place fail for a time that begins after the given duration, counted from now.
func (m *Metadata) Outage(after, length time.Duration, place MetadataPlace, f MetadataFault) {
	from := time.Now().Add(after)
	m.rule(&metadataRule{place: place, fault: f, left: -1, from: from, to: from.Add(length)})
}

func (m *Metadata) rule(r *metadataRule) (restore func()) {
	r.done = make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		close(r.done)
		return func() {}
	}
	m.rules = append(m.rules, r)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.releaseLocked(r)
	}
}

// releaseLocked ends a rule and lets its hung requests go.
func (m *Metadata) releaseLocked(r *metadataRule) {
	for i, other := range m.rules {
		if other == r {
			m.rules = append(m.rules[:i:i], m.rules[i+1:]...)
			close(r.done)
			return
		}
	}
}

func (m *Metadata) releaseAllLocked() {
	for _, r := range m.rules {
		close(r.done)
	}
	m.rules = nil
}

// faultLocked returns the rule that hits a request of place, or nil.
func (m *Metadata) faultLocked(place MetadataPlace, now time.Time) *metadataRule {
	for _, r := range slices.Backward(m.rules) {
		switch {
		case r.place&place == 0 || r.left == 0:
		case !r.from.IsZero() && (now.Before(r.from) || !now.Before(r.to)):
		default:
			if r.left > 0 {
				r.left--
			}
			return r
		}
	}
	return nil
}

// act carries out a fault. It reports whether the request is to be answered all the same.
func (x *metadataExchange) act(r *metadataRule) bool {
	f := r.fault
	if f.Delay > 0 && !sleepUntil(x.r.Context(), time.Now().Add(f.Delay)) {
		return false
	}
	switch {
	case f.Hang:
		select {
		case <-r.done:
			return true
		case <-x.r.Context().Done():
			return false
		}
	case f.Reset:
		x.reset()
		return false
	case f.Status != 0:
		if f.RetryAfter > 0 {
			x.w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
		}
		x.answer(f.Status, "text/plain", http.StatusText(f.Status))
		return false
	case f.Truncate:
		x.truncate = true
	}
	return true
}

// reset resets the connection, or at least closes it.
func (x *metadataExchange) reset() {
	if h, ok := x.w.(http.Hijacker); ok {
		if nc, _, err := h.Hijack(); err == nil {
			resetConn(nc)
			return
		}
	}
	panic(http.ErrAbortHandler)
}
