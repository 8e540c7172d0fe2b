package client_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// Another budget is in force at once, for what is held already too; the old one has no say any more.
func TestReloadChangesTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		quiet := slog.New(slog.DiscardHandler)
		config := func(budget int) client.Config {
			return client.Config{
				Dial: lab.DialContext, Logger: quiet,
				Upstreams: []client.Upstream{{
					Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"},
					Policy: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: budget, Hold: time.Minute}, MaxWait: time.Second}},
				}},
			}
		}
		c := newClient(t, config(100))
		readAll(t, get(t, c, up))
		if err := c.Reload(config(100)); err != nil {
			t.Fatal(err)
		}
		readAll(t, get(t, c, up))
		if p := ports(t, c, "10.0.0.1:80"); p.Dials != 1 || p.Budget != 100 {
			t.Errorf("with the same budget: %+v, want the connection kept", p)
		}
		if err := c.Reload(config(2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the old connection is gone, and its port is free
		open := get(t, c, up)
		_, err := c.Do(newRequest(t, t.Context(), "GET", up, nil))
		if e, ok := errors.AsType[*client.PortError](err); !ok || e.Budget != 2 || e.Held != 1 {
			t.Errorf("err = %v", err)
		}
		readAll(t, open)
		if p := ports(t, c, "10.0.0.1:80"); p.Budget != 2 {
			t.Errorf("with another budget: %+v", p)
		}
		if err := c.Reload(config(50)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		readAll(t, get(t, c, up))
		if p := ports(t, c, "10.0.0.1:80"); p.Budget != 50 {
			t.Errorf("with a wider one: %+v", p)
		}
		other := config(50)
		other.Logger = nil
		if err := c.Reload(other); err == nil || !strings.Contains(err.Error(), "Logger: cannot change") {
			t.Errorf("another logger: %v", err)
		}
	})
}
