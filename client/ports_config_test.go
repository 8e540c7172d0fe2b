package client_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// The presets of NATs are about public IPv4 addresses; who closed first decides under the kernel's rule.
func TestPresetsRuleWhatTheyTranslate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("203.0.113.7:80", answers("hello"))
		lab.serve("10.0.0.1:80", answers("hello"))
		c := newClient(t, client.Config{
			Dial:     lab.DialContext,
			Unlisted: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Preset: client.AzureLB, Share: 2}}},
		})
		readAll(t, get(t, c, "http://203.0.113.7/"))
		readAll(t, get(t, c, "http://10.0.0.1/"))
		if p := ports(t, c, "203.0.113.7:80"); p.Preset != "azure-lb" || p.Budget != 512 || !strings.Contains(p.Source, "2026-09") {
			t.Errorf("public: %+v", p)
		}
		if p := ports(t, c, "10.0.0.1:80"); p.Preset == "azure-lb" || p.Open != 1 {
			t.Errorf("private: %+v", p)
		}
		c.CloseIdleConnections()
		synctest.Wait()
		if p := ports(t, c, "203.0.113.7:80"); p.Cooling != 1 {
			t.Errorf("closed by us: %+v", p)
		}
		time.Sleep(3 * time.Minute)
		if p := ports(t, c, "203.0.113.7:80"); p.Cooling != 1 {
			t.Errorf("after three of four minutes: %+v", p)
		}
		time.Sleep(64 * time.Second)
		if p := ports(t, c, "203.0.113.7:80"); p.Cooling != 0 {
			t.Errorf("after four minutes: %+v", p)
		}
	})
}

// One line a minute and destination, for the person on call.
func TestTheLogSaysOnceAMinuteThatPortsRunShort(t *testing.T) {
	var text bytes.Buffer
	throughNAT(t, 20, once, func(g *gated) {
		lines := func() []string { return strings.Split(strings.TrimSpace(text.String()), "\n") }
		for range 14 {
			g.call(g.Context())
		}
		if text.Len() > 0 {
			g.Fatalf("logged at 70 %%: %s", &text)
		}
		for range 10 {
			g.call(g.Context())
		}
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], `level=WARN msg="sortie: local ports to a destination run short" `+
			`destination=10.9.9.9:80 upstream=up held=15 budget=20 preset=custom`) {
			g.Errorf("logged %q", got)
		}
		time.Sleep(time.Minute)
		g.call(g.Context())
		if got := lines(); len(got) != 2 || !strings.Contains(got[1], "used up, no connection is made") {
			g.Errorf("a minute later: %q", got)
		}
	}, func(cfg *client.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
}

// Without a limit ports are counted, for Stats.
func TestNoPortsCounts(t *testing.T) {
	throughNAT(t, 100, once, func(g *gated) {
		for range 60 {
			if err := g.call(g.Context()); err != nil {
				g.Fatal(err)
			}
		}
		if p := ports(g, g.client, gatewayAddr); p.Budget != 0 || p.Dials != 60 || p.Refused != 0 || p.Preset != "" || p.PerSecond < 1 {
			g.Errorf("%+v", p)
		}
	}, func(cfg *client.Config) {
		cfg.Upstreams[0].Policy.Conns.Ports = &client.Ports{Preset: client.NoPorts}
	})
}

// The names of the presets are those of the table.
func TestPortPresetsAreThoseOfTheTable(t *testing.T) {
	names := []client.PortPreset{
		client.NoPorts, client.AzureLB, client.AzureNATGateway, client.GoogleCloudNAT, client.AWSNATGateway, client.LinuxPorts,
	}
	_, err := client.New(client.Config{Unlisted: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Preset: "?"}}}})
	for _, name := range names {
		if !strings.Contains(err.Error(), " "+string(name)) {
			t.Errorf("%q is not in %v", name, err)
		}
	}
	if slices.Contains(names, "") {
		t.Error("a preset without a name")
	}
}
