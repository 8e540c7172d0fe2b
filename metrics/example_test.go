package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/sortie-go/sortie/facade"
	"github.com/sortie-go/sortie/metrics"
)

// The probes stay outside, so that they do not count as work.
func ExampleMetrics_Inbound() {
	m, err := metrics.New(metrics.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", r.PathValue("id"))
	})
	outer := http.NewServeMux()
	outer.Handle("/", m.Inbound(mux))
	outer.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})

	for _, path := range []string{"/items/7", "/healthz", "/items/8"} {
		outer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	fmt.Println(m.Stats().Arrivals, "requests")
	// Output: 2 requests
}

// What is nil is off: the program is the same with and without telemetry.
func ExampleMetrics_nil() {
	var m *metrics.Metrics
	_, _, err := facade.Do(context.Background(), facade.Options{Name: "page", Metrics: m},
		func(context.Context, *facade.Scope) (int, error) { return 1, nil })
	fmt.Println(err, m.Stats().Arrivals)
	// Output: <nil> 0
}

// A job that is no HTTP request has a scope of its own. OnScope hears of every request and job that has ended.
func ExampleMetrics_StartScope() {
	m, err := metrics.New(metrics.Config{
		OnScope: func(r metrics.ScopeReport) { fmt.Println(r.Name, "made", r.Calls, "calls") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	ctx, scope := m.StartScope(context.Background(), "nightly")
	defer scope.End()
	_ = ctx // calls made with it, through package client, belong to the job
	// Output: nightly made 0 calls
}

func ExampleRedactURL() {
	u, err := url.Parse("https://user:pass@store.example/k?color=blue&X-Amz-Signature=0f0f")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(metrics.RedactURL(u))
	// Output: https://REDACTED:REDACTED@store.example/k?color=blue&X-Amz-Signature=REDACTED
}
