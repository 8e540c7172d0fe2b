package interop_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// Refused calls are outcomes too, and never reach the wire.
func TestRefusedCallsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Limit: &client.Limit{Max: 1, Queue: -1}, Breaker: &client.Breaker{Consecutive: 1}, Timeout: &client.Timeout{Attempt: time.Second}},
			func(cfg *client.Config) { cfg.Strict = true })
		m.call(t.Context(), http.MethodGet, "http://unlisted.example")
		m.server.Play(sortietest.OK("hello").After(500 * time.Millisecond))
		var first sync.WaitGroup
		first.Go(func() { m.call(t.Context(), http.MethodGet, up) })
		synctest.Wait()
		m.call(t.Context(), http.MethodGet, up) // the only slot is taken
		m.want("sortie.limit.slots", map[string]float64{"sortie.upstream=up": 1})
		if n := m.values("sortie.call.active")["sortie.upstream=up"]; n != 1 {
			t.Errorf("%v calls are active", n)
		}
		first.Wait()
		m.server.Play(sortietest.Status(503))
		m.call(t.Context(), http.MethodGet, up) // trips the breaker
		m.call(t.Context(), http.MethodGet, up) // which refuses this one
		m.Shutdown(t.Context())
		m.call(t.Context(), http.MethodGet, up)

		side := " http.request.method=GET sortie.side=external sortie.upstream="
		m.want("sortie.call.duration", map[string]float64{
			"error.type=no_upstream" + side + "_OTHER": 1,
			strings.TrimSpace(side) + "up":             1,
			"error.type=queue_full" + side + "up":      1,
			"error.type=503" + side + "up":             1,
			"error.type=breaker_open" + side + "up":    1,
			"error.type=draining" + side + "up":        1,
		})
		m.want("sortie.limit.rejected", map[string]float64{"sortie.reason=full sortie.upstream=up": 1})
		m.want("sortie.breaker.transitions", map[string]float64{"sortie.endpoint.state=open sortie.upstream=up": 1})
		m.want("sortie.breaker.rejected", map[string]float64{"sortie.upstream=up": 1})
		m.want("sortie.call.attempts", map[string]float64{"sortie.upstream=up": 1, "error.type=503 sortie.upstream=up": 1})
	})
}

func TestHedgesAndSuppressedRetriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{
			Retry: &client.Retry{}, Hedge: &client.Hedge{Delay: 50 * time.Millisecond, ExtraLoad: 1}, Budget: client.Budget{Percent: 100},
		}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = append(cfg.Upstreams[0].External, "http://10.0.0.2")
		})
		other := m.net.NewUpstream(t, "10.0.0.2:80", sortietest.OK("quick"))
		m.server.Play(sortietest.OK("slow").After(time.Second))
		m.call(t.Context(), http.MethodGet, up)
		m.call(t.Context(), http.MethodPost, up) // slow too, and may not be made twice
		m.server.Play(sortietest.Status(503))
		other.Play(sortietest.Status(503))
		m.call(t.Context(), http.MethodPost, up)
		m.want("sortie.hedge.attempts", map[string]float64{"sortie.outcome=won sortie.upstream=up": 1})
		m.want("sortie.hedge.suppressed", map[string]float64{"sortie.reason=not_idempotent sortie.upstream=up": 1})
		m.want("sortie.retry.suppressed", map[string]float64{"sortie.reason=not_idempotent sortie.upstream=up": 1})
		time.Sleep(2 * time.Second)
		_, attempts := m.spansOf()
		hedges := 0
		for _, s := range attempts {
			if attr(s, "sortie.hedge") == "true" {
				hedges++
			}
		}
		if hedges != 1 {
			t.Errorf("%d spans of hedges", hedges)
		}
	})
}

func TestCallsBelongToTheirInboundRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var scopes []metrics.ScopeReport
		tel := observed(t, metrics.Config{OnScope: func(r metrics.ScopeReport) { scopes = append(scopes, r) }})
		n := sortietest.NewNetwork()
		n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("hello").After(100*time.Millisecond))
		c := newClient(t, client.Config{Metrics: tel.Metrics, Dial: n.DialContext, Upstreams: []client.Upstream{{
			Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"},
		}}})
		ctx, scope := tel.StartScope(t.Context(), "job")
		for range 2 {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, up, nil)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
		scope.End()
		if len(scopes) != 1 {
			t.Fatalf("%d scopes", len(scopes))
		}
		r := scopes[0]
		if r.Calls != 2 || r.Waiting != 200*time.Millisecond || r.Own != 50*time.Millisecond || len(r.Chain) != 2 {
			t.Errorf("scope %+v", r)
		}
		for i, rec := range r.Records {
			if len(rec.Attempts) != 1 || rec.Attempts[0].Start != time.Duration(i)*100*time.Millisecond || rec.Attempts[0].Endpoint != "http://10.0.0.1" {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// The dialled address is a fact of the wire; the series show the configured host. A series for each peer of a connection would be one
// for each pod that ever was.
func TestSeriesNameTheConfiguredHost_semconv3279(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{}, func(cfg *client.Config) {
			dial := cfg.Dial
			cfg.Upstreams[0].External[0] = "http://localhost"
			cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dial(ctx, network, "10.0.0.1:80")
			}
		})
		m.server.Play(sortietest.OK("hello"))
		m.call(t.Context(), http.MethodGet, up)
		for _, name := range []string{"http.client.request.duration", "http.client.open_connections", "sortie.connection.opened"} {
			found := m.values(name)
			if len(found) == 0 {
				t.Errorf("%s has no series", name)
			}
			for series := range found {
				named := strings.Contains(series, "server.address=localhost server.port=80") || name == "sortie.connection.opened"
				if !named || strings.Contains(series, "10.0.0.1") || strings.Contains(series, "peer") {
					t.Errorf("%s: series %s", name, series)
				}
			}
		}
	})
}

// failsafe-go#141: an empty budget of hedges sends none, leaves the first attempt alone, and says so.
func TestAHedgeThatTheBudgetRefusesIsCounted_failsafe141(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Hedge: &client.Hedge{Delay: 20 * time.Millisecond, ExtraLoad: 0.05}}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = append(cfg.Upstreams[0].External, "http://10.0.0.2")
		})
		m.net.NewUpstream(t, "10.0.0.2:80", sortietest.OK("other"))
		m.server.Play(sortietest.OK("hello").After(100 * time.Millisecond))
		if status, err := m.call(t.Context(), http.MethodGet, up); status != 200 {
			t.Error(status, err)
		}
		m.want("sortie.hedge.suppressed", map[string]float64{"sortie.reason=budget sortie.upstream=up": 1})
		m.want("sortie.hedge.attempts", map[string]float64{})
	})
}

// What was discarded to make a retry was no answer of 0 bytes.
func TestADiscardedBodyHasNoSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Retry: &client.Retry{}})
		m.server.Play(sortietest.Status(503).Body(strings.Repeat("x", 1000)), sortietest.OK("hello"))
		m.call(t.Context(), http.MethodGet, up)
		for _, p := range m.collect()["http.client.response.body.size"] {
			if status, _ := p.set.Value("http.response.status_code"); status.AsInt64() != 200 || p.count != 1 || p.value != 5 {
				t.Errorf("%s: %d sizes, %v bytes", p.series(), p.count, p.value)
			}
		}
	})
}

// A retry that was decided on and then had no time left is why the caller has the 503.
func TestARetryThatShutdownCutsShortIsSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Retry: &client.Retry{MaxRetryAfter: 10 * time.Second}})
		m.server.Play(sortietest.Status(503).With("Retry-After", "3"))
		var call sync.WaitGroup
		call.Go(func() {
			if status, err := m.call(t.Context(), http.MethodGet, up); status != 503 {
				t.Error(status, err)
			}
		})
		time.Sleep(time.Second)
		m.Close()
		call.Wait()
		m.want("sortie.retry.suppressed", map[string]float64{"sortie.reason=draining sortie.upstream=up": 1})
		m.want("sortie.retry.attempts", map[string]float64{})
	})
}

// What a user's code panics with while an attempt is being made leaves no span open and nothing uncounted.
func TestAPanicInGetBodyIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Retry: &client.Retry{}})
		m.server.Play(sortietest.Status(503))
		func() {
			defer func() { recover() }()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, up, io.MultiReader(strings.NewReader("body")))
			req.GetBody = func() (io.ReadCloser, error) { panic("mine") }
			m.Do(req)
		}()
		calls, attempts := m.spansOf()
		if len(calls) != 1 || len(attempts) != 2 {
			t.Errorf("%d spans of calls, %d of attempts", len(calls), len(attempts))
		}
		for series, n := range m.values("http.client.active_requests") {
			if n != 0 {
				t.Errorf("%s: %v attempts are active", series, n)
			}
		}
		m.want("sortie.call.attempts", map[string]float64{"error.type=panic sortie.upstream=up": 1})
	})
}
