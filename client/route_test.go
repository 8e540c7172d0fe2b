package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/client"
)

func TestTheMostSpecificHostWins(t *testing.T) {
	wires := map[string]*wire{}
	var upstreams []client.Upstream
	for _, u := range [][2]string{
		{"all", "*"},
		{"all-8443", "*:8443"},
		{"shop", "*.shop.example"},
		{"shop-8443", "*.shop.example:8443"},
		{"eu", "*.eu.shop.example"},
		{"api", "api.shop.example"},
		{"api-9000", "api.shop.example:9000"},
		{"secure", "secure.example:443"},
		{"six", "[2001:db8::1]"},
		{"books", "bücher.example"},
	} {
		wires[u[0]] = &wire{}
		upstreams = append(upstreams, client.Upstream{Name: u[0], Hosts: []string{u[1]}, Transport: wires[u[0]]})
	}
	c := newClient(t, client.Config{Upstreams: upstreams})

	for url, want := range map[string]string{
		"http://api.shop.example/":              "api",
		"http://API.Shop.Example./":             "api",
		"http://api.shop.example:9000/":         "api-9000",
		"http://api.shop.example:9001/":         "api",
		"https://other.shop.example/":           "shop",
		"https://other.shop.example:8443/":      "shop-8443",
		"https://a.b.eu.shop.example/":          "eu",
		"https://a.b.eu.shop.example:8443/":     "eu", // the longer suffix comes before the port
		"https://shop.example/":                 "all",
		"https://shop.example:8443/":            "all-8443",
		"https://secure.example/":               "secure",
		"http://secure.example/":                "all", // port 80 is not 443
		"http://[2001:DB8::1]/":                 "six",
		"http://[2001:db8::1]:81/":              "six",
		"http://b%C3%BCcher.example/":           "books",
		"http://xn--bcher-kva.example/":         "books",
		"http://10.0.0.1/":                      "all",
		"http://one/":                           "all",
		"http://api.shop.example:/":             "api",
		"http://user:secret@api.shop.example/x": "api",
	} {
		before := len(wires[want].seen)
		resp := get(t, c, url)
		if got := client.ReportOf(resp).Upstream; got != want || len(wires[want].seen) != before+1 {
			t.Errorf("%s went to %q, want %q", url, got, want)
		}
	}
}

func TestStrictRefusesUnlistedHosts(t *testing.T) {
	body := &countingBody{Reader: strings.NewReader("x")}
	c := newClient(t, client.Config{
		Strict:    true,
		Upstreams: []client.Upstream{{Name: "api", Hosts: []string{"api.shop.example"}, Transport: &wire{}}},
	})
	_, err := c.Do(newRequest(t, t.Context(), "POST", "http://elsewhere.example/x?q=secret", body))
	switch {
	case !errors.Is(err, client.ErrNoUpstream), client.ReasonOf(err) != client.ReasonNoUpstream:
		t.Errorf("err = %v", err)
	case !client.NeverSent(err), !client.Refused(err):
		t.Errorf("NeverSent %v, Refused %v, want both", client.NeverSent(err), client.Refused(err))
	case strings.Contains(err.Error(), "secret"):
		t.Errorf("the error shows the query: %v", err)
	case body.closed != 1:
		t.Errorf("body closed %d times, want once", body.closed)
	}
}

func TestSideChoosesTheList(t *testing.T) {
	both := client.Upstream{Name: "both", Hosts: []string{"both.example"},
		Internal: []string{"http://in.internal"}, External: []string{"https://out.example"}}
	one := client.Upstream{Name: "one", Hosts: []string{"one.example"}, External: []string{"https://only.example"}}
	for _, tc := range []struct {
		name       string
		env        map[string]string
		configured client.Side
		call       client.Side
		url        string
		want       string
		side       client.Side
	}{
		{"nothing said", nil, client.AutoSide, client.AutoSide, "https://both.example/", "out.example", client.External},
		{"in Kubernetes", map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, client.AutoSide, client.AutoSide, "https://both.example/", "in.internal", client.Internal},
		{"SORTIE_SIDE before Kubernetes", map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "SORTIE_SIDE": "external"}, client.AutoSide, client.AutoSide, "https://both.example/", "out.example", client.External},
		{"Config before the environment", map[string]string{"SORTIE_SIDE": "external"}, client.Internal, client.AutoSide, "https://both.example/", "in.internal", client.Internal},
		{"the call before all", nil, client.Internal, client.External, "https://both.example/", "out.example", client.External},
		{"one list serves both sides", nil, client.Internal, client.AutoSide, "https://one.example/", "only.example", client.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			w := &wire{}
			one, both := one, both
			one.Transport, both.Transport = w, w
			c := newClient(t, client.Config{Side: tc.configured, Upstreams: []client.Upstream{both, one}})
			ctx := client.WithCall(t.Context(), client.CallOptions{Side: tc.call})
			resp := getWith(t, ctx, c, tc.url)
			if got := w.last().URL.Host; got != tc.want {
				t.Errorf("went to %s, want %s", got, tc.want)
			}
			if got := client.ReportOf(resp).Side; got != tc.side {
				t.Errorf("reported side %v, want %v", got, tc.side)
			}
		})
	}
}
