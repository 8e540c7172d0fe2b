package pool_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/sortie-go/sortie/internal/pool"
)

// A request through the pool costs clearly less than one through http.Transport, its body read to the end.
func TestAllocationsPerRequest(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	url, p := loopback(t)
	stock := &http.Transport{}
	defer stock.CloseIdleConnections()
	buf := make([]byte, 4096)
	measure := func(roundTrip func(*http.Request) (*http.Response, error)) float64 {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(200, func() {
			resp, err := roundTrip(req)
			if err == nil {
				err = readAll(resp, buf)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	through := func(want pool.Want) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) {
			resp, _, err := p.Do(req.WithContext(req.Context()), want)
			return resp, err
		}
	}
	bare := measure(stock.RoundTrip)
	if got := measure(through(pool.Want{OwnContext: true})); got > bare-5 {
		t.Errorf("%v allocations, http.Transport %v", got, bare)
	}
	if got := measure(through(pool.Want{})); got > bare {
		t.Errorf("%v allocations with a context of the pool's, http.Transport %v", got, bare)
	}
}
