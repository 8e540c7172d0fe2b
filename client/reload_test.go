package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// A desk is a client and the configuration it was last given, to be changed and given again.
type desk struct {
	*client.Client
	t   *testing.T
	cfg client.Config
}

// desk returns a client as lab.client does.
func (l *lab) desk(policy client.Policy, change ...func(*client.Config)) *desk {
	l.t.Helper()
	d := &desk{t: l.t}
	d.Client = l.client(policy, append(change, func(cfg *client.Config) { d.cfg = *cfg })...)
	d.cfg.Upstreams = slices.Clone(d.cfg.Upstreams)
	return d
}

// deskNamed returns a client whose base is at a name, and the server that answers for it.
func (l *lab) deskNamed(base string) (*desk, *sortietest.DNS) {
	d := &desk{t: l.t}
	var dns *sortietest.DNS
	d.Client, dns = named(l.t, l, base, func(cfg *client.Config) { d.cfg = *cfg })
	return d, dns
}

// reload changes the first upstream, and has the client take the result.
func (d *desk) reload(change func(u *client.Upstream)) {
	d.t.Helper()
	change(&d.cfg.Upstreams[0])
	if err := d.Reload(d.cfg); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) stats(name string) (found client.UpstreamStats) {
	for _, u := range d.Stats().Upstreams {
		if u.Name == name {
			found = u
		}
	}
	return found
}

func (d *desk) fails(url string) error {
	d.t.Helper()
	resp, err := d.Do(newRequest(d.t, d.t.Context(), "GET", url, nil))
	if err == nil {
		resp.Body.Close()
		d.t.Fatalf("%s answered %s", url, resp.Status)
	}
	return err
}

func TestConnectionsSurviveAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		d := lab.desk(client.Policy{Timeout: &client.Timeout{}})
		readAll(t, get(t, d.Client, up))
		for name, change := range map[string]func(*client.Upstream){
			"nothing": func(*client.Upstream) {},
			"timeout": func(u *client.Upstream) { u.Policy.Timeout = &client.Timeout{Total: time.Second} },
			"others":  func(u *client.Upstream) { u.Policy = client.Standard(); u.Policy.Conns = &client.Conns{} },
			"hosts":   func(u *client.Upstream) { u.Hosts = []string{"*.example"} },
			"headers": func(u *client.Upstream) { u.PreserveHost = true },
			"signer":  func(u *client.Upstream) { u.Signer = signer(func(context.Context, *http.Request) error { return nil }) },
		} {
			d.reload(change)
			resp := get(t, d.Client, up)
			readAll(t, resp)
			if !client.ReportOf(resp).Attempts[0].Conn.Reused {
				t.Errorf("%s: the connection was lost", name)
			}
		}
		if n := lab.Dials("10.0.0.1:80"); n != 1 {
			t.Errorf("%d dials", n)
		}
		if n := d.stats("up").Ended[client.ReasonOK]; n != 7 {
			t.Errorf("%d calls counted, want those of all configurations", n)
		}
	})
}

func TestARunningCallFinishesUnderThePolicyItBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(3*time.Second))
		d := lab.desk(timeouts(10*time.Second, -1, -1))
		long := get(t, d.Client, up)
		d.cfg.Upstreams[0].Policy.Timeout.Total = time.Second // the very struct that New was given
		d.reload(func(*client.Upstream) {})
		short := get(t, d.Client, up)
		if _, err := io.ReadAll(short.Body); client.ReasonOf(err) != client.ReasonDeadline {
			t.Errorf("a call after the Reload: %v", err)
		}
		if got := readAll(t, long); got != "done" {
			t.Errorf("read %q", got)
		}
		settled(t, d.Client)
	})
}

func TestARunningCallRetriesAsItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		d := newLab(t).desk(client.Policy{})
		transport := roundTrip(func(*http.Request) (*http.Response, error) {
			if requests++; requests == 1 {
				d.reload(func(u *client.Upstream) { u.Policy.Retry = nil })
			}
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		})
		d.reload(func(u *client.Upstream) { u.Transport, u.Policy.Retry = transport, &client.Retry{Attempts: 3} })
		if r := client.ReportOf(get(t, d.Client, up)); len(r.Attempts) != 3 {
			t.Errorf("the call made %d attempts, and began with 3", len(r.Attempts))
		}
		if r := client.ReportOf(get(t, d.Client, up)); len(r.Attempts) != 1 {
			t.Errorf("the next call made %d attempts", len(r.Attempts))
		}
	})
}

func TestALimitIsChangedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(10*time.Second))
		d := lab.desk(client.Policy{Limit: &client.Limit{Max: 1, QueueWait: time.Minute}})
		began := make(chan time.Time, 9)
		call := func() {
			resp, err := d.Do(newRequest(t, context.Background(), "GET", up, nil))
			if err != nil {
				t.Error(err)
				return
			}
			began <- time.Now()
			readAll(t, resp)
		}
		for range 3 {
			go call()
		}
		time.Sleep(time.Second)
		if len(began) != 1 {
			t.Fatalf("%d calls run", len(began))
		}
		d.reload(func(u *client.Upstream) { u.Policy.Limit = &client.Limit{Max: 3, QueueWait: time.Minute} })
		synctest.Wait()
		if len(began) != 3 {
			t.Errorf("%d calls run after the limit was raised to 3", len(began))
		}
		d.reload(func(u *client.Upstream) { u.Policy.Limit = &client.Limit{Max: 2, QueueWait: time.Minute} })
		go call()
		time.Sleep(9 * time.Second) // one of three has ended: two are still as many as may
		if len(began) != 3 {
			t.Errorf("a smaller limit did not wait for calls to end")
		}
		time.Sleep(2 * time.Second)
		if len(began) != 4 {
			t.Errorf("the fourth call never began")
		}
		go call()
		go call()
		synctest.Wait()
		d.reload(func(u *client.Upstream) { u.Policy.Limit = nil })
		synctest.Wait()
		if len(began) != 6 {
			t.Errorf("%d calls, and there is no limit any more", len(began))
		}
		time.Sleep(time.Minute)
		d.reload(func(u *client.Upstream) { u.Policy.Limit = &client.Limit{Max: 1, Queue: -1} })
		resp := get(t, d.Client, up)
		if err := d.fails(up); !errors.Is(err, client.ErrOverflow) {
			t.Errorf("with a limit again: %v", err)
		}
		readAll(t, resp)
		settled(t, d.Client)
	})
}

func TestAChangedBreakerKeepsItsOpenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		d := lab.desk(client.Policy{Breaker: &client.Breaker{Consecutive: 3, Open: 10 * time.Second}})
		for range 3 {
			d.fails(up)
		}
		opened := time.Now()
		d.fails(up)
		left := d.stats("up").Endpoints[0].For
		lab.serve("10.0.0.1:80", answers("hello"))
		time.Sleep(time.Second)
		d.reload(func(u *client.Upstream) { u.Policy.Timeout = &client.Timeout{} })
		d.reload(func(u *client.Upstream) { u.Policy.Breaker = &client.Breaker{Consecutive: 5, Open: time.Hour} })
		time.Sleep(left - time.Since(opened) - time.Millisecond)
		if err := d.fails(up); !errors.Is(err, client.ErrBreakerOpen) {
			t.Errorf("before the old open time is over: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		readAll(t, get(t, d.Client, up))
		if got := d.stats("up").Endpoints[0].State; got != "closed" {
			t.Errorf("state %s", got)
		}
	})
}

func TestAnOpenBreakerThatIsTakenAwayHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		d := lab.desk(client.Policy{Breaker: &client.Breaker{Consecutive: 1, Open: time.Hour}})
		d.fails(up)
		lab.serve("10.0.0.1:80", answers("hello"))
		d.reload(func(u *client.Upstream) { u.Policy.Breaker = nil })
		readAll(t, get(t, d.Client, up))
		d.reload(func(u *client.Upstream) { u.Policy.Breaker = &client.Breaker{Consecutive: 1} })
		readAll(t, get(t, d.Client, up))
	})
}

func TestWhatWasLearntSurvivesAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
		policy := client.Policy{Retry: &client.Retry{}, Balance: &client.Balance{}, Eject: &client.Eject{Connect: 3, Base: time.Hour, MaxTime: time.Hour},
			Budget: client.Budget{Percent: 100, PerSecond: -1, Window: time.Minute}}
		d := lab.desk(policy, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.1", "http://10.0.0.2"} // the second refuses
		})
		round(t, d.Client, 50, 100*time.Millisecond)
		before := d.stats("up").Endpoints
		d.reload(func(u *client.Upstream) {
			u.External = []string{"http://10.0.0.2", "http://10.0.0.1", "http://10.0.0.3"}
			u.Policy.Eject = &client.Eject{Connect: 2, Base: time.Hour, MaxTime: time.Hour}
			u.Policy.Conns = &client.Conns{MaxIdle: 7}
		})
		after := d.stats("up").Endpoints
		if len(after) != 3 || after[0].State != "ejected" || after[0].For != before[1].For || after[1].Cost == 0 || after[1].Cost != before[0].Cost {
			t.Errorf("before: %+v\nafter: %+v", before, after)
		}

		d.reload(func(u *client.Upstream) {
			u.External = []string{"http://10.0.0.2"}
			u.Policy.Retry.Base = time.Millisecond
		})
		spent := 0
		for range 60 { // deposits of a moment ago pay for retries
			err := d.fails(up)
			if e, _ := errors.AsType[*client.Error](err); e.Attempts > 1 {
				spent++
			}
		}
		d.reload(func(u *client.Upstream) {
			u.Policy.Budget = client.Budget{Percent: 0.01, PerSecond: -1, Window: time.Minute}
		})
		if e, _ := errors.AsType[*client.Error](d.fails(up)); spent == 0 || e.Stopped != client.StoppedBudget {
			t.Errorf("after %d retries and with a smaller budget, %q", spent, e.Stopped)
		}
	})
}

func TestTheHedgeDelayIsStillKnownAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for _, address := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			lab.serve(address, func(_ http.ResponseWriter, r *http.Request) {
				time.Sleep(20 * time.Millisecond)
				if r.URL.Path == "/slow" {
					time.Sleep(time.Second)
				}
			})
		}
		d := lab.desk(client.Policy{Timeout: &client.Timeout{}, Hedge: &client.Hedge{}}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.1", "http://10.0.0.2"}
		})
		round(t, d.Client, 120, 10*time.Millisecond)
		d.reload(func(u *client.Upstream) { u.Policy.Hedge = &client.Hedge{ExtraLoad: 0.2} })
		resp := get(t, d.Client, up+"/slow")
		if r := client.ReportOf(resp); !r.Hedged {
			t.Errorf("no second attempt: %+v", r)
		}
		readAll(t, resp)
		time.Sleep(5 * time.Second)
	})
}

func TestMistakesChangeNothing(t *testing.T) {
	noProxy := func(*http.Request) (*url.URL, error) { return nil, nil }
	for name, tc := range map[string]struct {
		change func(*client.Config)
		paths  []string
	}{
		"a resolver":      {func(cfg *client.Config) { cfg.Resolver = &dnscache.Resolver{} }, []string{"Resolver: "}},
		"the other side":  {func(cfg *client.Config) { cfg.Side = client.Internal }, []string{"Side: "}},
		"no side at all":  {func(cfg *client.Config) { cfg.Side = 9 }, []string{"Side: "}},
		"a hook":          {func(cfg *client.Config) { cfg.OnCall = func(client.Report) {} }, []string{"OnCall: "}},
		"no dialer":       {func(cfg *client.Config) { cfg.Dial = nil }, []string{"Dial: "}},
		"a proxy":         {func(cfg *client.Config) { cfg.Proxy = noProxy }, []string{"Proxy: "}},
		"nothing is left": {func(cfg *client.Config) { cfg.Upstreams[0].Hosts = nil }, []string{"Upstreams[0].Hosts: "}},
		"several": {func(cfg *client.Config) {
			cfg.Side, cfg.Upstreams[0].Name = client.Internal, "Up"
			cfg.Upstreams[0].Policy.Timeout = &client.Timeout{Total: time.Second, Attempt: time.Minute}
		}, []string{"Side: ", "Upstreams[0].Name: ", "Upstreams[0].Policy.Timeout.Attempt: "}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newLab(t).desk(client.Policy{})
			before := d.Stats()
			cfg := d.cfg
			cfg.Upstreams = slices.Clone(cfg.Upstreams)
			cfg.Upstreams[0].External = []string{"http://10.0.0.9"} // would be seen
			tc.change(&cfg)
			err := d.Reload(cfg)
			if err == nil {
				t.Fatal("accepted")
			}
			lines := strings.Split(err.Error(), "\n")
			for _, path := range tc.paths {
				if !hasPrefix(lines, path) {
					t.Errorf("no mistake at %s\n%v", path, err)
				}
			}
			if len(lines) != len(tc.paths) {
				t.Errorf("more mistakes than were made:\n%v", err)
			}
			if after := d.Stats(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
		})
	}
}

func TestWhatIsTheSameIsNoMistake(t *testing.T) {
	res := &dnscache.Resolver{}
	defer res.Close()
	dial := (&net.Dialer{}).DialContext
	hook := func(client.Report) {}
	proxy := http.ProxyFromEnvironment
	for name, cfg := range map[string]client.Config{
		"a resolver":    {Resolver: res},
		"own resolver":  {},
		"a side":        {Side: client.External},
		"functions":     {Dial: dial, OnCall: hook, Proxy: proxy},
		"a guard":       {Guard: &client.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		"strict":        {Strict: true},
		"all unlisted":  {Unlisted: client.Standard(), MaxUnlisted: 3, DrainTimeout: time.Second},
		"TLS settings":  {Unlisted: client.Policy{Conns: &client.Conns{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}}},
		"the same side": {Side: client.AutoSide},
	} {
		c := newClient(t, cfg)
		if err := c.Reload(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cfg.Side = c.Stats().Side // said in words what was found out before
		if err := c.Reload(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
