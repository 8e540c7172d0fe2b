package client_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sortie-go/sortie/client"
)

func TestWhatHasNoEffectOrNoMeaningIsAMistake(t *testing.T) {
	const field = "Upstreams[0]."
	host := func(hosts ...string) client.Config {
		return client.Config{Upstreams: []client.Upstream{{Name: "a", Hosts: hosts}}}
	}
	base := func(url string) client.Config {
		return client.Config{Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"a"}, External: []string{url}}}}
	}
	named := func(name string, external ...string) client.Config {
		return client.Config{Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"*"}, ServerName: name, External: external}}}
	}
	allow := func(p netip.Prefix) client.Config {
		return client.Config{Guard: &client.Guard{Allow: []netip.Prefix{p}}}
	}
	conns := func(c client.Conns) client.Config {
		return client.Config{Unlisted: client.Policy{Conns: &c}, Upstreams: []client.Upstream{
			{Name: "a", Hosts: []string{"a"}, Policy: client.Policy{Conns: &c}}}}
	}
	dialled := conns(client.Conns{UserTimeout: time.Second})
	dialled.Dial = (&net.Dialer{}).DialContext

	for name, tc := range map[string]struct {
		cfg  client.Config
		path string
	}{
		"a server name without a base":      {named("n"), field + "ServerName: "},
		"a server name without TLS":         {named("n", "http://b"), field + "ServerName: "},
		"a server name that is a URL":       {named("https://n", "https://b"), field + "ServerName: "},
		"a server name with a space":        {named("x y", "https://b"), field + "ServerName: "},
		"a host with a space":               {host("a b"), field + "Hosts[0]: "},
		"an IPv6 address without brackets":  {host("2001:db8::1"), field + "Hosts[0]: "},
		"something after the bracket":       {host("[::1]x"), field + "Hosts[0]: "},
		"an empty label":                    {host("a..b"), field + "Hosts[0]: "},
		"a host of dots":                    {host(".."), field + "Hosts[0]: "},
		"a wildcard of dots":                {host("*.."), field + "Hosts[0]: "},
		"a label too long":                  {host(strings.Repeat("x", 64) + ".example"), field + "Hosts[0]: "},
		"a port too high":                   {host("a:65536"), field + "Hosts[0]: "},
		"the same port, with zeros":         {host("a:80", "a:0080"), field + "Hosts[1]: "},
		"the same address, other digits":    {host("[::1]", "[0:0::1]"), field + "Hosts[1]: "},
		"the same address, mapped":          {host("10.0.0.1", "[::ffff:10.0.0.1]"), field + "Hosts[1]: "},
		"a base with a space":               {base("http://a b"), field + "External[0]: "},
		"a base that is an open bracket":    {base("http://[::1"), field + "External[0]: "},
		"no prefix":                         {allow(netip.Prefix{}), "Guard.Allow[0]: "},
		"a link-local prefix":               {allow(netip.MustParsePrefix("169.254.0.0/16")), "Guard.Allow[0]: "},
		"a mapped prefix":                   {allow(netip.MustParsePrefix("::ffff:10.0.0.0/104")), "Guard.Allow[0]: "},
		"pings over HTTP/1":                 {conns(client.Conns{Protocol: client.HTTP1, PingAfter: time.Second}), field + "Policy.Conns.Protocol: "},
		"pings over HTTP/1, unlisted":       {conns(client.Conns{Protocol: client.HTTP1, PingAfter: time.Second}), "Unlisted.Conns.Protocol: "},
		"streams over HTTP/1":               {conns(client.Conns{Protocol: client.HTTP1, MaxStreams: 5}), field + "Policy.Conns.Protocol: "},
		"no such protocol":                  {conns(client.Conns{Protocol: 9}), field + "Policy.Conns.Protocol: "},
		"socket options on others' sockets": {dialled, field + "Policy.Conns.UserTimeout: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.New(tc.cfg)
			if err == nil {
				t.Fatal("New accepted it")
			}
			if !hasPrefix(strings.Split(err.Error(), "\n"), tc.path) {
				t.Errorf("no mistake at %s\n%v", tc.path, err)
			}
		})
	}
}

func TestMistakesThatAreNone(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"underscores": {Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"my_service"}, Internal: []string{"http://my_service:080/"}}}},
		"a trailing dot": {Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"*.shop.example.", "shop.example."},
			Internal: []string{"https://shop.example."}, ServerName: "shop.example."}}},
		"an IPv6 base": {Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"[::1]:80"}, Internal: []string{"http://[::1]:80"}}}},
		"Guard.Allow":  {Guard: &client.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}},
		"H2C, no pings": {Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"a"}, Internal: []string{"http://b"},
			Policy: client.Policy{Conns: &client.Conns{Protocol: client.H2C, PingAfter: -1}}}}},
	} {
		c, err := client.New(cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close()
	}
}
