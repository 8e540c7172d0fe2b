package interop_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

// A call may cost four allocations more with metrics than without.
func TestAllocationsOfMeasuredCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates; CI runs the allocation budgets without it")
	}
	off, on := allocationsOf(t, nil), allocationsOf(t, measured(t))
	t.Logf("%v allocations without metrics, %v with", off, on)
	if on > off+4 {
		t.Errorf("%v allocations with metrics, and %v without: more than 4 above", on, off)
	}
}

func allocationsOf(t *testing.T, m *metrics.Metrics) float64 {
	c := newClient(t, client.Config{Metrics: m, Upstreams: []client.Upstream{{
		Name: "up", Hosts: []string{"up.example"}, External: []string{"http://10.0.0.1"}, Transport: noWire{}, Policy: client.Standard(),
	}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return testing.AllocsPerRun(2000, func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, up, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
}
