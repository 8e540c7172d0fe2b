package client_test

import (
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
)

func TestAHostIsTheSameInEverySpelling(t *testing.T) {
	w := &wire{}
	c := newClient(t, client.Config{Strict: true, Upstreams: []client.Upstream{{
		Name: "up", Transport: w, Hosts: []string{
			"my_service", "A.Example:080", "[2001:0DB8::0001]", "10.0.0.5", "[::ffff:10.0.0.6]", "*.Sub_Domain.example.", "bücher.example:8443",
		},
	}}})
	for _, url := range []string{
		"http://my_service/", "http://MY_SERVICE/", "http://My_Service.:80/",
		"http://a.example/", "http://a.example:80/", "http://a.example:080/", "https://A.EXAMPLE:0080/", "http://a.example./", "http://a.example:/",
		"http://[2001:db8::1]/", "http://[2001:db8:0::1]:81/", "http://[2001:0db8:0000::0001]/", "http://[2001:DB8:0:0:0:0:0:1]/",
		"http://10.0.0.5/", "http://[::ffff:10.0.0.5]/", "http://[::FFFF:a00:5]/", "http://10.0.0.6/",
		"http://x.sub_domain.example/", "http://X.SUB_Domain.Example./",
		"https://b%C3%BCcher.example:8443/", "https://BÜCHER.example:08443/", "https://xn--bcher-kva.example:8443/",
	} {
		if _, err := c.Do(newRequest(t, t.Context(), "GET", url, nil)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"http://my-service/", "http://a.example:8080/", "https://a.example/", "http://[2001:db8::2]/", "http://10.0.0.50/", "http://sub_domain.example/",
	} {
		if _, err := c.Do(newRequest(t, t.Context(), "GET", url, nil)); client.ReasonOf(err) != client.ReasonNoUpstream {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOneServerIsOneEndpointInEverySpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("[2001:db8::1]:80", answers("six"))
		lab.serve("10.1.0.1:80", answers("four"))
		c := lab.client(client.Policy{})
		for url, want := range map[string]string{
			"http://[2001:db8::1]/": "six", "http://[2001:DB8:0::1]:80/": "six", "http://[2001:db8::0001]:0080/": "six",
			"http://10.1.0.1/": "four", "http://10.1.0.1:/": "four", "http://[::ffff:10.1.0.1]:080/": "four",
		} {
			if got := readAll(t, get(t, c, url)); got != want {
				t.Errorf("%s: read %q", url, got)
			}
		}
		if eps := unlistedStats(c).Endpoints; len(eps) != 2 {
			t.Errorf("%d endpoints: %+v", len(eps), eps)
		}
	})
}

func TestWhatNewWasGivenMayChangeAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allow := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		hosts := []string{"up.example"}
		statuses := []int{503}
		lab := newLab(t)
		lab.serve("127.0.0.1:80", answers("hello"))
		requests := 0
		c := newClient(t, client.Config{Dial: lab.DialContext, Guard: &client.Guard{Allow: allow}, Upstreams: []client.Upstream{{
			Name: "up", Hosts: hosts, Transport: countingStatus(&requests, 502),
			Policy: client.Policy{Retry: &client.Retry{Statuses: statuses}},
		}}})
		allow[0], hosts[0], statuses[0] = netip.MustParsePrefix("127.0.0.0/8"), "other.example", 502
		if _, err := c.Do(newRequest(t, t.Context(), "GET", "http://127.0.0.1/", nil)); client.ReasonOf(err) != client.ReasonDenied {
			t.Errorf("Guard.Allow: %v", err)
		}
		if readAll(t, get(t, c, up)); requests != 1 {
			t.Errorf("%d requests for a status that was not listed", requests)
		}
	})
}

// countingStatus is a Transport that answers with a status, and counts.
func countingStatus(n *int, status int) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		*n++
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}
}
