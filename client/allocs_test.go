package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/client"
)

// budgets of DESIGN.md: over a wire that does nothing six allocations more than a bare http.Client, on loopback none more.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	noop := roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("hello")), Request: req}, nil
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer server.Close()
	over := func(transport http.RoundTripper, policy client.Policy) *client.Client {
		return newClient(t, client.Config{Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"*"}, External: []string{server.URL}, Transport: transport, Policy: policy,
		}}})
	}
	standard := client.Standard()
	for _, tc := range []struct {
		name   string
		bare   http.RoundTripper
		wire   http.RoundTripper
		policy client.Policy
		more   float64
	}{
		{"no wire, policies off", noop, noop, client.Policy{}, 6},
		{"no wire, timeouts", noop, noop, client.Policy{Timeout: &client.Timeout{}}, 6},
		{"no wire, standard", noop, noop, standard, 6},
		{"loopback, policies off", &http.Transport{}, nil, client.Policy{}, 0},
		{"loopback, standard", &http.Transport{}, nil, standard, 0},
	} {
		bare := allocations(t, &http.Client{Transport: tc.bare}, server.URL)
		if got := allocations(t, over(tc.wire, tc.policy), server.URL); got > bare+tc.more {
			t.Errorf("%s: %v allocations, a bare http.Client has %v", tc.name, got, bare)
		} else {
			t.Logf("%s: %v allocations, a bare http.Client has %v", tc.name, got, bare)
		}
	}
}

// allocations is what one call costs, the making of the request included.
func allocations(t *testing.T, c interface {
	Do(*http.Request) (*http.Response, error)
}, url string) float64 {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return testing.AllocsPerRun(2000, func() {
		resp, err := c.Do(newRequest(t, ctx, "GET", url+"/items/7", nil))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	})
}
