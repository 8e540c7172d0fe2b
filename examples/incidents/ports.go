package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// Field report 3 had 1,024 ports, each kept for 4 minutes after its connection. Here it is a sixteenth of the ports, and
// half a second stands for a minute.
const (
	gatewayPorts   = 64
	gatewayHold    = 2 * time.Second
	callsOfPage    = 5
	pageTimeout    = 300 * time.Millisecond
	deliberatelyOf = 8 // ports, for a budget that is too small
)

func ports() scenario {
	return scenario{
		name:  "ports",
		title: "each page makes five calls of 80 ms through a gateway of 64 ports, which keeps a port for 2 s after its connection and drops what does not fit",
		run:   runPorts,
		moral: "A plain client keeps two idle connections per host and opens new ones for the rest, until the gateway answers no more. Sortie keeps what it " +
			"opens. Where nothing can be kept, a budget refuses at once, with the time to come back, what the gateway would let hang.",
	}
}

func runPorts(ctx context.Context, p *progress) ([]result, error) {
	var results []result
	for _, run := range []struct {
		name   string
		step   sortietest.Step
		client func(*sortietest.NAT) (*http.Client, func(), error)
	}{
		{"plain", answer, plainThrough},
		{"sortie", answer, func(g *sortietest.NAT) (*http.Client, func(), error) { return sortieThrough(g, gatewayPorts) }},
		{"sortie, no reuse, budget of 8", answer.ThenClose(), func(g *sortietest.NAT) (*http.Client, func(), error) {
			return sortieThrough(g, deliberatelyOf)
		}},
	} {
		r, err := measurePages(ctx, p, run.name, run.step, run.client)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

var answer = sortietest.OK(`{"id": 7}`).After(80 * time.Millisecond)

// measurePages serves pages with one client, through a gateway of their own.
func measurePages(ctx context.Context, p *progress, name string, step sortietest.Step,
	newClient func(*sortietest.NAT) (*http.Client, func(), error),
) (result, error) {
	api := &sortietest.Upstream{Steps: []sortietest.Step{step}}
	if err := api.Listen(); err != nil {
		return result{}, err
	}
	defer api.Close()
	gateway := &sortietest.NAT{Target: api.Addr(), Ports: gatewayPorts, Hold: gatewayHold}
	if err := gateway.Listen(); err != nil {
		return result{}, err
	}
	defer gateway.Close()
	h, done, err := newClient(gateway)
	if err != nil {
		return result{}, err
	}
	defer done()

	work := load{workers: 8, calls: 64, pause: 100 * time.Millisecond} // visitors, who read what they get
	p.begin(name, work.calls)
	var calls outcomes
	r := work.run(ctx, func(ctx context.Context) error { return page5(ctx, h, gateway.URL()+"/items/7", &calls) }, p.tick)
	s := gateway.Stats()
	r.Client, r.Connections = name, s.Conns
	r.Extra["most_ports_held"] = float64(s.MostHeld)
	r.Extra["syns_dropped"] = float64(s.Dropped)
	calls.report(r.Extra)
	return r, nil
}

// page5 is the program code: five calls at a time, all of which a page needs.
func page5(ctx context.Context, c *http.Client, url string, calls *outcomes) error {
	var errs [callsOfPage]error
	var parts sync.WaitGroup
	for i := range errs {
		parts.Go(func() {
			errs[i] = get(ctx, c, url)
			calls.add(errs[i])
		})
	}
	parts.Wait()
	return errors.Join(errs[:]...)
}

// outcomes count the outbound calls by how they ended.
type outcomes struct {
	made, failed, timedOut, refused atomic.Int64
	retryAfter                      atomic.Int64 // of the last refusal
}

func (o *outcomes) add(err error) {
	o.made.Add(1)
	if err == nil {
		return
	}
	o.failed.Add(1)
	if e, ok := errors.AsType[*client.PortError](err); ok {
		o.refused.Add(1)
		o.retryAfter.Store(int64(e.RetryAfter))
	} else if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		o.timedOut.Add(1)
	}
}

func (o *outcomes) report(extra map[string]float64) {
	extra["outbound_calls"] = float64(o.made.Load())
	extra["outbound_failed"] = float64(o.failed.Load())
	extra["outbound_timed_out"] = float64(o.timedOut.Load())
	extra["outbound_refused"] = float64(o.refused.Load())
	if o.refused.Load() > 0 {
		extra["retry_after_ms"] = milliseconds(time.Duration(o.retryAfter.Load()))
	}
}

// plainThrough is the client everybody begins with, with a timeout.
func plainThrough(*sortietest.NAT) (*http.Client, func(), error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: transport, Timeout: pageTimeout}, transport.CloseIdleConnections, nil
}

// sortieThrough knows how many ports the gateway has, or is told so.
func sortieThrough(gateway *sortietest.NAT, budget int) (*http.Client, func(), error) {
	c, err := client.New(client.Config{
		Upstreams: []client.Upstream{{
			Name: "api", Hosts: []string{gateway.Addr()},
			Policy: client.Policy{
				Timeout: &client.Timeout{Total: pageTimeout},
				Conns:   &client.Conns{Ports: &client.Ports{Ports: budget, Hold: gatewayHold}},
			},
		}},
		Logger: slog.New(slog.DiscardHandler), // the table says it all
	})
	if err != nil {
		return nil, nil, err
	}
	return c.HTTP(), func() { c.Close() }, nil
}
