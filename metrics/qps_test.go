package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

func TestRateLooksBackOverFullSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Config{Window: 10 * time.Second})
		h := m.Inbound(http.NotFoundHandler())
		arrive := func(n int) {
			for range n {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
		}
		rate := func(want float64, known bool) {
			t.Helper()
			if s := m.Stats(); s.QueriesPerSecond != want || s.Known != known {
				t.Errorf("%v, known %v; want %v", s.QueriesPerSecond, s.Known, want)
			}
		}
		arrive(3)
		rate(0, false)
		time.Sleep(1500 * ms)
		rate(3, true)
		arrive(7) // in a second that is not full yet
		rate(3, true)
		time.Sleep(500 * ms)
		rate(5, true)
		time.Sleep(9 * time.Second) // the first second leaves the window of ten
		rate(0.7, true)
		time.Sleep(time.Second)
		rate(0, true)
		time.Sleep(55 * time.Second) // the ring has turned: its first slots are in use again, with nothing new in them
		rate(0, true)
		arrive(20)
		time.Sleep(time.Second)
		rate(2, true)
		if n := m.Stats().Arrivals; n != 30 {
			t.Errorf("%d arrivals", n)
		}
	})
}

func TestNoArrivalIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Config{})
		h := m.Inbound(http.NotFoundHandler())
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				for range 2000 {
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		if s := m.Stats(); s.QueriesPerSecond != 16000 {
			t.Error(s.QueriesPerSecond)
		}
	})
}
