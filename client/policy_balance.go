package client

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/breaker"
)

// Eject leaves an endpoint out for a while that fails more than its peers, or several times in a row. It is relative and
// bounded: it never empties a set, and where most of a set fails alike it is the service, and nobody goes. The [Breaker] is
// the fence behind it. Zero fields are the defaults.
type Eject struct {
	Connect     int           // failed dials in a row. Default 3
	Consecutive int           // failures in a row. Default 5
	Margin      float64       // share of failures above the median of the set, in one Interval. Default 0.3
	Volume      int           // attempts in that Interval below which Margin says nothing. Default 20
	Interval    time.Duration // of Margin. Default 10 s
	Base        time.Duration // length of the first ejection; the n-th is n times as long. Default 30 s
	MaxTime     time.Duration // but at most this, and up to a fifth more. Default 5 min
	MaxPercent  int           // of a set that may be ejected; one of two or more always may. Default 50
	Panic       int           // percentage of a set that must be left, else ejection is ignored. Default 50; −1 is never
	Shadow      bool          // leave nobody out, and list in Report.Shadow who would have been
}

// Balance makes an endpoint of each address of a base URL's name, follows DNS, and spreads attempts over them. Without base URLs
// it does so for the name of each host that is called. A name with one address, such as that of a Kubernetes Service with a
// ClusterIP, is one endpoint; balancing needs a headless Service. Attempts go to the addresses of one family, IPv4 or IPv6, the
// one to which connections succeed; when none of its addresses can be reached, to those of the other. Zero fields are the
// defaults.
type Balance struct {
	Picker    Picker
	Decay     time.Duration              // PeakEWMA: time constant with which a slow answer is forgotten. Default 10 s
	Hash      func(*http.Request) string // Rendezvous: the key of a request whose CallOptions have none
	SlowStart time.Duration              // time until a newcomer among endpoints at work has its full share. Default 30 s; −1 is at once
}

// Picker is the way in which [Balance] chooses an endpoint.
type Picker uint8

const (
	PeakEWMA         Picker = iota // of two drawn at random the one with the lesser time to headers, times what runs there
	LeastConnections               // the fewest attempts running, ties at random; nginx's least_conn
	RoundRobin                     // in turn
	Rendezvous                     // by a key, so that each key keeps its endpoint; without a key as PeakEWMA
)

// String returns the picker's name in lower case, such as "peak_ewma".
func (p Picker) String() string {
	if names := [...]string{"peak_ewma", "least_connections", "round_robin", "rendezvous"}; int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("picker(%d)", uint8(p))
}

// none turns the −1 of a policy into the engines' 0.
func orNone[T int | float64 | time.Duration](value, def T) T { return max(orDefault(value, def), 0) }

// balanceConfig is what the three policies mean for the balancer.
func (p *Policy) balanceConfig(spill float64) balance.Config {
	cfg := balance.Config{Picker: balance.InOrder, SpillFactor: max(spill, 0)}
	if b := p.Balance; b != nil {
		cfg.Picker = map[Picker]balance.Picker{
			PeakEWMA: balance.PeakEWMA, LeastConnections: balance.LeastConnections,
			RoundRobin: balance.RoundRobin, Rendezvous: balance.Rendezvous,
		}[b.Picker]
		cfg.Decay = orDefault(b.Decay, 10*time.Second)
		cfg.SlowStart = orNone(b.SlowStart, 30*time.Second)
	}
	if e := p.Eject; e != nil {
		cfg.Eject = &balance.Eject{
			Connect: orDefault(e.Connect, 3), Consecutive: orDefault(e.Consecutive, 5),
			Margin: orDefault(e.Margin, 0.3), Volume: orDefault(e.Volume, 20), Interval: orDefault(e.Interval, 10*time.Second),
			Base: orDefault(e.Base, 30*time.Second), MaxTime: orDefault(e.MaxTime, 5*time.Minute),
			MaxPercent: orDefault(e.MaxPercent, 50), Panic: orNone(e.Panic, 50), Shadow: e.Shadow,
		}
	}
	return cfg
}

// engine is what the policy means for the breaker of one endpoint.
func (b *Breaker) engine(attempt time.Duration, onChange func(breaker.Change)) breaker.Config {
	return breaker.Config{
		Consecutive: orNone(b.Consecutive, 10), Ratio: orDefault(b.Ratio, 0.5), Volume: orDefault(b.Volume, 20),
		Window: orDefault(b.Window, 10*time.Second), Open: orDefault(b.Open, 5*time.Second), Probes: orDefault(b.Probes, 2),
		Overdue: max(attempt, 30*time.Second), Shadow: b.Shadow, OnChange: onChange,
	}
}

// newBalancer returns a balancer without endpoints.
func newBalancer(k *core, r *recipe) *balance.Balancer {
	cfg := r.balance
	cfg.OnEject = k.ejected
	return balance.New(cfg, time.Now())
}
