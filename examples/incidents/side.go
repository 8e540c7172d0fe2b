package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// Distances of field report 1.
const (
	publicRTT  = 150 * time.Millisecond
	privateRTT = 3 * time.Millisecond
)

// side is field report 1: code shared by browser and server knew only the public address.
func side() scenario {
	return scenario{
		name:  "side",
		title: "a service in the cluster calls an API by its public name: 150 ms away in public, 3 ms in private",
		run:   runSide,
		moral: "The same code calls the same URL. Sortie knows that it runs inside, and that the API has an address there.",
	}
}

func runSide(ctx context.Context, p *progress) ([]result, error) {
	api := &sortietest.Upstream{Steps: []sortietest.Step{sortietest.OK(`{"id": 7}`)}}
	if err := api.Listen(); err != nil {
		return nil, err
	}
	defer api.Close()
	public, err := listenAt(api, publicRTT)
	if err != nil {
		return nil, err
	}
	defer public.Close()
	private, err := listenAt(api, privateRTT)
	if err != nil {
		return nil, err
	}
	defer private.Close()

	work := load{workers: 8, calls: 200}
	url := public.URL() + "/items/7" // all that the program knows

	plainTransport := http.DefaultTransport.(*http.Transport).Clone()
	plain := measure(ctx, p, work, "plain", &http.Client{Transport: plainTransport}, url)
	plainTransport.CloseIdleConnections()
	plain.Connections = public.Stats().Conns

	var server average
	c, err := client.New(client.Config{
		Side: client.Internal, // in Kubernetes New finds this out by itself
		Upstreams: []client.Upstream{{
			Name:     "api",
			Hosts:    []string{public.Addr()},
			Internal: []string{private.URL()},
			External: []string{public.URL()},
			Policy:   client.Policy{Timeout: &client.Timeout{}},
		}},
		OnCall: func(r client.Report) { server.add(r.Account.Get(metrics.PhaseServer)) },
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sortie := measure(ctx, p, work, "sortie", c.HTTP(), url)
	sortie.Connections = private.Stats().Conns
	sortie.Extra["mean_server_ms"] = server.milliseconds()
	sortie.Extra["public_connections"] = float64(public.Stats().Conns - plain.Connections)
	return []result{plain, sortie}, nil
}

// measure makes the calls of one client.
func measure(ctx context.Context, p *progress, work load, name string, c *http.Client, url string) result {
	p.begin(name, work.calls)
	r := work.run(ctx, func(ctx context.Context) error { return get(ctx, c, url) }, p.tick)
	r.Client = name
	return r
}

// listenAt puts an upstream at a distance. A new connection costs a round trip, as it would over a network.
func listenAt(up *sortietest.Upstream, rtt time.Duration) (*sortietest.Delay, error) {
	d := &sortietest.Delay{Target: up.Addr(), RTT: rtt, Connect: rtt}
	return d, d.Listen()
}

// average is a mean of durations that happened. The zero value is empty; it is safe for concurrent use.
type average struct {
	mu    sync.Mutex
	sum   time.Duration
	count int
}

func (a *average) add(d time.Duration, happened bool) {
	if !happened {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum += d
	a.count++
}

func (a *average) milliseconds() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 0 {
		return 0
	}
	return milliseconds(a.sum / time.Duration(a.count))
}

// take returns the sum and begins anew.
func (a *average) take() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := a.sum
	a.sum, a.count = 0, 0
	return sum
}
