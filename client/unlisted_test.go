package client_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
)

func unlistedStats(c *client.Client) client.UpstreamStats {
	all := c.Stats().Upstreams
	return all[len(all)-1]
}

func TestUnlistedHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.MaxUnlisted = 3 })
		for i := range 10 {
			address := fmt.Sprintf("10.1.0.%d:80", i+1)
			lab.serve(address, answers("x"))
			readAll(t, get(t, c, "http://"+address+"/"))
		}
		stats := unlistedStats(c)
		if len(stats.Endpoints) != 3 || stats.Ended[client.ReasonOK] != 10 {
			t.Fatalf("%d endpoints kept, %v calls", len(stats.Endpoints), stats.Ended)
		}
		for i, want := range []string{"http://10.1.0.10:80", "http://10.1.0.9:80", "http://10.1.0.8:80"} {
			if got := stats.Endpoints[i].Base; got != want {
				t.Errorf("endpoint %d is %s, want %s", i, got, want)
			}
		}
	})
}

func TestANewcomerAmongBusyHostsIsServedButNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.MaxUnlisted = 1 })
		for i := range 2 {
			lab.serve(fmt.Sprintf("10.1.0.%d:80", i+1), answers("hello"))
		}
		busy := get(t, c, "http://10.1.0.1/")
		newcomer := get(t, c, "http://10.1.0.2/")
		if stats := unlistedStats(c); len(stats.Endpoints) != 1 || stats.Open != 2 {
			t.Errorf("stats %+v", stats)
		}
		if got := readAll(t, newcomer); got != "hello" {
			t.Errorf("read %q", got)
		}
		if got := readAll(t, busy); got != "hello" {
			t.Errorf("read %q", got)
		}
		if stats := unlistedStats(c); len(stats.Endpoints) != 1 || stats.Endpoints[0].Base != "http://10.1.0.1:80" {
			t.Errorf("kept %+v", stats.Endpoints)
		}
	})
}

func TestUnlistedHostsHaveTheirOwnPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.1.0.1:80", hangs)
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Unlisted.Timeout = &client.Timeout{Total: 1e9, Attempt: -1, Progress: -1}
		})
		_, err := c.Do(newRequest(t, t.Context(), "GET", "http://10.1.0.1/", nil))
		if client.ReasonOf(err) != client.ReasonDeadline {
			t.Errorf("err = %v", err)
		}
		if r := unlistedStats(c); r.Ended[client.ReasonDeadline] != 1 {
			t.Errorf("stats %v", r.Ended)
		}
	})
}

func TestAnUpstreamWithoutBasesLeavesTheURLAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.1.0.1:8080", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+r.RequestURI) })
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams = []client.Upstream{{Name: "self", Hosts: []string{"10.1.0.1"}}}
		})
		resp := get(t, c, "http://10.1.0.1:8080/a%2Fb//c?x=1")
		if got := readAll(t, resp); got != "10.1.0.1:8080/a%2Fb//c?x=1" {
			t.Errorf("server saw %s", got)
		}
		if r := client.ReportOf(resp); r.Upstream != "self" || r.Tier != client.AutoSide {
			t.Errorf("report %+v", r)
		}
	})
}
