package ports_test

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// The kernel says by itself when it has no port, so a rule of its own warns and refuses nothing.
func TestARuleThatAdvisesRefusesNothing(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(10)
		p.Rules[0].Advise = true
		b.opens(7, api, p)
		_, w, err := b.Admit(api, p)
		if err != nil || w == nil || w.Refused {
			t.Errorf("the eighth: warning %+v, error %v", w, err)
		}
		b.opens(12, api, p)
		b.held(api, 20)
	})
}

// A Reload that changes a budget changes nothing about the ports that the NAT still keeps.
func TestANewBudgetKeepsWhatCools(t *testing.T) {
	inBubble(t, func(b book) {
		before, after := natOf(20), natOf(20)
		after.Rules[0].Warn = 0.8
		for _, ticket := range b.opens(15, api, before) {
			ticket.Closed(ports.ClosedByUs, time.Now())
		}
		b.Forget(before)
		open := b.opens(3, api, after)
		b.held(api, 18)
		if e := b.refused(api, after); e.Held != 18 {
			t.Errorf("refused with %d held, want 18", e.Held)
		}
		for _, ticket := range open {
			ticket.Closed(ports.ClosedByUs, time.Now())
		}
		time.Sleep(2 * time.Minute)
		b.held(api, 0)
	})
}

// Where destinations are not told apart, the kernel's word about one of them is not about the others.
func TestBeyondTheBoundOneShortageIsNotThatOfAll(t *testing.T) {
	inBubble(t, func(b book) {
		for i := range ports.MaxDestinations {
			b.opens(1, netip.MustParseAddrPort(fmt.Sprintf("10.1.%d.%d:80", i/256, i%256)), nil)
		}
		short, healthy := netip.MustParseAddrPort("10.2.0.1:80"), netip.MustParseAddrPort("10.2.0.2:80")
		if e := b.NoPort(short, syscall.EADDRNOTAVAIL); e.Dest != short || e.Cause != syscall.EADDRNOTAVAIL {
			t.Errorf("error %+v", e)
		}
		if _, _, err := b.Admit(healthy, nil); err != nil {
			t.Errorf("another destination is refused: %v", err)
		}
	})
}

func TestAnsweredIsWhoHasEverConnected(t *testing.T) {
	inBubble(t, func(b book) {
		if b.Answered(api) {
			t.Error("before the first connect")
		}
		b.opens(1, api, natOf(10))
		if !b.Answered(api) || b.Answered(inside) {
			t.Errorf("answered %v, and the other one %v", b.Answered(api), b.Answered(inside))
		}
	})
}
