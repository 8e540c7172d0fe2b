package client

import (
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/pool"
)

// Stats is a picture of a client at one moment. Its parts are read one after another, so they may differ by the calls
// that began or ended meanwhile.
type Stats struct {
	Side      Side
	SideFrom  string // what decided it: "Config.Side", a variable's name, or "default"
	Draining  bool
	Upstreams []UpstreamStats // as configured, then "_unlisted" unless Config.Strict, then those that a Reload has removed
	Ports     []PortStats     // by destination, the fullest first
}

// UpstreamStats is one upstream's part of [Stats].
type UpstreamStats struct {
	Name      string
	Removed   bool              // by a Reload: it gets no new calls, and disappears when the last one has ended
	Open      int               // calls that have not ended
	Oldest    time.Duration     // age of the oldest of them
	Ended     map[Reason]uint64 // calls that have, by reason
	Endpoints []EndpointStats

	// PortUtilization is the part of its port budget that the fullest of its destinations holds; 0 if none has a budget.
	PortUtilization float64
}

// EndpointStats is one endpoint's part of [UpstreamStats].
type EndpointStats struct {
	Base string // scheme and host
	Tier Side   // AutoSide if the upstream has no base URLs
	Addr string // the address, where the endpoint is one of several of a name; else empty

	// State is that of its breaker, "closed", "half_open" or "open"; before those comes "ejected", and before that "draining":
	// it gets no new attempt, since a Reload has removed or renewed it, or DNS lists its address no more; or "reserve": its
	// address is of the other family, IPv4 or IPv6, than those that are used.
	State    string
	For      time.Duration // ejected or open: how long nothing will be sent there
	Attempts int           // running, bodies included
	Cost     time.Duration // what Balance reckons with: a peak average of the time to headers; 0: nothing known
	Suspect  bool          // it has failed twice in a row or more: others are preferred

	ConnStats
}

// Stats returns what the client is doing now.
func (c *Client) Stats() Stats {
	s := Stats{Side: c.side, SideFrom: c.sideFrom, Draining: c.draining.Load()}
	now := time.Now()
	for _, up := range c.everyUpstream() {
		s.Upstreams = append(s.Upstreams, c.upstreamStats(up, now))
	}
	s.Ports = c.portStats()
	return s
}

func (c *Client) upstreamStats(up *upstream, now time.Time) UpstreamStats {
	u := UpstreamStats{Name: up.name, Ended: make(map[Reason]uint64), Removed: c.removed.has(up)}
	u.Open, u.Oldest = c.calls.state(up, now)
	for r := range numReasons {
		if n := up.calls.ended[r].Load(); n > 0 {
			u.Ended[r] = n
		}
	}
	for _, cl := range up.places.Load().clusters() {
		seats := cl.seatStats(now)
		for _, ep := range cl.endpoints() {
			u.Endpoints = append(u.Endpoints, ep.stats(seats[ep.seat], ep.origin.roleOf(ep), now))
		}
	}
	for _, ep := range up.retired.list() {
		if ep.attempts.any() {
			u.Endpoints = append(u.Endpoints, ep.stats(balance.EndpointStats{}, draining, now))
		}
	}
	u.PortUtilization, _ = up.portUtilization()
	return u
}

// seatStats is what the balancer knows of each endpoint that gets attempts.
func (cl *cluster) seatStats(now time.Time) map[*balance.Endpoint]balance.EndpointStats {
	seats := make(map[*balance.Endpoint]balance.EndpointStats)
	for _, s := range cl.balancer.Stats(now).Endpoints {
		seats[s.Endpoint] = s
	}
	return seats
}

func (ep *endpoint) stats(seat balance.EndpointStats, role role, now time.Time) EndpointStats {
	s := EndpointStats{
		Base: ep.name, Tier: ep.tier, State: ep.gate.state(), For: ep.gate.next(now), Attempts: int(ep.attempts.running.Load()),
		Cost: seat.Cost, Suspect: seat.Suspect > 0, ConnStats: ep.connStats(),
	}
	if ep.address != nil {
		s.Addr = ep.address.addr.String()
	}
	switch {
	case role != serving:
		s.State, s.For = string(role), 0
	case seat.Ejected > 0:
		s.State, s.For = "ejected", max(s.For, seat.Ejected)
	}
	return s
}

// ConnStats describes the connections of one endpoint. It is all zero where Upstream.Transport is set.
type ConnStats struct {
	Open, Active, Idle, Dialing, Waiting int // connections; Waiting: calls that wait for one

	Created   uint64            // connections made
	Failed    uint64            // dials that failed
	NoPort    uint64            // dials that were not made for want of a port; not in Failed
	Closed    map[string]uint64 // connections closed, by reason, such as "idle_timeout"
	New       uint64            // attempts that got a new connection
	Reused    uint64            // attempts that got one that had been used before
	Resent    uint64            // requests sent again because their connection was stale
	Waits     uint64            // attempts that had to wait
	WaitTotal time.Duration
	IdleLimit time.Duration // in force: the configured one, or less, as the server hinted or as it behaved
	Proto     string        // "HTTP/1.1" or "HTTP/2.0"; "" before the first connection
	OldestAge time.Duration
}

func (ep *endpoint) connStats() ConnStats {
	if ep.pool == nil {
		return ConnStats{}
	}
	p := ep.pool.Stats()
	s := ConnStats{
		Open: p.Open, Active: p.Active, Idle: p.Idle, Dialing: p.Dialing, Waiting: p.Waiting,
		Created: p.Created, NoPort: p.Dials.NoPort, Closed: make(map[string]uint64),
		New: p.AcquiredNew, Reused: p.AcquiredReused,
		Waits: p.Waits.Count, WaitTotal: p.Waits.Total,
		IdleLimit: p.IdleLimit, Proto: p.Proto, OldestAge: p.OldestAge,
	}
	for _, n := range p.Dials.Failed {
		s.Failed += n
	}
	for reason, n := range p.Closed {
		if n > 0 {
			s.Closed[pool.Reason(reason).String()] = n
		}
	}
	for _, n := range p.Resends {
		s.Resent += n
	}
	return s
}
