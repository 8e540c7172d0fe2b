package dnscache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// Family says which addresses are asked for.
type Family uint8

// The families.
const (
	Both Family = iota // A and AAAA
	IPv4               // A only
	IPv6               // AAAA only
)

// String returns "both", "ipv4" or "ipv6".
func (f Family) String() string {
	switch f {
	case Both:
		return "both"
	case IPv4:
		return "ipv4"
	case IPv6:
		return "ipv6"
	}
	return "invalid"
}

// settings are the Resolver's fields with their defaults filled in.
type settings struct {
	mode    Mode
	asked   []family
	servers []string
	system  bool

	minTTL, maxTTL, zeroTTL, defaultTTL         time.Duration
	maxStale, hold, idle, timeout, queryTimeout time.Duration
	jitter                                      float64
	maxNames                                    int

	dialDNS      func(ctx context.Context, network, address string) (net.Conn, error)
	systemLookup func(ctx context.Context, name string) ([]netip.Addr, error)
	routed       func(netip.Addr) bool
	onEvent      func(Event)
	metrics      *metrics.Metrics
}

func (r *Resolver) settings() settings {
	s := settings{
		mode: r.Mode, asked: []family{v4, v6}, system: r.System,
		minTTL: or(r.MinTTL, 5*time.Second), maxTTL: or(r.MaxTTL, 5*time.Minute),
		zeroTTL: or(r.ZeroTTL, time.Second), defaultTTL: or(r.DefaultTTL, 30*time.Second),
		maxStale: max(0, or(r.MaxStale, time.Hour)), hold: max(0, or(r.Hold, 30*time.Second)),
		idle: or(r.IdleExpiry, 5*time.Minute), queryTimeout: or(r.QueryTimeout, time.Second),
		timeout: or(r.LookupTimeout, 5*time.Second), jitter: max(0, or(r.Jitter, 0.1)),
		maxNames: or(r.MaxNames, 4096), dialDNS: r.DialDNS, onEvent: r.OnEvent, metrics: r.Metrics,
	}
	switch r.Family {
	case IPv4:
		s.asked = []family{v4}
	case IPv6:
		s.asked = []family{v6}
	}
	for _, ap := range r.Servers {
		s.servers = append(s.servers, ap.String())
	}
	if len(s.servers) > 0 && s.mode == Auto {
		s.mode = Absolute
	}
	if s.dialDNS == nil {
		s.dialDNS = new(net.Dialer).DialContext
	}
	s.systemLookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		return new(net.Resolver).LookupNetIP(ctx, "ip", name)
	}
	return s
}

// or returns v, or the default where v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// wants reports whether the family is asked for.
func (s *settings) wants(f family) bool { return s.asked[0] == f || len(s.asked) == int(families) }

// Validate reports all mistakes in the fields, joined, each with its field's name. An invalid Resolver answers every
// call with them.
func (r *Resolver) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("dnscache: Resolver."+field+": "+format, args...))
	}
	if r.Mode > Absolute {
		bad("Mode", "unknown mode %d", r.Mode)
	}
	if r.Family > IPv6 {
		bad("Family", "unknown family %d", r.Family)
	}
	for i, s := range r.Servers {
		if !s.IsValid() || s.Port() == 0 {
			bad(fmt.Sprintf("Servers[%d]", i), "%v is no address with a port", s)
		}
	}
	for _, d := range r.durations() {
		if d.value < 0 && !(d.none && d.value == -1) {
			bad(d.field, "%v is negative", d.value)
		}
	}
	s := r.settings()
	if s.minTTL > s.maxTTL {
		bad("MinTTL", "%v is more than MaxTTL, %v", s.minTTL, s.maxTTL)
	}
	if s.hold > time.Hour {
		bad("Hold", "%v is more than an hour: that long a real deletion would be hidden", s.hold)
	}
	if s.queryTimeout > s.timeout {
		bad("QueryTimeout", "%v is more than LookupTimeout, %v, and would have no effect", s.queryTimeout, s.timeout)
	}
	if r.Jitter >= 1 || r.Jitter < 0 && r.Jitter != -1 || r.Jitter != r.Jitter {
		bad("Jitter", "%v is not from 0 to below 1, nor -1 for none", r.Jitter)
	}
	if r.MaxNames < 0 {
		bad("MaxNames", "%d is negative", r.MaxNames)
	}
	if r.System {
		errs = append(errs, r.withoutEffect()...)
	}
	return errors.Join(errs...)
}

// withoutEffect lists the fields that say something about questions which System does not ask.
func (r *Resolver) withoutEffect() (errs []error) {
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"Mode", r.Mode != Auto},
		{"Servers", len(r.Servers) > 0},
		{"DialDNS", r.DialDNS != nil},
		{"QueryTimeout", r.QueryTimeout != 0},
		{"MinTTL", r.MinTTL != 0},
		{"MaxTTL", r.MaxTTL != 0},
		{"ZeroTTL", r.ZeroTTL != 0},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("dnscache: Resolver.%s: has no effect with System", f.field))
		}
	}
	return errs
}

type durationField struct {
	field string
	value time.Duration
	none  bool // -1 is allowed
}

func (r *Resolver) durations() []durationField {
	return []durationField{
		{"MinTTL", r.MinTTL, false}, {"MaxTTL", r.MaxTTL, false},
		{"ZeroTTL", r.ZeroTTL, false}, {"DefaultTTL", r.DefaultTTL, false},
		{"MaxStale", r.MaxStale, true}, {"Hold", r.Hold, true},
		{"IdleExpiry", r.IdleExpiry, false},
		{"QueryTimeout", r.QueryTimeout, false}, {"LookupTimeout", r.LookupTimeout, false},
	}
}
