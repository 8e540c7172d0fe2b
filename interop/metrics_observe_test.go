package interop_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// Two clients may have an upstream of the same name: counts add up, and of ports the fullest destination counts. What nobody
// mentions is not reported.
func TestObservationsOfOneNameAddUp(t *testing.T) {
	tel := observed(t, metrics.Config{})
	one, two := tel.Upstream("catalog"), tel.Upstream("catalog")
	stop := one.Observe(func(o *metrics.Observation) {
		o.Calls(3)
		o.Limit(10, 1)
		o.Ports(0.5)
		o.Endpoints("internal", "closed", 2)
	})
	defer two.Observe(func(o *metrics.Observation) {
		o.Calls(4)
		o.Limit(20, 0)
		o.Ports(0.25)
		o.Endpoints("internal", "ejected", 1)
	})()
	const catalog = "sortie.upstream=catalog"
	tel.want("sortie.call.active", map[string]float64{catalog: 7})
	tel.want("sortie.limit.slots", map[string]float64{catalog: 30})
	tel.want("sortie.limit.waiting", map[string]float64{catalog: 1})
	tel.want("sortie.port.utilization", map[string]float64{catalog: 0.5})
	tel.want("sortie.retry.budget.tokens", map[string]float64{})
	tel.want("sortie.endpoints", map[string]float64{
		"sortie.endpoint.state=closed sortie.side=internal " + catalog:  2,
		"sortie.endpoint.state=ejected sortie.side=internal " + catalog: 1,
	})
	stop()
	tel.want("sortie.call.active", map[string]float64{catalog: 4})
	tel.Close()
	tel.want("sortie.call.active", map[string]float64{})
}

// Calls end on many goroutines while a reader collects and new names turn up: nothing is lost or counted twice.
func TestRecordingWhileCollecting(t *testing.T) {
	tel := observed(t, metrics.Config{MaxUpstreams: 20})
	const workers, calls = 8, 300
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range calls {
				u := tel.Upstream(fmt.Sprint("u", (w+i)%40))
				start := time.Now()
				ctx, call := u.StartCall(t.Context(), "internal", start)
				_, attempt := u.Endpoint("catalog.example", 1+i%50).StartAttempt(ctx, metrics.AttemptStart{
					Method: "GET", URL: parse(t, "https://catalog.example/"), Start: start,
				})
				attempt.End(answered(start, 200))
				call.End(&metrics.Call{Method: "GET", Start: start, Attempts: 1})
			}
		})
	}
	for range 20 {
		tel.collect()
	}
	all.Wait()
	for _, name := range []string{"sortie.call.duration", "sortie.call.attempts", "http.client.request.duration", "sortie.connection.acquired"} {
		sum := 0.0
		for _, n := range tel.values(name) {
			sum += n
		}
		if sum != workers*calls {
			t.Errorf("%s: %v, want %d", name, sum, workers*calls)
		}
	}
	if n := len(tel.ended()); n != 2*workers*calls {
		t.Errorf("%d spans", n)
	}
}
