package ports_test

import (
	"context"
	"math"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// Field report 3: 1,024 ports, four minutes. At 90 % connects are refused, and the refusal says until when.
func TestAtNineTenthsConnectsAreRefused_Azure_AKS4697(t *testing.T) {
	inBubble(t, func(b book) {
		azure, _ := ports.Named("azure-lb")
		p := &ports.Policy{Rules: []ports.Rule{{
			Name: azure.Name, Budget: azure.Ports, Holds: azure.Holds, Scope: azure.Scope, Warn: 0.7, Admit: 0.9,
		}}}
		for range 921 {
			for _, c := range b.opens(1, api, p) {
				c.Closed(ports.ClosedByUs, time.Now())
			}
			time.Sleep(10 * time.Millisecond)
		}
		e := b.refused(api, p)
		if e.Dest != api || e.Held != 921 || e.Budget != 1024 || e.Preset != "azure-lb" || !e.Cooling || e.Cause != nil {
			t.Errorf("refused with %+v", e)
		}
		first := 240*time.Second - 9210*time.Millisecond // the oldest comes free then, at most a sixtieth of the hold later
		if e.RetryAfter < first || e.RetryAfter > first+4*time.Second {
			t.Errorf("retry after %v, want %v or a little more", e.RetryAfter, first)
		}
		b.opens(1, inside, p) // which no NAT translates
		time.Sleep(e.RetryAfter - time.Millisecond)
		b.refused(api, p)
		time.Sleep(time.Millisecond)
		b.opens(1, api, p)
		if s := b.of(api); s.Refused != 2 || s.Open != 1 || s.Preset != "azure-lb" {
			t.Errorf("%+v", s)
		}
	})
}

// FIN, reset or silence, and who came first, choose how long a port is kept.
func TestTheEndOfAConnectionChoosesTheHold(t *testing.T) {
	linux := ports.Rule{Name: ports.Linux, Budget: 100, Warn: 0.7, Admit: 0.9, Holds: ports.Holds{Ours: time.Minute}}
	for _, tc := range []struct {
		how        ports.Ending
		nat, linux time.Duration
	}{
		{ports.ClosedByUs, time.Minute, time.Minute},
		{ports.ClosedByPeer, time.Minute, 0},
		{ports.Lost, time.Minute, 0},
		{ports.Reset, 10 * time.Second, 0},
		{ports.Silent, 30 * time.Second, 0},
		{ports.Unsent, 0, 0},
	} {
		for _, rule := range []ports.Rule{natOf(100).Rules[0], linux} {
			hold := tc.nat
			if rule.Name == ports.Linux {
				hold = tc.linux
			}
			inBubble(t, func(b book) {
				p := &ports.Policy{Rules: []ports.Rule{rule}}
				b.opens(1, api, p)[0].Closed(tc.how, time.Now())
				if hold == 0 {
					b.held(api, 0)
					return
				}
				b.held(api, 1)
				time.Sleep(hold - time.Millisecond)
				b.held(api, 1)
				time.Sleep(time.Second + 2*time.Millisecond) // a sixtieth of the longest hold
				b.held(api, 0)
			})
		}
	}
}

// Everything counts: losers of a race, refused connects, those that nobody answered.
func TestConnectsThatFailCount(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		hold time.Duration
	}{
		"refused":     {os.NewSyscallError("connect", syscall.ECONNREFUSED), 10 * time.Second},
		"silent":      {context.DeadlineExceeded, 30 * time.Second},
		"cancelled":   {context.Canceled, 30 * time.Second},
		"unreachable": {os.NewSyscallError("connect", syscall.EHOSTUNREACH), 30 * time.Second},
		"no file":     {os.NewSyscallError("socket", syscall.EMFILE), 0},
		"no port":     {&ports.Error{Cause: syscall.EADDRNOTAVAIL}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b book) {
				c, _, _ := b.Admit(api, natOf(100))
				b.held(api, 1)
				c.Failed(tc.err, time.Now())
				c.Failed(tc.err, time.Now()) // once
				c.Closed(ports.ClosedByUs, time.Now())
				if tc.hold > 0 {
					b.held(api, 1)
					time.Sleep(tc.hold - time.Millisecond)
					b.held(api, 1)
					time.Sleep(time.Second + 2*time.Millisecond)
				}
				b.held(api, 0)
				if s := b.of(api); s.Dialed != 1 || s.Dialing != 0 || s.Open != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A refusal without a time says that nothing cools: the connections are open.
func TestNobodyKnowsWhenOpenConnectionsEnd(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(10)
		open := b.opens(9, api, p)
		if e := b.refused(api, p); e.RetryAfter != 0 || e.Cooling {
			t.Errorf("%+v", e)
		}
		open[0].Closed(ports.ClosedByUs, time.Now())
		if e := b.refused(api, p); e.RetryAfter < time.Minute || e.RetryAfter > 61*time.Second || !e.Cooling {
			t.Errorf("%+v", e)
		}
	})
}

// One address, two upstreams: each rule holds for both, and the tightest speaks.
func TestTheTightestRuleSpeaks(t *testing.T) {
	inBubble(t, func(b book) {
		wide, narrow := natOf(100), natOf(10)
		b.opens(5, api, wide)
		b.opens(4, api, narrow)
		if e := b.refused(api, wide); e.Budget != 10 || e.Held != 9 {
			t.Errorf("%+v", e)
		}
		if s := b.of(api); s.Budget != 10 {
			t.Errorf("%+v", s)
		}
		if part, ok := b.Utilization(wide); !ok || part != 0.9 {
			t.Errorf("utilization %v", part)
		}
		b.Forget(narrow) // its upstream is gone
		b.opens(81, api, wide)
		if e := b.refused(api, wide); e.Budget != 100 || e.Held != 90 {
			t.Errorf("%+v", e)
		}
		b.Forget(wide) // the last rules stay until others come
		if s := b.of(api); s.Budget != 100 {
			t.Errorf("%+v", s)
		}
		b.opens(1, api, natOf(1000))
		if s := b.of(api); s.Budget != 1000 || s.Held != 91 {
			t.Errorf("%+v", s)
		}
	})
}

// The word comes once a minute and destination.
func TestWarningsComeOnceAMinute(t *testing.T) {
	inBubble(t, func(b book) {
		p, warnings := natOf(10), 0
		connect := func(to netip.AddrPort) *ports.Warning {
			c, w, _ := b.Admit(to, p)
			c.Opened()
			if w != nil {
				warnings++
			}
			return w
		}
		for range 7 {
			connect(api)
		}
		if warnings != 0 {
			t.Fatal("warned at 70 %")
		}
		if w := connect(api); w == nil || w.Held != 8 || w.Budget != 10 || w.Dest != api || w.Preset != "nat" || w.Refused {
			t.Errorf("warning %+v", w)
		}
		connect(api)
		if w := connect(api); w != nil {
			t.Errorf("a second one: %+v", w)
		}
		time.Sleep(time.Minute)
		if w := connect(api); w == nil || !w.Refused || w.Held != 9 {
			t.Errorf("a minute later: %+v", w)
		}
		other := netip.MustParseAddrPort("203.0.113.8:443")
		for range 8 {
			connect(other)
		}
		if warnings != 3 {
			t.Errorf("%d warnings, want another for another destination", warnings)
		}
	})
}

// The kernel's word is certain: nobody dials there for a second.
func TestWithoutALocalPortNobodyDialsForASecond(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(100)
		c, _, _ := b.Admit(api, p)
		cause := os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)
		e := b.NoPort(api, cause)
		c.Failed(e, time.Now())
		if e.Cause != cause || e.RetryAfter != time.Second || e.Cooling || e.Held != 1 {
			t.Errorf("%+v", e)
		}
		if again := b.refused(api, p); again.Cause != cause || again.RetryAfter != time.Second {
			t.Errorf("%+v", again)
		}
		time.Sleep(time.Second)
		b.opens(1, api, p)
		if s := b.of(api); s.NoPort != 1 || s.Held != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A time-out where others were answered, while ports run short, may be a dropped SYN: counted, not claimed (Azure/AKS#3047).
func TestSuspicion_Azure_AKS3047(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(10)
		timeOut := func(err error) uint64 {
			c, _, _ := b.Admit(api, p)
			c.Failed(err, time.Now())
			return b.of(api).Suspected
		}
		if timeOut(context.DeadlineExceeded) != 0 {
			t.Error("suspected where nobody ever answered")
		}
		time.Sleep(time.Minute)
		open := b.opens(1, api, p)
		if timeOut(context.DeadlineExceeded) != 0 {
			t.Error("suspected with ports to spare")
		}
		open = append(open, b.opens(6, api, p)...)
		if timeOut(context.Canceled) != 0 {
			t.Error("a connect that was cancelled says nothing")
		}
		time.Sleep(5 * time.Minute)
		if timeOut(context.DeadlineExceeded) != 1 {
			t.Error("not suspected")
		}
		time.Sleep(5*time.Minute + time.Second)
		if timeOut(context.DeadlineExceeded) != 1 {
			t.Error("suspected, long after the last answer")
		}
		_ = open
	})
}

// The forecast, over a minute: held tends to the open ones, and what is dialled in a hold.
func TestForecast(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(1000)
		churn := func(perSecond, seconds int) ports.Forecast {
			for range seconds {
				for _, c := range b.opens(perSecond, api, p) {
					c.Closed(ports.ClosedByUs, time.Now())
				}
				time.Sleep(time.Second)
			}
			return b.of(api).Forecast
		}
		if f := churn(10, 300); f.Growing || math.Abs(f.Steady-600) > 40 {
			t.Errorf("10 a second, kept for a minute: %+v, want 600 and no end", f)
		}
		f := churn(20, 16) // on the way to 1,200, at 10 a second: 740 of 900 so far
		if !f.Growing || f.Left < 10*time.Second || f.Left > 25*time.Second || math.Abs(f.Steady-1200) > 100 {
			t.Errorf("after 16 s of 20 a second: %+v, want 14 s left", f)
		}
		time.Sleep(10 * time.Minute)
		if f := b.of(api).Forecast; f.Growing || f.Steady != 0 {
			t.Errorf("when it is over: %+v", f)
		}
	})
	inBubble(t, func(b book) { // not growing: more is open than the rate explains
		b.opens(90, api, natOf(100))
		if f := b.of(api).Forecast; !f.Growing || f.Left != 0 {
			t.Errorf("with nothing left: %+v", f)
		}
	})
}

// Above Warn connections are kept, as a new one would cost a port; the word for that needs no lock.
func TestScarce(t *testing.T) {
	inBubble(t, func(b book) {
		open := b.opens(7, api, natOf(10))
		if open[0].Scarce(time.Now()) {
			t.Error("scarce at 70 %")
		}
		open = append(open, b.opens(1, api, natOf(10))...)
		time.Sleep(time.Hour)
		if !open[0].Scarce(time.Now()) {
			t.Error("not scarce at 80 %")
		}
		open[7].Closed(ports.ClosedByUs, time.Now())
		if !open[0].Scarce(time.Now()) {
			t.Error("not scarce while a port cools")
		}
		time.Sleep(time.Minute + 2*time.Second)
		if open[0].Scarce(time.Now()) {
			t.Error("scarce when it has cooled")
		}
		var none *ports.Ticket
		none.Opened()
		none.Failed(nil, time.Now())
		none.Closed(ports.Reset, time.Now())
		none.Carried(1)
		if none.Scarce(time.Now()) || none.Dest().IsValid() {
			t.Error("a ticket that nobody counts")
		}
	})
}

// Beyond 1,024 destinations ports are counted together, and not limited: no bookkeeping of ours refuses a call.
func TestTheLedgerIsBounded(t *testing.T) {
	inBubble(t, func(b book) {
		p := natOf(1)
		address := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 443)
		}
		var open []*ports.Ticket
		for i := range ports.MaxDestinations {
			open = append(open, b.opens(1, address(i), p)...)
			time.Sleep(time.Millisecond)
		}
		b.opens(3, address(5000), p)
		b.opens(2, address(5001), p)
		all := b.Stats()
		if rest := all[len(all)-1]; len(all) != ports.MaxDestinations+1 || rest.Dest.IsValid() || rest.Open != 5 || rest.Budget != 0 {
			t.Errorf("%d destinations, the last %+v", len(all), all[len(all)-1])
		}
		for _, i := range []int{7, 3, 11} {
			open[i].Closed(ports.ClosedByUs, time.Now())
		}
		time.Sleep(2 * time.Minute)
		b.opens(1, address(6000), p) // in the place of the one that was dialled longest ago, of those that hold nothing
		b.refused(address(6000), p)
		if b.of(address(3)).Dest.IsValid() || !b.of(address(7)).Dest.IsValid() || !b.of(address(11)).Dest.IsValid() {
			t.Error("another one was forgotten")
		}
	})
}

func TestAMappedAddressIsTheIPv4One(t *testing.T) {
	inBubble(t, func(b book) {
		mapped := netip.MustParseAddrPort("[::ffff:203.0.113.7]:443")
		b.opens(1, mapped, natOf(1))
		b.refused(api, natOf(1))
	})
}

func TestParallelTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := ports.New(), natOf(1<<20)
		done := make(chan bool)
		for range 8 {
			go func() {
				for range 1000 {
					c, _, err := l.Admit(api, p, time.Now())
					if err != nil {
						t.Error(err)
						break
					}
					c.Opened()
					c.Carried(3)
					c.Scarce(time.Now())
					l.Stats()
					c.Closed(ports.ClosedByPeer, time.Now())
				}
				done <- true
			}()
		}
		for range 8 {
			<-done
		}
		if s := l.Stats()[0]; s.Cooling != 8000 || s.Requests != 24000 || s.Open != 0 || s.Dialed != 8000 {
			t.Errorf("%+v", s)
		}
	})
}
