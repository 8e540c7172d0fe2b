package client

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// Ports says how many local ports there are to each destination, an IP address and port, so that they are not used up: a NAT that
// has none left drops the connection attempt and says nothing. It is a field of [Conns]. The zero value is the nil one: what Linux
// allows, or, on other systems, no limit.
//
// What Linux allows is only warned of, unless Preset is [LinuxPorts] or Admit is set: the kernel knows best what it holds, and when
// it has no port a call waits for one as it does at Admit. A NAT does not say so, hence its budget has to be kept here.
//
// Ports are counted per destination for the whole client, since two names behind one address share them: connections being made,
// open ones, and closed ones as long as their port is kept. From Warn on a line is logged, once a minute and destination, and
// connections are kept for up to twice their age limit. From Admit on no connection is made: calls wait for one that is open to
// come back, or for a port to be free, within their time; a call for which neither can be in time fails at once with [ErrPortBudget]
// and a [*PortError]. Where several upstreams reach one destination with different settings, all of them hold, and the tightest
// speaks. Connections of an [Upstream.Transport] are not counted.
//
// The presets of NATs are about public IPv4 destinations; on Linux the kernel's limits stand beside them, for all. They are figures
// of the providers at a date, which [Stats] shows; providers change them. Where your gateway is set differently, say so in Ports
// and Hold.
//
// The ledger costs a connection about 100 ns, over its whole life, and a call nothing; a destination takes 0.9 KiB, and there are at most 1,024 at a
// time (BenchmarkConnection and BenchmarkMemory of internal/ports, Go 1.26.8 on linux/amd64). Those beyond are counted together
// and not limited.
type Ports struct {
	Preset PortPreset // default: see above; with Ports, a NAT of your own

	Ports int           // ports to one destination. Default: the preset's
	Hold  time.Duration // how long the port of a closed connection is kept. Default: the preset's; 60 s without one

	// Share is how many processes use the same ports, this one included: pods per node, or behind the gateway. None sees the
	// others. Default 1.
	Share int

	Warn  float64 // part of the budget from which it warns, above 0 and at most Admit. Default 0.7
	Admit float64 // part of it from which no connection is made, at most 1. Default 0.9
}

// PortPreset names a set of figures for [Ports].
type PortPreset string

const (
	AzureLB         PortPreset = "azure-lb"    // 1,024 per node, as for up to 50 nodes, kept for 240 s
	AzureNATGateway PortPreset = "azure-natgw" // 50,000, 65 s
	GoogleCloudNAT  PortPreset = "gcp-nat"     // 64 per VM, the static minimum, 120 s; newer gateways 30 s, then set Hold
	AWSNATGateway   PortPreset = "aws-natgw"   // 55,000, 60 s (assumed)
	LinuxPorts      PortPreset = "linux"       // ip_local_port_range, 60 s or, with tcp_tw_reuse, 1 s, if we closed first; read by New
	NoPorts         PortPreset = "none"        // counted, not limited
)

const (
	defaultWarn  = 0.7
	defaultAdmit = 0.9
	defaultHold  = time.Minute
)

// portsHere is what this system allows.
func portsHere() []ports.Preset {
	if runtime.GOOS == "linux" {
		return ports.System(ports.SystemDir)
	}
	return nil
}

// compile makes the rules. The system's own stand beside those of a NAT.
func (p *Ports) compile(system func() []ports.Preset) *ports.Policy {
	if p == nil {
		p = &Ports{}
	}
	asked := p.Preset == LinuxPorts || p.Admit != 0 // else the kernel decides, which says so when it has no port
	var rules []ports.Rule
	switch name := string(p.Preset); {
	case p.Preset == NoPorts:
		return &ports.Policy{}
	case name == ports.Linux, name == "" && p.Ports == 0:
		for _, own := range p.orTable(system()) {
			r := p.rule(own, p.Share)
			r.Advise = !asked
			rules = append(rules, r)
		}
		return &ports.Policy{Rules: rules}
	case name == "":
		hold := orDefault(p.Hold, defaultHold)
		custom := ports.Preset{Name: "custom", Source: "the configuration", Holds: ports.Holds{Ours: hold, Theirs: hold, Reset: hold, Silent: hold}}
		rules = append(rules, p.rule(custom, p.Share))
	default:
		preset, _ := ports.Named(name) // validated
		rules = append(rules, p.rule(preset, p.Share))
	}
	for _, own := range system() {
		r := (&Ports{Warn: p.Warn, Admit: p.Admit}).rule(own, 1)
		r.Advise = !asked
		rules = append(rules, r)
	}
	return &ports.Policy{Rules: rules}
}

// orTable is the kernel's defaults where the preset is asked for on another system.
func (p *Ports) orTable(own []ports.Preset) []ports.Preset {
	if len(own) == 0 && p.Preset == LinuxPorts {
		table, _ := ports.Named(ports.Linux)
		return []ports.Preset{table}
	}
	return own
}

// rule is a preset with the user's own figures in it. A port that is kept for less than Hold after a reset or silence stays so.
func (p *Ports) rule(preset ports.Preset, share int) ports.Rule {
	r := ports.Rule{
		Name: preset.Name, Source: preset.Source, Scope: preset.Scope, Holds: preset.Holds,
		Budget: orDefault(p.Ports, preset.Ports), Warn: orDefault(p.Warn, defaultWarn), Admit: orDefault(p.Admit, defaultAdmit),
	}
	if p.Ports > 0 || p.Hold > 0 && preset.Name != "custom" {
		r.Source += "; with figures of the configuration"
	}
	if h := p.Hold; h > 0 {
		r.Holds.Ours = h
		r.Holds.Theirs, r.Holds.Reset, r.Holds.Silent = min(r.Holds.Theirs, h), min(r.Holds.Reset, h), min(r.Holds.Silent, h)
		if preset.Name != ports.Linux {
			r.Holds.Theirs = h
		}
	}
	r.Budget = max(r.Budget/orDefault(share, 1), 1)
	return r
}

func (p *Ports) orZero() Ports {
	if p == nil {
		return Ports{}
	}
	return *p
}

func (p *Ports) validate(path string, m *mistakes) {
	known := []string{string(NoPorts)}
	for _, preset := range ports.Presets() {
		known = append(known, preset.Name)
	}
	if p.Preset != "" && !slices.Contains(known, string(p.Preset)) {
		m.addf(path+".Preset", "%q is no preset; there are %s. For another NAT set Ports and Hold", p.Preset, strings.Join(known, ", "))
		return
	}
	checkCount(m, path+".Ports", p.Ports)
	checkCount(m, path+".Hold", p.Hold)
	checkCount(m, path+".Share", p.Share)
	checkPart(m, path+".Warn", p.Warn)
	checkPart(m, path+".Admit", p.Admit)
	if warn, admit := orDefault(p.Warn, defaultWarn), orDefault(p.Admit, defaultAdmit); warn > admit {
		m.addf(path+".Warn", "%v is above Admit (%v), from where nothing is left to warn of; make it smaller", warn, admit)
	}
	if rest := *p; p.Preset == NoPorts && rest != (Ports{Preset: NoPorts}) {
		m.addf(path+".Preset", "with %q ports are not limited, so the other fields have no effect; remove them, or choose a preset", NoPorts)
	}
	if p.Preset == "" && p.Ports == 0 && p.Hold > 0 {
		m.addf(path+".Hold", "says how long a NAT keeps a port, but not which; add Preset, or Ports for one of your own")
	}
	total := p.Ports
	if preset, ok := ports.Named(string(p.Preset)); ok {
		total = orDefault(total, preset.Ports)
	}
	if total > 0 && p.Share > total {
		m.addf(path+".Share", "%d processes cannot share %d ports; make it smaller, or raise Ports", p.Share, total)
	}
}

func checkPart(m *mistakes, path string, part float64) {
	if part < 0 || part > 1 || math.IsNaN(part) {
		m.addf(path, "%v is no part of the budget; use 0 for the default, or a value above 0 and up to 1", part)
	}
}

// PortError is a connection that was not made for want of a local port. Calls find it with [errors.AsType] in an error that is
// [ErrPortBudget]. The request was not sent.
type PortError struct {
	Dest       netip.AddrPort // which has no port left for this client
	Held       int            // ports: connections being made, open, and closed ones whose port is kept
	Budget     int            // ports there are; 0 if nobody said so
	RetryAfter time.Duration  // until one is free; 0 if that is not known: those held are all open
	Preset     string         // whose figures these are: a [PortPreset], "custom", or "" without a limit
	Cause      error          // the kernel's own word, such as [syscall.EADDRNOTAVAIL]; nil if the budget decided

	err error
}

// Error returns one line.
func (e *PortError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return (&ports.Error{
		Dest: e.Dest, Held: e.Held, Budget: e.Budget, RetryAfter: e.RetryAfter, Preset: e.Preset, Cause: e.Cause,
	}).Error()
}

// Unwrap returns [ErrPortBudget] and the cause.
func (e *PortError) Unwrap() []error {
	if e.err == nil {
		return []error{ErrPortBudget}
	}
	return []error{ErrPortBudget, e.err}
}

// PortStats is one destination's part of [Stats]: the ports to an IP address and port, whichever upstreams use them.
type PortStats struct {
	// Dest is the destination. It is not valid in the last entry where a client has had more than 1,024 at a time: those beyond
	// are counted there together, and not limited.
	Dest netip.AddrPort

	Preset  string // whose limit will be reached first; "" if there is none
	Source  string // where its figures come from, with their date
	Open    int    // connections
	Dialing int
	Cooling int           // ports of closed connections
	Held    int           // the sum
	Budget  int           // ports there are; 0 is no limit
	Hold    time.Duration // how long the port of a closed connection is kept, at most

	Dials     uint64  // since the client began
	PerSecond float64 // of those in the last minute
	Reuse     float64 // part of the requests that needed no dial; 0 if most dials carried none

	// Steady is how many ports will be held if dials go on at the rate of the last minute: those open, and as many as are
	// dialled in the time for which a port is kept. Growing tells that this exceeds Ports.Admit, and that more ports are taken
	// than come free; Forecast is then the time until no connection is made any more, 0 if that is so now.
	Steady   float64
	Growing  bool
	Forecast time.Duration

	Refused   uint64 // connections not made for want of a port
	NoPort    uint64 // connects for which the kernel had none (EADDRNOTAVAIL)
	Suspected uint64 // connects that timed out where others were answered within 5 minutes, while ports ran short: maybe dropped by a NAT that others use too
}

func (c *Client) portStats() []PortStats {
	carried := make(map[netip.AddrPort]uint64)
	for _, up := range c.everyUpstream() {
		for _, ep := range up.endpoints() {
			if ep.pool != nil {
				ep.pool.CountRequests(carried)
			}
		}
	}
	var all []PortStats
	for _, s := range c.ledger.Stats() {
		p := PortStats{
			Dest: s.Dest, Preset: s.Preset, Source: s.Source,
			Open: s.Open, Dialing: s.Dialing, Cooling: s.Cooling, Held: s.Held, Budget: s.Budget, Hold: s.Hold,
			Dials: s.Dialed, PerSecond: s.PerSec,
			Steady: s.Forecast.Steady, Growing: s.Forecast.Growing, Forecast: s.Forecast.Left,
			Refused: s.Refused, NoPort: s.NoPort, Suspected: s.Suspected,
		}
		if requests := s.Requests + carried[s.Dest]; requests > s.Dialed {
			p.Reuse = 1 - float64(s.Dialed)/float64(requests)
		}
		all = append(all, p)
	}
	return all
}

// portUtilization is the part of its budget that the upstream's fullest destination holds; false: none has a budget.
func (k *core) portUtilization() (part float64, limited bool) {
	return k.client.ledger.Utilization(k.recipe.Load().kit.ports)
}

// String shows a destination for people.
func (s PortStats) String() string {
	dest := "all others"
	if s.Dest.IsValid() {
		dest = s.Dest.String()
	}
	budget := "no limit"
	if s.Budget > 0 {
		budget = fmt.Sprintf("of %d, %s", s.Budget, s.Preset)
	}
	return fmt.Sprintf("%s: %d ports held (%s): %d open, %d dialing, %d cooling", dest, s.Held, budget, s.Open, s.Dialing, s.Cooling)
}
