package ports_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

var (
	api    = netip.MustParseAddrPort("203.0.113.7:443")
	inside = netip.MustParseAddrPort("10.0.0.1:80")
)

// A book is a ledger in a bubble.
type book struct {
	*testing.T
	*ports.Ledger
}

func inBubble(t *testing.T, story func(b book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { story(book{t, ports.New()}) })
}

// natOf is a policy of one NAT that keeps ports for a minute.
func natOf(budget int) *ports.Policy {
	return &ports.Policy{Rules: []ports.Rule{{
		Name: "nat", Budget: budget, Warn: 0.7, Admit: 0.9,
		Holds: ports.Holds{Ours: time.Minute, Theirs: time.Minute, Reset: 10 * time.Second, Silent: 30 * time.Second},
	}}}
}

// Admit is that of the ledger, now.
func (b book) Admit(to netip.AddrPort, p *ports.Policy) (*ports.Ticket, *ports.Warning, error) {
	t, w, err := b.Ledger.Admit(to, p, time.Now())
	return &t, w, err
}

// opens makes n connections, which must be admitted.
func (b book) opens(n int, to netip.AddrPort, p *ports.Policy) (open []*ports.Ticket) {
	b.Helper()
	for i := range n {
		t, _, err := b.Admit(to, p)
		if err != nil {
			b.Fatalf("connect %d of %d: %v", i+1, n, err)
		}
		t.Opened()
		open = append(open, t)
	}
	return open
}

// refused expects that the next connect is not admitted.
func (b book) refused(to netip.AddrPort, p *ports.Policy) *ports.Error {
	b.Helper()
	_, _, err := b.Admit(to, p)
	e, ok := errors.AsType[*ports.Error](err)
	if !ok {
		b.Fatalf("admitted, want a refusal; %+v", b.of(to))
	}
	return e
}

func (b book) of(to netip.AddrPort) ports.Stats {
	b.Helper()
	for _, s := range b.Stats() {
		if s.Dest == to {
			return s
		}
	}
	return ports.Stats{}
}

func (b book) held(to netip.AddrPort, want int) {
	b.Helper()
	if s := b.of(to); s.Held != want || s.Held != s.Open+s.Dialing+s.Cooling {
		b.Errorf("after %v: %+v, want %d held", time.Since(epoch), s, want)
	}
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when bubbles begin
