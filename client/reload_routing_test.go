package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// randomHosts returns up to n patterns, of few hosts, so that they often overlap.
func randomHosts(r *rand.Rand, n int, taken map[string]bool) (hosts []string) {
	for range n {
		host := []string{"*", "a", "b.a", "*.a", "c.b.a", "*.b.a", "10.0.0.1", "*.c"}[r.IntN(8)]
		if r.IntN(3) == 0 {
			host += []string{":80", ":443", ":8080"}[r.IntN(3)]
		}
		if !taken[host] {
			taken[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// randomConfig routes at random to upstreams that answer with their name and path.
func randomConfig(r *rand.Rand) client.Config {
	transport := roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Sent": {req.URL.String() + " " + req.Host}}, Body: http.NoBody}, nil
	})
	cfg := client.Config{Strict: r.IntN(2) == 0, Side: client.Internal}
	taken := map[string]bool{}
	for _, name := range []string{"one", "two", "three", "four"} {
		hosts := randomHosts(r, 4, taken)
		if len(hosts) == 0 || r.IntN(4) == 0 {
			continue
		}
		u := client.Upstream{Name: name, Hosts: hosts, Transport: transport, PreserveHost: false}
		if r.IntN(3) > 0 {
			u.Internal = []string{fmt.Sprintf("http://%s.internal/v%d", name, r.IntN(3))}
			u.PreserveHost = r.IntN(2) == 0
		}
		if r.IntN(3) == 0 {
			u.External = []string{fmt.Sprintf("https://%s.example/v%d", name, r.IntN(3))}
		}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	return cfg
}

// where says what becomes of a call.
func where(t *testing.T, c *client.Client, url string, side client.Side) string {
	t.Helper()
	ctx := client.WithCall(canceledContext(t), client.CallOptions{Side: side})
	if _, err := c.Do(newRequest(t, ctx, "GET", url, nil)); client.ReasonOf(err) == client.ReasonNoUpstream {
		return "refused"
	}
	ctx = client.WithCall(t.Context(), client.CallOptions{Side: side})
	resp, err := c.Do(newRequest(t, ctx, "GET", url, nil))
	if err != nil {
		e, _ := errors.AsType[*client.Error](err)
		return fmt.Sprint(e.Upstream, " ", e.Endpoint)
	}
	r := client.ReportOf(resp)
	return fmt.Sprint(r.Upstream, " ", r.Tier, " ", r.Attempts[0].Endpoint, " ", resp.Header.Get("Sent"))
}

func TestAReloadedClientRoutesAsANewOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, uint64(rand.Int64())))
		lab := newLab(t) // with nobody on it, for unlisted hosts
		cfg := randomConfig(r)
		cfg.Dial = lab.DialContext
		reloaded := newClient(t, cfg)
		for range 150 {
			cfg := randomConfig(r)
			cfg.Dial = lab.DialContext
			if err := reloaded.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			fresh := newClient(t, cfg)
			for range 20 {
				host := []string{"a", "b.a", "c.b.a", "d.c.b.a", "x.a", "10.0.0.1", "y.c", "c"}[r.IntN(8)]
				url := []string{"http", "https"}[r.IntN(2)] + "://" + host + []string{"", ":80", ":8080"}[r.IntN(3)] + "/path?q"
				side := []client.Side{client.AutoSide, client.External}[r.IntN(2)]
				if got, want := where(t, reloaded, url, side), where(t, fresh, url, side); got != want {
					t.Fatalf("%s from %v: %s, a new client: %s\n%+v", url, side, got, want, cfg)
				}
			}
			for _, u := range cfg.Upstreams {
				if got, want := reloaded.URL(u.Name, client.External, "/x"), fresh.URL(u.Name, client.External, "/x"); got != want {
					t.Errorf("URL: %s, a new client: %s", got, want)
				}
			}
			fresh.Close()
		}
		settled(t, reloaded)
		synctest.Wait()
		if n := len(reloaded.Stats().Upstreams); n > 5 {
			t.Errorf("%d upstreams are left", n)
		}
	})
}

func TestTheRoutingChangesAsAWhole(t *testing.T) {
	var served [2]atomic.Int64
	at := func(i int) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			served[i].Add(1)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		}
	}
	config := func(first, second string) client.Config {
		return client.Config{Strict: true, Upstreams: []client.Upstream{
			{Name: "first", Hosts: []string{first}, Transport: at(0)}, {Name: "second", Hosts: []string{second}, Transport: at(1)},
		}}
	}
	c := newClient(t, config("x", "y"))
	var calls sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		calls.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, url := range []string{"http://x", "http://y"} {
					resp, err := c.Do(newRequest(t, t.Context(), "GET", url, nil))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			}
		})
	}
	for i := range 500 {
		hosts := [2]string{"x", "y"}
		if err := c.Reload(config(hosts[i%2], hosts[1-i%2])); err != nil {
			t.Error(err)
		}
		resp := get(t, c, "http://x")
		if got, want := client.ReportOf(resp).Upstream, [2]string{"first", "second"}[i%2]; got != want {
			t.Errorf("a call after the Reload went to %s", got)
		}
		resp.Body.Close()
	}
	close(done)
	calls.Wait()
	settled(t, c)
}

func TestUnlistedHostsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for i := range 5 {
			lab.serve(fmt.Sprintf("10.1.0.%d:80", i+1), answers("hello"))
		}
		d := lab.desk(client.Policy{})
		all := func() {
			for i := range 5 {
				readAll(t, get(t, d.Client, fmt.Sprintf("http://10.1.0.%d", i+1)))
			}
		}
		all()
		d.cfg.MaxUnlisted = 2
		d.reload(func(*client.Upstream) {})
		synctest.Wait()
		if u := d.stats("_unlisted"); len(u.Endpoints) != 2 || len(lab.Conns("10.1.0.1:80")) != 0 || len(lab.Conns("10.1.0.5:80")) != 1 {
			t.Errorf("two may stay, the latest: %+v", u)
		}
		d.cfg.MaxUnlisted, d.cfg.Unlisted = 0, timeouts(time.Second, -1, -1)
		d.reload(func(*client.Upstream) {})
		resp := get(t, d.Client, "http://10.1.0.5")
		readAll(t, resp)
		if r := client.ReportOf(resp); !r.Attempts[0].Conn.Reused || r.TimeLeft == 0 {
			t.Errorf("under another policy: %+v", r)
		}
		d.cfg.MaxUnlisted, d.cfg.Unlisted, d.cfg.Strict = 0, client.Policy{}, true
		d.reload(func(*client.Upstream) {})
		if err := d.fails("http://10.1.0.5"); !errors.Is(err, client.ErrNoUpstream) {
			t.Errorf("strict: %v", err)
		}
		synctest.Wait()
		if n := len(lab.Conns("10.1.0.5:80")); n != 0 {
			t.Errorf("%d connections to a refused host", n)
		}
		d.cfg.Strict = false
		d.reload(func(*client.Upstream) {})
		all()
	})
}

func TestAnUpstreamGetsBasesAndLosesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Second))
		lab.serve("10.0.0.2:80", answers("base"))
		d := lab.desk(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams = []client.Upstream{{Name: "up", Hosts: []string{"10.0.0.1"}}}
		})
		for range 3 {
			long := get(t, d.Client, "http://10.0.0.1")
			d.reload(func(u *client.Upstream) { u.Internal = []string{"http://10.0.0.2"} })
			if got := readAll(t, get(t, d.Client, "http://10.0.0.1")); got != "base" {
				t.Errorf("with a base: %q", got)
			}
			if got := readAll(t, long); got != "done" {
				t.Errorf("read %q", got)
			}
			d.reload(func(u *client.Upstream) { u.Internal = nil })
			if got := readAll(t, get(t, d.Client, "http://10.0.0.1")); got != "done" {
				t.Errorf("without: %q", got)
			}
		}
		synctest.Wait()
		if u := d.stats("up"); len(u.Endpoints) != 1 || len(lab.Conns("10.0.0.2:80")) != 0 || u.Ended[client.ReasonOK] != 9 {
			t.Errorf("%+v", u)
		}
	})
}

func TestBalanceIsGivenAndTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		for i := range 2 {
			lab.serve(fmt.Sprintf("10.0.0.%d:80", i+1), answers("hello"))
		}
		d, dns := lab.deskNamed("http://up.internal")
		dns.Host("up.internal", 60, "10.0.0.1", "10.0.0.2")
		if got := spread(t, d.Client, 10); len(got) != 1 {
			t.Errorf("without Balance: %v", got)
		}
		d.reload(func(u *client.Upstream) { u.Policy.Balance = &client.Balance{Picker: client.RoundRobin} })
		if got := spread(t, d.Client, 10); len(got) != 2 {
			t.Errorf("with Balance: %v", got)
		}
		d.reload(func(u *client.Upstream) { u.Policy.Balance = &client.Balance{Picker: client.LeastConnections} })
		if got := spread(t, d.Client, 40); len(got) != 2 {
			t.Errorf("with another picker: %v", got)
		}
		d.reload(func(u *client.Upstream) { u.Policy.Balance = nil })
		if got := spread(t, d.Client, 10); len(got) != 1 {
			t.Errorf("without again: %v", got)
		}
		synctest.Wait()
		if a, b := len(lab.Conns("10.0.0.1:80")), len(lab.Conns("10.0.0.2:80")); a+b != 1 {
			t.Errorf("%d connections", a+b)
		}
	})
}

// A checkpoint is a context that runs a function when it is asked for its error for the first time: between the choice of an
// upstream and the moment in which the call is one of its open ones.
type checkpoint struct {
	context.Context
	once sync.Once
	pass func()
}

// Err runs the function.
func (c *checkpoint) Err() error {
	c.once.Do(c.pass)
	return c.Context.Err()
}

func TestACallAsksAgainWhenItsUpstreamIsRemovedUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		d := lab.desk(client.Policy{})
		readAll(t, get(t, d.Client, up))
		ctx := &checkpoint{Context: t.Context(), pass: func() {
			d.reload(func(u *client.Upstream) { u.Name = "other" })
			synctest.Wait() // the old one is closed
		}}
		resp := getWith(t, ctx, d.Client, up)
		readAll(t, resp)
		if r := client.ReportOf(resp); r.Upstream != "other" {
			t.Errorf("the call went to %s", r.Upstream)
		}
		settled(t, d.Client)
	})
}

func TestAPickLooksAgainWhenEndpointsChangeUnderIt(t *testing.T) {
	for name, change := range map[string]func(*client.Upstream){
		"other base":       func(u *client.Upstream) { u.External = []string{"http://10.0.0.2"} },
		"name to look up":  func(u *client.Upstream) { u.External = []string{"http://up.internal"} },
		"no base":          func(u *client.Upstream) { u.External = nil },
		"other conns":      func(u *client.Upstream) { u.Policy.Conns = &client.Conns{MaxIdle: 3} },
		"renamed upstream": func(u *client.Upstream) { u.Name = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				for _, address := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
					lab.serve(address, answers("hello"))
				}
				d, dns := lab.deskNamed("http://10.0.0.1")
				dns.Host("up.internal", 60, "10.0.0.2")
				dns.Host("up.example", 60, "10.0.0.2")
				var armed atomic.Bool
				hash := func(*http.Request) string { // asked when a cluster has been found, and before an endpoint is
					if armed.CompareAndSwap(true, false) {
						d.reload(change)
						synctest.Wait()
					}
					return "key"
				}
				d.reload(func(u *client.Upstream) { u.Policy.Balance = &client.Balance{Picker: client.Rendezvous, Hash: hash} })
				readAll(t, get(t, d.Client, up))
				armed.Store(true)
				readAll(t, get(t, d.Client, up))
				if armed.Load() {
					t.Error("the key was not asked for")
				}
				settled(t, d.Client)
			})
		})
	}
}

// With no network in between, an attempt and a Reload meet often.
func TestAttemptsFindTheirEndpointsWhileTheyChange(t *testing.T) {
	noop := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	config := func(i int) client.Config {
		return client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{fmt.Sprint("http://10.0.0.1/", i%3)}, Transport: noop,
		}}}
	}
	c := newClient(t, config(0))
	var calls sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		calls.Go(func() {
			for !over.Load() {
				if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3000 {
		if err := c.Reload(config(i)); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	calls.Wait()
	settled(t, c)
}

// Whatever changes meanwhile, no call fails of it. (Not in a bubble: Go 1.26.8 crashes under the race detector when goroutines of
// one bubble find zero timers due on two processors at once, as those of so many dials are.)
func TestNoCallFailsInAStormOfReloads(t *testing.T) {
	lab := newLab(t)
	for i := range 4 {
		lab.serve(fmt.Sprintf("10.0.0.%d:80", i+1), func(w http.ResponseWriter, _ *http.Request) {
			w.Write(make([]byte, 100))
		})
	}
	d, dns := lab.deskNamed("http://up.internal")
	dns.Host("up.internal", 5, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	dns.Host("own.internal", 5, "10.0.0.4", "10.0.0.1")
	r := rand.New(rand.NewPCG(2, uint64(rand.Int64())))
	random := func() client.Config {
		cfg := d.cfg
		cfg.Strict = r.IntN(2) == 0
		policy := []client.Policy{{}, client.Standard(), hedged(time.Second)}[r.IntN(3)]
		policy.Balance = &client.Balance{Picker: []client.Picker{client.PeakEWMA, client.RoundRobin, client.LeastConnections}[r.IntN(3)]}
		if policy.Hedge == nil && policy.Eject == nil && r.IntN(2) == 0 {
			policy.Balance = nil
		}
		if r.IntN(2) == 0 {
			policy.Conns = &client.Conns{MaxIdle: 1 + r.IntN(3)}
		}
		if r.IntN(2) == 0 {
			policy.Breaker = &client.Breaker{Consecutive: 10 + r.IntN(3)}
		}
		u := client.Upstream{Name: []string{"up", "down"}[r.IntN(2)], Hosts: []string{"up.example"}, Policy: policy}
		u.External = []([]string){{"http://up.internal"}, {"http://10.0.0.4"}, {"http://10.0.0.2", "http://up.internal"}}[r.IntN(3)]
		own := client.Upstream{Name: "own", Hosts: []string{"own.internal"}, Policy: policy}
		if r.IntN(3) == 0 {
			own.External = []string{"http://10.0.0.3", "http://10.0.0.1"}
		}
		cfg.Upstreams = []client.Upstream{own, u}
		return cfg
	}
	if err := d.Reload(random()); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	var ended, over atomic.Int64
	for i := range 16 {
		calls.Go(func() {
			for over.Load() == 0 {
				url := []string{up, "http://own.internal"}[i%2]
				resp, err := d.Do(newRequest(t, t.Context(), "GET", url, nil))
				if err != nil {
					t.Error(err)
					return
				}
				readAll(t, resp)
				ended.Add(1)
			}
		})
	}
	for ended.Load() < 2000 {
		if err := d.Reload(random()); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(100) {
			runtime.Gosched()
		}
	}
	over.Store(1)
	calls.Wait()
	settled(t, d.Client)
}
