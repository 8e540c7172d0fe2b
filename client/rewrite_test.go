package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/client"
)

func TestRewriteKeepsWhatSignaturesDependOn_extensions6298(t *testing.T) {
	for _, tc := range []struct{ base, call, want string }{
		{"https://b/y/?k=1", "/v1/p%2Fq?z=2", "https://b/y/v1/p%2Fq?k=1&z=2"},
		{"https://b", "/v1", "https://b/v1"},
		{"https://b/", "/v1", "https://b/v1"},
		{"https://b/y", "", "https://b/y"},
		{"https://b/y/", "", "https://b/y/"},
		{"https://b/y", "/", "https://b/y/"},
		{"https://b/y", "/a//b/../c", "https://b/y/a//b/../c"},
		{"https://b/y", "//a", "https://b/y//a"},
		{"https://b/a%2Fb", "/c d", "https://b/a%2Fb/c%20d"},
		{"https://b/ä", "/%C3%B6%2F%C3%BC", "https://b/%C3%A4/%C3%B6%2F%C3%BC"},
		{"https://b", "/?q=a+b&flag&x=%zz", "https://b/?q=a+b&flag&x=%zz"},
		{"https://b?k=1", "/x", "https://b/x?k=1"},
		{"http://[::1]:81/y", "/x", "http://[::1]:81/y/x"},
	} {
		w := &wire{}
		c := newClient(t, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"logical.example"}, External: []string{tc.base}, Transport: w,
		}}})
		req := newRequest(t, t.Context(), "GET", "https://logical.example"+tc.call, nil)
		before := req.URL.String()
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.last().URL.String(); got != tc.want {
			t.Errorf("base %s, call %s: sent %s, want %s", tc.base, tc.call, got, tc.want)
		}
		if got := req.URL.String(); got != before || resp.Request.URL.String() != before {
			t.Errorf("the caller's URL is %s, the response's %s, want both %s", got, resp.Request.URL, before)
		}
	}
}

func TestHostHeader(t *testing.T) {
	for _, tc := range []struct {
		name     string
		preserve bool
		host     string
		want     string
	}{
		{"the base's own", false, "", "b.internal:8080"},
		{"preserved", true, "", "logical.example"},
		{"the caller's, as a reverse proxy sets it", false, "tenant.example", "tenant.example"},
		{"the caller's beats preserved", true, "tenant.example", "tenant.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &wire{}
			c := newClient(t, client.Config{Upstreams: []client.Upstream{{
				Name: "up", Hosts: []string{"logical.example"}, External: []string{"http://b.internal:8080"},
				PreserveHost: tc.preserve, Transport: w,
			}}})
			req := newRequest(t, t.Context(), "GET", "https://logical.example/", nil)
			if tc.host != "" {
				req.Host = tc.host
			}
			if _, err := c.Do(req); err != nil {
				t.Fatal(err)
			}
			if got := w.last().Host; got != tc.want {
				t.Errorf("Host = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUserInfoBecomesAuthorization(t *testing.T) {
	w := &wire{}
	c := newClient(t, client.Config{Upstreams: []client.Upstream{{Name: "up", Hosts: []string{"*"}, Transport: w}}})
	req := newRequest(t, t.Context(), "GET", "http://user:secret@api.example/x", nil)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	user, password, _ := w.last().BasicAuth()
	if user != "user" || password != "secret" || w.last().URL.User != nil {
		t.Errorf("sent user %q, password %q, URL %s", user, password, w.last().URL)
	}
	if len(req.Header) != 0 {
		t.Errorf("the caller's header was changed: %v", req.Header)
	}
	if r := client.ReportOf(resp); strings.Contains(r.String()+r.Host, "secret") {
		t.Errorf("the report shows the password: %v", r)
	}

	req.Header.Set("Authorization", "Bearer mine")
	if _, err := c.Do(req); err != nil {
		t.Fatal(err)
	}
	if got := w.last().Header.Get("Authorization"); got != "Bearer mine" {
		t.Errorf("Authorization = %q, want the caller's own", got)
	}
}

func TestReferencesToTheBaseComeBackAsLogicalOnes(t *testing.T) {
	for sent, want := range map[string]string{
		"http://b.internal:8080/y/items/7?x=1#top": "https://api.example/items/7?x=1#top",
		"http://B.internal:8080/y":                 "https://api.example/",
		"/y/items/7":                               "https://api.example/items/7",
		"/y//evil.example/x":                       "https://api.example//evil.example/x",
		"//b.internal:8080/y/items":                "https://api.example/items",
		"http://b.internal:8080/y/a%2Fb":           "https://api.example/a%2Fb",
		"items/8":                                  "items/8",
		"/elsewhere":                               "/elsewhere",
		"/yonder":                                  "/yonder",
		"http://b.internal:8080/other":             "http://b.internal:8080/other",
		"https://b.internal:8080/y/items":          "https://b.internal:8080/y/items",
		"https://cdn.example/y/items":              "https://cdn.example/y/items",
	} {
		answer := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {sent}}, Body: http.NoBody}, nil
		})
		c := newClient(t, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"api.example"}, External: []string{"http://b.internal:8080/y/"}, Transport: answer,
		}}})
		resp := get(t, c, "https://api.example/items")
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("Location %s became %s, want %s", sent, got, want)
		}
	}
}

func TestPublicURLs(t *testing.T) {
	c := newClient(t, client.Config{Side: client.Internal, Upstreams: []client.Upstream{
		{Name: "catalog", Hosts: []string{"*.shop.example", "api.shop.example"},
			Internal: []string{"http://catalog.internal:8080/v2"}, External: []string{"https://cdn.shop.example/base?k=1"}},
		{Name: "search", Hosts: []string{"search.shop.example"}},
		{Name: "any", Hosts: []string{"*.any.example"}},
	}})
	for _, tc := range []struct {
		upstream string
		side     client.Side
		ref      string
		want     string
	}{
		{"catalog", client.External, "/items/7?a=b", "https://cdn.shop.example/base/items/7?k=1&a=b"},
		{"catalog", client.Internal, "/items/7", "http://catalog.internal:8080/v2/items/7"},
		{"catalog", client.AutoSide, "/items/7", "http://catalog.internal:8080/v2/items/7"},
		{"search", client.External, "/q?x=%20", "https://search.shop.example/q?x=%20"},
		{"catalog", client.External, "/a%2Fb", "https://cdn.shop.example/base/a%2Fb?k=1"},
		{"any", client.External, "/x", ""},
		{"unknown", client.External, "/x", ""},
		{"catalog", client.External, "http://elsewhere/x", ""},
		{"catalog", client.External, "/%zz", ""},
	} {
		if got := c.URL(tc.upstream, tc.side, tc.ref); got != tc.want {
			t.Errorf("URL(%q, %v, %q) = %q, want %q", tc.upstream, tc.side, tc.ref, got, tc.want)
		}
	}
}
