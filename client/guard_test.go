package client_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
)

func TestGuard(t *testing.T) {
	everywhere := []string{
		"127.0.0.1", "10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "8.8.8.8",
		"169.254.169.254", "100.100.100.200", "168.63.129.16",
		"[::1]", "[fd12::1]", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:10.0.0.5]", "[64:ff9b::a00:5]", "[64:ff9b::a9fe:a9fe]", "[2001:4860:4860::8888]",
	}
	metadata := map[string]bool{
		"169.254.169.254": true, "100.100.100.200": true, "168.63.129.16": true,
		"[fe80::1]": true, "[fd00:ec2::254]": true, "[64:ff9b::a9fe:a9fe]": true,
	}
	private := map[string]bool{
		"127.0.0.1": true, "10.0.0.5": true, "172.16.0.1": true, "192.168.1.1": true, "100.64.0.1": true, "0.0.0.0": true, "224.0.0.1": true,
		"[::1]": true, "[fd12::1]": true, "[::ffff:10.0.0.5]": true, "[64:ff9b::a00:5]": true,
	}
	for _, tc := range []struct {
		name   string
		guard  *client.Guard
		denied func(host string) bool
	}{
		{"none", nil, func(h string) bool { return metadata[h] }},
		{"on", &client.Guard{}, func(h string) bool { return metadata[h] || private[h] }},
		{"with an exception", &client.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, func(h string) bool {
			return metadata[h] || private[h] && h != "10.0.0.5" && h != "[::ffff:10.0.0.5]" && h != "[64:ff9b::a00:5]"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t) // whoever gets through is refused by the network
				c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.Guard = tc.guard })
				for _, host := range everywhere {
					_, err := c.Do(newRequest(t, t.Context(), "GET", "http://"+host+"/", nil))
					want := client.ReasonConnectRefused
					if tc.denied(host) {
						want = client.ReasonDenied
					}
					if got := client.ReasonOf(err); got != want {
						t.Errorf("%s: %v, want %v (%v)", host, got, want, err)
					}
					if want == client.ReasonDenied && (!errors.Is(err, client.ErrDenied) || !client.NeverSent(err) || !client.Refused(err)) {
						t.Errorf("%s: %v", host, err)
					}
				}
			})
		})
	}
}

func TestWhatTheConfigurationNamesIsMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("169.254.169.254:80", answers("metadata"))
		lab.serve("10.0.0.7:80", answers("internal"))
		c := newClient(t, client.Config{
			Dial: lab.DialContext, Guard: &client.Guard{},
			Upstreams: []client.Upstream{
				{Name: "imds", Hosts: []string{"169.254.169.254"}},
				{Name: "base", Hosts: []string{"base.example"}, External: []string{"http://10.0.0.7"}},
				{Name: "internal", Hosts: []string{"internal.example"}, Internal: []string{"http://10.0.0.8"}},
			},
		})
		for url, want := range map[string]client.Reason{
			"http://169.254.169.254/": client.ReasonOK,
			"http://base.example/":    client.ReasonOK,
			"http://internal.example": client.ReasonConnectRefused,
		} {
			resp, err := c.Do(newRequest(t, t.Context(), "GET", url, nil))
			if got := client.ReasonOf(err); got != want {
				t.Errorf("%s: %v, want %v", url, err, want)
			}
			if err == nil {
				readAll(t, resp)
			}
		}
	})
}
