package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

func TestARemovedUpstreamEndsWithItsLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(2*time.Minute))
		d := lab.desk(client.Policy{}, func(cfg *client.Config) { cfg.Strict = true })
		get(t, d.Client, up).Body.Close()
		long := get(t, d.Client, up)
		ups := d.cfg.Upstreams
		d.cfg.Upstreams = nil
		if err := d.Reload(d.cfg); err != nil {
			t.Fatal(err)
		}
		if err := d.fails(up); !errors.Is(err, client.ErrNoUpstream) || !client.NeverSent(err) {
			t.Errorf("a new call: %v", err)
		}
		if u := d.stats("up"); !u.Removed || u.Open != 1 || u.Ended[client.ReasonOK] != 1 || u.Endpoints[0].Active != 1 {
			t.Errorf("while its call runs: %+v", u)
		}
		d.cfg.Upstreams = ups // there is one with this name again: another
		if err := d.Reload(d.cfg); err != nil {
			t.Fatal(err)
		}
		readAll(t, get(t, d.Client, up))
		if n := len(d.Stats().Upstreams); n != 2 {
			t.Errorf("%d upstreams, want the new and the old one", n)
		}
		if got := readAll(t, long); got != "done" {
			t.Errorf("read %q", got)
		}
		synctest.Wait()
		if all := d.Stats().Upstreams; len(all) != 1 || all[0].Removed {
			t.Errorf("after its last call: %+v", all)
		}
		if n := len(lab.Conns("10.0.0.1:80")); n != 1 {
			t.Errorf("%d connections, want that of the new one", n)
		}
	})
}

func TestACallAtARemovedUpstreamMayStillRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		requests := 0
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 {
				time.Sleep(time.Second)
				w.WriteHeader(503)
			}
		})
		d := lab.desk(client.Policy{Retry: &client.Retry{}})
		time.AfterFunc(500*time.Millisecond, func() {
			d.cfg.Upstreams = nil
			if err := d.Reload(d.cfg); err != nil {
				t.Error(err)
			}
		})
		if resp := get(t, d.Client, up); resp.StatusCode != 200 || requests != 2 {
			t.Errorf("%s after %d requests", resp.Status, requests)
		}
	})
}

func TestWhatDrainsForTooLongIsCut(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*client.Config)
		reason client.Reason
	}{
		{"upstream", func(cfg *client.Config) { cfg.Upstreams = nil }, client.ReasonDraining},
		{"base", func(cfg *client.Config) { cfg.Upstreams[0].External = []string{"http://10.0.0.2"} }, client.ReasonBodyBroken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", slowBody(time.Hour))
				d := lab.desk(client.Policy{})
				resp := get(t, d.Client, up)
				tc.change(&d.cfg)
				if err := d.Reload(d.cfg); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := io.ReadAll(resp.Body); client.ReasonOf(err) != tc.reason || time.Since(start) != 5*time.Minute {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				resp.Body.Close()
				settled(t, d.Client)
			})
		})
	}
}

func TestABaseComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Minute))
		lab.serve("10.0.0.2:80", answers("second"))
		d := lab.desk(client.Policy{Retry: &client.Retry{}})
		get(t, d.Client, up).Body.Close()
		long := get(t, d.Client, up)
		d.reload(func(u *client.Upstream) { u.External = []string{"http://10.0.0.2/v2", "http://10.0.0.1"} })
		if got := readAll(t, get(t, d.Client, up)); got != "second" {
			t.Errorf("the first base is now the second, which said %q", got)
		}
		d.reload(func(u *client.Upstream) { u.External = []string{"http://10.0.0.2/v2"} })
		for _, e := range d.stats("up").Endpoints {
			if drains := e.State == "draining"; drains != (e.Base == "http://10.0.0.1") || drains && (e.Attempts != 1 || e.Active != 1) {
				t.Errorf("%+v", e)
			}
		}
		synctest.Wait()
		if n := len(lab.Conns("10.0.0.1:80")); n != 1 {
			t.Errorf("%d connections to the base that is gone, want that of the call that runs", n)
		}
		if got := readAll(t, long); got != "done" {
			t.Errorf("read %q", got)
		}
		synctest.Wait()
		if n, eps := len(lab.Conns("10.0.0.1:80")), d.stats("up").Endpoints; n != 0 || len(eps) != 1 {
			t.Errorf("%d connections, endpoints %+v", n, eps)
		}
		d.reload(func(u *client.Upstream) { u.External = []string{"http://10.0.0.1", "http://10.0.0.2/v2"} })
		if resp := get(t, d.Client, up); client.ReportOf(resp).Attempts[0].Endpoint != "http://10.0.0.1" {
			t.Errorf("back again: %+v", client.ReportOf(resp))
		} else {
			resp.Body.Close()
		}
	})
}

func TestOtherConnectionSettingsMeanOtherConnections(t *testing.T) {
	for name, change := range map[string]func(*client.Upstream){
		"conns":     func(u *client.Upstream) { u.Policy.Conns = &client.Conns{MaxAge: time.Hour} },
		"TLS":       func(u *client.Upstream) { u.Policy.Conns = &client.Conns{TLS: new(tls.Config)} },
		"protocol":  func(u *client.Upstream) { u.Policy.Conns = &client.Conns{Protocol: client.HTTP1} },
		"transport": func(u *client.Upstream) { u.Transport = http.DefaultTransport },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				long := slowBody(time.Minute)
				lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/long" {
						long(w, r)
					}
				})
				policy := client.Standard()
				policy.Timeout = &client.Timeout{Total: -1, Progress: -1}
				d := lab.desk(policy)
				readAll(t, get(t, d.Client, up))
				running := get(t, d.Client, up+"/long")
				d.reload(change)
				if name == "transport" {
					d.reload(func(u *client.Upstream) { u.Transport = nil })
				}
				fresh := get(t, d.Client, up)
				readAll(t, fresh)
				if client.ReportOf(fresh).Attempts[0].Conn.Reused {
					t.Error("a connection with the old settings was used")
				}
				if conns := d.cfg.Upstreams[0].Policy.Conns; conns != nil {
					same := *conns
					d.reload(func(u *client.Upstream) { u.Policy.Conns = &same })
				}
				again := get(t, d.Client, up)
				readAll(t, again)
				if !client.ReportOf(again).Attempts[0].Conn.Reused {
					t.Error("a connection with the same settings was lost")
				}
				if got := readAll(t, running); got != "done" {
					t.Errorf("read %q", got)
				}
				settled(t, d.Client)
			})
		})
	}
}

func TestShutdownWaitsForWhatAReloadRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Minute))
		d := lab.desk(client.Policy{Conns: &client.Conns{DrainBytes: -1}})
		first := get(t, d.Client, up)
		d.reload(func(u *client.Upstream) { u.External = []string{"http://10.0.0.1/again"} })
		second := get(t, d.Client, up)
		d.cfg.Upstreams = nil
		if err := d.Reload(d.cfg); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() { first.Body.Close() })
		time.AfterFunc(time.Second, func() { second.Body.Close() })
		start := time.Now()
		ended := make(chan error)
		go func() { ended <- d.Shutdown(context.Background()) }()
		synctest.Wait()
		if err := d.Reload(d.cfg); !errors.Is(err, client.ErrDraining) {
			t.Errorf("a Reload during Shutdown: %v", err)
		}
		if err := <-ended; err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("Shutdown returned %v after %v", err, time.Since(start))
		}
		if err := d.Reload(d.cfg); !errors.Is(err, client.ErrClosed) {
			t.Errorf("a Reload after it: %v", err)
		}
		if n := len(lab.Conns("10.0.0.1:80")); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

func TestCloseCutsWhatAReloadRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		d := lab.desk(client.Policy{})
		resp := get(t, d.Client, up)
		d.cfg.Upstreams = nil
		if err := d.Reload(d.cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err == nil || err.Error() != "client: shutdown cancelled calls (up: 1 open, oldest 1s): context deadline exceeded" {
			t.Errorf("err = %v", err)
		}
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, client.ErrDraining) {
			t.Errorf("the body: %v", err)
		}
	})
}

func TestAClientThatDrainsMayBeReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		d := lab.desk(client.Policy{Conns: &client.Conns{MinIdle: 4}})
		synctest.Wait()
		d.Drain()
		dials := lab.Dials("10.0.0.1:80")
		d.reload(func(u *client.Upstream) { u.Policy.Conns = &client.Conns{MinIdle: 5} })
		readAll(t, get(t, d.Client, up))
		synctest.Wait()
		if n := lab.Dials("10.0.0.1:80") - dials; n != 1 {
			t.Errorf("%d dials for one call: connections were kept ready by a client that drains", n)
		}
	})
}

func TestAReloadTightensAndLoosensTheGuard(t *testing.T) {
	for name, url := range map[string]string{"name": up, "balanced": up, "unlisted": "http://10.0.0.1", "unlisted name": "http://up.internal"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", answers("hello"))
				d, dns := lab.deskNamed("http://up.internal")
				dns.Host("up.internal", 60, "10.0.0.1")
				if name == "balanced" {
					d.reload(func(u *client.Upstream) { u.Policy.Balance = &client.Balance{} })
				}
				reused := func() bool {
					t.Helper()
					resp := get(t, d.Client, url)
					readAll(t, resp)
					return client.ReportOf(resp).Attempts[0].Conn.Reused
				}
				reused()
				d.cfg.Guard = &client.Guard{}
				d.reload(func(*client.Upstream) {})
				if err := d.fails(url); !errors.Is(err, client.ErrDenied) {
					t.Errorf("guarded: %v", err)
				}
				d.cfg.Guard = &client.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
				d.reload(func(*client.Upstream) {})
				if reused() {
					t.Error("the connection outlived a guard that forbade it")
				}
				d.cfg.Guard = nil
				d.reload(func(*client.Upstream) {})
				if !reused() {
					t.Error("a guard that forbids less has closed a connection")
				}
			})
		})
	}
}
