package client_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

func TestStandardFitsEveryKindOfUpstream(t *testing.T) {
	for name, u := range map[string]client.Upstream{
		"one base":  {External: []string{"https://a.example"}},
		"two lists": {Internal: []string{"http://a.internal"}, External: []string{"https://a.example"}},
		"no bases":  {},
		"a literal": {External: []string{"http://10.0.0.1"}},
		"two bases": {External: []string{"http://10.0.0.1", "http://10.0.0.2"}},
		"foreign":   {External: []string{"http://10.0.0.1"}, Transport: &wire{}},
	} {
		u.Name, u.Hosts, u.Policy = "up", []string{"up.example"}, client.Standard()
		c, err := client.New(client.Config{Upstreams: []client.Upstream{u}, Unlisted: client.Standard()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close()
	}
	one, other := client.Standard(), client.Standard()
	if one.Timeout == other.Timeout || one.Retry == other.Retry {
		t.Error("two values share a policy")
	}
}

func TestRetriesNeverAdvertiseTimeThatIsGone_envoy13196(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := client.Policy{
			Timeout: &client.Timeout{Total: 250 * time.Millisecond, Attempt: 100 * time.Millisecond, DeadlineHeader: "X-Time-Left"},
			Retry:   &client.Retry{Base: time.Millisecond, Cap: time.Millisecond},
		}
		n := sortietest.NewNetwork()
		server := n.NewUpstream(t, "10.0.0.1:80", sortietest.Hang())
		c := newClient(t, client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"}, Policy: policy,
		}}})
		start := time.Now()
		req := newRequest(t, t.Context(), "GET", up, nil)
		req.Header.Set("X-Time-Left", "99999")
		if _, err := c.Do(req); !client.IsTimeout(err) {
			t.Errorf("err = %v", err)
		}
		seen := server.Requests()
		if len(seen) < 2 {
			t.Fatalf("%d attempts", len(seen))
		}
		for i, r := range seen {
			left := 250*time.Millisecond - r.Time.Sub(start)
			want := min(left, 100*time.Millisecond).Milliseconds()
			if got := r.Header.Get("X-Time-Left"); got != fmt.Sprint(want) {
				t.Errorf("attempt %d advertises %s ms, has %d", i+1, got, want)
			}
		}
	})
}

func TestTheDeadlineHeaderIsAbsentWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Grpc-Timeout")) })
		c := lab.client(client.Policy{Timeout: &client.Timeout{Total: -1, Attempt: -1, Progress: -1, DeadlineHeader: "grpc-timeout"}})
		if got := readAll(t, get(t, c, up)); got != "" {
			t.Errorf("advertised %q", got)
		}
		ctx := client.WithCall(t.Context(), client.CallOptions{Total: 3 * time.Second})
		if got := readAll(t, getWith(t, ctx, c, up)); got != "3000000u" {
			t.Errorf("advertised %q", got)
		}
	})
}
