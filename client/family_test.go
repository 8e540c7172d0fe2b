package client_test

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// twoFamilies returns a balanced client whose name has two addresses of each family, IPv4 first. Nobody listens anywhere yet.
func twoFamilies(t *testing.T, lab *lab, policy client.Policy) (*desk, *sortietest.DNS) {
	t.Helper()
	policy.Balance = &client.Balance{Picker: client.RoundRobin}
	d, dns := lab.deskNamed("http://up.internal")
	d.reload(func(u *client.Upstream) { u.Policy = policy })
	dns.Script("up.internal", "A", sortietest.DNSReply{Addrs: []string{"10.0.0.1", "10.0.0.2"}, TTL: 10})
	dns.Script("up.internal", "AAAA", sortietest.DNSReply{Addrs: []string{"2001:db8::1", "2001:db8::2"}, TTL: 10})
	return d, dns
}

// states returns how many endpoints there are in each state, by family.
func states(d *desk) map[string]int {
	got := map[string]int{}
	for _, e := range d.stats("up").Endpoints {
		family := "v6 "
		if netip.MustParseAddr(e.Addr).Is4() {
			family = "v4 "
		}
		got[family+e.State]++
	}
	return got
}

func TestTheOtherFamilyIsTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for _, address := range []string{"10.0.0.1:80", "10.0.0.2:80", "[2001:db8::1]:80", "[2001:db8::2]:80"} {
			lab.serve(address, answers("hello"))
		}
		d, _ := twoFamilies(t, lab, client.Policy{Retry: &client.Retry{}, Conns: &client.Conns{MaxAge: 5 * time.Second, DialTimeout: time.Second}})
		first := spread(t, d.Client, 10)
		if got := states(d); len(first) != 2 || len(got) != 1 || got["v4 closed"]+got["v6 closed"] != 2 {
			t.Fatalf("calls went to %v, endpoints %v: want one family", first, got)
		}
		for address := range first {
			lab.BlackHole(netip.AddrPortFrom(netip.MustParseAddr(address), 80).String())
		}
		time.Sleep(10 * time.Second) // its connections are too old
		spread(t, d.Client, 1)       // this one finds out, and does not fail of it
		second := spread(t, d.Client, 10)
		for address := range first {
			if second[address] != 0 {
				t.Errorf("calls went on to %s: %v", address, second)
			}
			lab.Restore(netip.AddrPortFrom(netip.MustParseAddr(address), 80).String())
		}
		if got := states(d); len(second) != 2 || got["v4 reserve"]+got["v6 reserve"] != 2 || got["v4 closed"]+got["v6 closed"] != 2 {
			t.Errorf("calls went to %v, endpoints %v", second, got)
		}
		for address := range second {
			lab.BlackHole(netip.AddrPortFrom(netip.MustParseAddr(address), 80).String())
		}
		time.Sleep(20 * time.Second)
		spread(t, d.Client, 1)
		if third := spread(t, d.Client, 10); fmt.Sprint(third) != fmt.Sprint(first) {
			t.Errorf("with the second family dead: %v, at first %v", third, first)
		}
	})
}

func TestOneAddressThatAnswersKeepsItsFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.2:80", answers("hello"))
		lab.serve("[2001:db8::2]:80", answers("hello"))
		d, _ := twoFamilies(t, lab, client.Policy{Retry: &client.Retry{}})
		if bad := round(t, d.Client, 100, 100*time.Millisecond); bad > 0 || len(states(d)) != 1 {
			t.Errorf("%d calls failed, endpoints %v", bad, states(d))
		}
	})
}

// A family is missed in an answer of its own only: that of the other says nothing about it.
func TestAnAnswerOfOneFamilyDrainsNobodyOfTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for _, address := range []string{"10.0.0.1:80", "10.0.0.2:80", "[2001:db8::1]:80", "[2001:db8::2]:80"} {
			lab.serve(address, answers("hello"))
		}
		d, dns := twoFamilies(t, lab, client.Policy{Retry: &client.Retry{}})
		spread(t, d.Client, 4)
		before := states(d)
		used := "AAAA"
		if before["v4 closed"] > 0 {
			used = "A"
		}
		dns.Script("up.internal", used, sortietest.NoData())
		busy(t, d.Client, 2*time.Minute)
		if after := states(d); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("endpoints %v, before the other answered alone %v", after, before)
		}
	})
}

func TestAFamilyThatIsDeniedLeavesTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("192.0.32.7:80", answers("hello"))
		lab.serve("[2001:db8::1]:80", answers("hello"))
		for _, guarded := range [][2]string{{"10.0.0.1", "2001:db8::1"}, {"192.0.32.7", "fd00::1"}} {
			d, dns := twoFamilies(t, lab, client.Policy{})
			dns.Script("up.internal", "A", sortietest.DNSReply{Addrs: guarded[:1], TTL: 10})
			dns.Script("up.internal", "AAAA", sortietest.DNSReply{Addrs: guarded[1:], TTL: 10})
			d.cfg.Guard = &client.Guard{}
			d.reload(func(*client.Upstream) {})
			if got := spread(t, d.Client, 2); len(got) != 1 {
				t.Errorf("%v: %v", guarded, got)
			}
		}
	})
}

// An upstream without bases is balanced over the addresses of each host that it is asked for.
func TestEachHostOfAnUpstreamWithoutBasesIsBalanced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for i := range 4 {
			lab.serve(fmt.Sprintf("10.0.0.%d:8080", i+1), answers("hello"))
		}
		d, dns := lab.deskNamed("http://unused.internal")
		d.cfg.MaxUnlisted = 2
		d.reload(func(u *client.Upstream) {
			*u = client.Upstream{Name: "own", Hosts: []string{"*.internal"}, Policy: client.Standard()}
			u.Policy.Balance.Picker, u.Policy.Balance.SlowStart = client.RoundRobin, -1
		})
		dns.Host("one.internal", 60, "10.0.0.1", "10.0.0.2", "10.0.0.9") // nobody is at the last
		dns.Host("two.internal", 60, "10.0.0.3", "10.0.0.4")
		dns.Host("three.internal", 60, "10.0.0.1")
		for url, want := range map[string]int{"http://one.internal:8080": 2, "http://two.internal:8080": 2} {
			got := map[netip.AddrPort]int{}
			for range 40 {
				resp := get(t, d.Client, url+"/x//y")
				if r := client.ReportOf(resp); r.Tier != client.AutoSide {
					t.Errorf("report %+v", r)
				}
				readAll(t, resp)
				attempts := client.ReportOf(resp).Attempts
				got[attempts[len(attempts)-1].Conn.Remote]++
			}
			if len(got) != want {
				t.Errorf("%s: %v", url, got)
			}
		}
		suspects := 0
		for _, e := range d.stats("own").Endpoints {
			if e.Addr == "" {
				t.Errorf("%+v has no address", e)
			}
			if e.Suspect && e.Addr == "10.0.0.9" {
				suspects++
			}
		}
		if n := len(d.stats("own").Endpoints); n != 5 || suspects != 1 {
			t.Errorf("%d endpoints, %d suspect", n, suspects)
		}
		readAll(t, get(t, d.Client, "http://three.internal:8080"))
		synctest.Wait()
		if n := len(d.stats("own").Endpoints); n > 4 {
			t.Errorf("%d endpoints of two hosts", n)
		}
		d.reload(func(u *client.Upstream) { u.Policy.Balance, u.Policy.Eject = nil, nil })
		readAll(t, get(t, d.Client, "http://two.internal:8080"))
		for _, e := range d.stats("own").Endpoints {
			if e.Addr != "" {
				t.Errorf("%+v has an address, without Balance", e)
			}
		}
	})
}

func TestAHostThatIsNotNamedInDNSFailsAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newLab(t).deskNamed("http://unused.internal")
		d.cfg.Unlisted = client.Standard()
		d.reload(func(*client.Upstream) {})
		if err := d.fails("http://no.such.internal"); client.ReasonOf(err) != client.ReasonDNS || !client.NeverSent(err) {
			t.Errorf("err = %v", err)
		}
		settled(t, d.Client)
	})
}
