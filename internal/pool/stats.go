package pool

import "time"

// Resend is the rule by which a request was sent again on another connection.
type Resend uint8

const (
	ResendReserve    Resend = iota // the connection was gone before it was used; not a send
	ResendUnwritten                // nothing of the request had been written
	ResendRefused                  // HTTP/2: the server says that it did not process it
	ResendIdempotent               // bytes were written, and the request may be repeated
	numResends
)

func (r Resend) String() string {
	return [numResends]string{"reserve", "unwritten", "refused", "idempotent"}[r]
}

// LimitFrom is where the idle limit in force comes from.
type LimitFrom uint8

const (
	LimitConfigured LimitFrom = iota // Config.IdleTimeout
	LimitKeepAlive                   // the server's Keep-Alive: timeout=N
	LimitLearnt                      // the server was seen closing idle connections
)

func (f LimitFrom) String() string { return [...]string{"configured", "keep_alive", "learnt"}[f] }

// Stats is a consistent picture of one pool, siblings included: Created = Open + sum of Closed, always.
type Stats struct {
	Open, Active, Idle, Retiring int // connections; Open = Active + Idle + Retiring
	Dialing, Waiting             int // dials running, callers waiting
	Streams                      int // requests in flight on Active and Retiring ones

	Created uint64             // dials that brought a connection
	Closed  [numReasons]uint64 // by Reason
	Dials   struct {
		OK     uint64
		Failed [4]uint64 // by StepName
		NoPort uint64    // not made, or made in vain, for want of a port; in Failed they are not
	}
	AcquiredNew, AcquiredReused uint64             // requests by the state of the connection they got
	Resends                     [numResends]uint64 // by rule
	NeverUsed                   uint64             // closed without having carried a request

	Waits struct {
		Count          uint64 // requests that had to wait
		Total, Longest time.Duration
	}

	IdleLimit  time.Duration // in force
	LimitFrom  LimitFrom
	Proto      string        // "HTTP/1.1", "HTTP/2.0"; "" while unknown
	OldestAge  time.Duration // of the open connections
	EventsLost uint64        // events dropped because OnEvent did not return
}

// counters are what Stats adds up. They are guarded by the pool's lock.
type counters struct {
	created       uint64
	closed        [numReasons]uint64
	dialsFailed   [4]uint64
	portless      uint64
	fresh, reused uint64 // acquired
	resends       [numResends]uint64
	neverUsed     uint64
	waits         uint64
	waitTotal     time.Duration
	waitLongest   time.Duration
}

func (n *counters) acquired(reused bool) { *n.acquiredBy(reused)++ }

func (n *counters) unacquired(reused bool) { *n.acquiredBy(reused)-- }

func (n *counters) acquiredBy(reused bool) *uint64 {
	if reused {
		return &n.reused
	}
	return &n.fresh
}

func (n *counters) waited(took time.Duration) {
	n.waits++
	n.waitTotal += took
	n.waitLongest = max(n.waitLongest, took)
}

// Stats returns the state and the counters of the pool, of one moment, with those of its sibling added.
func (p *Pool) Stats() Stats {
	now := time.Now()
	p.mu.Lock()
	st := p.statsLocked(now)
	h1 := p.h1
	p.mu.Unlock()
	if h1 != nil {
		st.add(h1.Stats())
	}
	st.EventsLost = p.events.lostCount()
	return st
}

func (p *Pool) statsLocked(now time.Time) Stats {
	n := &p.count
	st := Stats{
		Open: len(p.conns), Dialing: p.gate.dials, Waiting: p.waiters.len,
		Created: n.created, Closed: n.closed, AcquiredNew: n.fresh, AcquiredReused: n.reused,
		Resends: n.resends, NeverUsed: n.neverUsed, Proto: p.gate.proto,
	}
	st.Dials.OK, st.Dials.Failed, st.Dials.NoPort = n.created, n.dialsFailed, n.portless
	st.Waits.Count, st.Waits.Total, st.Waits.Longest = n.waits, n.waitTotal, n.waitLongest
	st.IdleLimit, st.LimitFrom = p.limit.inForce(p.cfg.IdleTimeout, now)
	for _, c := range p.conns {
		st.Streams += c.streams
		st.OldestAge = max(st.OldestAge, now.Sub(c.born))
		switch {
		case c.state == stateRetiring:
			st.Retiring++
		case c.streams == 0:
			st.Idle++
		default:
			st.Active++
		}
	}
	return st
}

func (st *Stats) add(o Stats) {
	st.Open += o.Open
	st.Active += o.Active
	st.Idle += o.Idle
	st.Retiring += o.Retiring
	st.Dialing += o.Dialing
	st.Waiting += o.Waiting
	st.Streams += o.Streams
	st.Created += o.Created
	st.AcquiredNew += o.AcquiredNew
	st.AcquiredReused += o.AcquiredReused
	st.NeverUsed += o.NeverUsed
	st.Dials.OK += o.Dials.OK
	st.Dials.NoPort += o.Dials.NoPort
	st.Waits.Count += o.Waits.Count
	st.Waits.Total += o.Waits.Total
	st.Waits.Longest = max(st.Waits.Longest, o.Waits.Longest)
	st.OldestAge = max(st.OldestAge, o.OldestAge)
	for i := range st.Closed {
		st.Closed[i] += o.Closed[i]
	}
	for i := range st.Dials.Failed {
		st.Dials.Failed[i] += o.Dials.Failed[i]
	}
	for i := range st.Resends {
		st.Resends[i] += o.Resends[i]
	}
}
