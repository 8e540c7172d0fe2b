package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// The SLA of field report 2.
const sla = 2 * time.Second

// What the four backends take for an answer, and what becomes of two of them in the middle of the run.
var speeds = [...]time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}

const (
	degraded   = 500 * time.Millisecond // the second
	breakAfter = 400                    // calls, then the second degrades and the third dies
)

func four() scenario {
	return scenario{
		name:  "four",
		title: "four backends of 5, 10, 20 and 40 ms; in the middle of the run the second slows down to 500 ms and the third dies",
		run:   runFour,
		moral: "Round robin sends a quarter of the calls to each, whatever becomes of it. Sortie sends them where they are answered, and no call fails.",
	}
}

func runFour(ctx context.Context, p *progress) ([]result, error) {
	var results []result
	for _, run := range []struct {
		name   string
		client func(*backends) (*http.Client, func(), error)
	}{{"plain, round robin", roundRobin}, {"sortie", balanced}} {
		b, err := newBackends()
		if err != nil {
			return nil, err
		}
		h, done, err := run.client(b)
		if err != nil {
			b.close()
			return nil, err
		}
		results = append(results, b.measure(ctx, p, run.name, h))
		done()
		b.close()
	}
	return results, nil
}

// backends are four servers behind one name, on 127.0.0.1 to 127.0.0.4 and one port.
type backends struct {
	all  []*sortietest.Upstream
	port string
	dns  *sortietest.DNS
}

const backendName = "backend.shop.internal"

func newBackends() (*backends, error) {
	b := &backends{dns: &sortietest.DNS{}, port: "0"}
	var addrs []string
	for i, speed := range speeds {
		addr := fmt.Sprintf("127.0.0.%d", i+1)
		up := &sortietest.Upstream{Address: net.JoinHostPort(addr, b.port), Steps: []sortietest.Step{sortietest.OK("hello").After(speed)}}
		if err := up.Listen(); err != nil {
			b.close()
			return nil, err
		}
		b.all, addrs = append(b.all, up), append(addrs, addr)
		_, b.port, _ = net.SplitHostPort(up.Addr())
	}
	b.dns.Host(backendName, 30, addrs...)
	return b, b.dns.Listen()
}

func (b *backends) close() {
	for _, up := range b.all {
		up.Close()
	}
	b.dns.Close()
}

func (b *backends) url() string { return "http://" + net.JoinHostPort(backendName, b.port) }

// measure makes the calls, and breaks two backends on the way.
func (b *backends) measure(ctx context.Context, p *progress, name string, h *http.Client) result {
	work := load{workers: 16, calls: 1000}
	var made, good atomic.Int64
	var before [len(speeds)]int
	p.begin(name, work.calls)
	start := time.Now()
	r := work.run(ctx, func(ctx context.Context) error {
		began := time.Now()
		err := get(ctx, h, b.url()+"/items/7")
		if err == nil && time.Since(began) <= sla {
			good.Add(1)
		}
		return err
	}, func() {
		if made.Add(1) == breakAfter {
			for i, up := range b.all {
				before[i] = up.Stats().Requests
			}
			b.all[1].Play(sortietest.OK("hello").After(degraded))
			b.all[2].Refuse()
		}
		p.tick()
	})
	r.Client = name
	r.Extra["within_sla_per_s"] = float64(good.Load()) / time.Since(start).Seconds()
	r.Extra["errors_percent"] = 100 * float64(r.Failed) / float64(max(r.Calls, 1))
	after := 0
	for i, up := range b.all {
		r.Connections += up.Stats().Conns
		after += up.Stats().Requests - before[i]
	}
	for i, up := range b.all {
		r.Extra[fmt.Sprintf("share_%d_percent", i+1)] = 100 * float64(up.Stats().Requests-before[i]) / float64(max(after, 1))
	}
	return r
}

// roundRobin is what a list of addresses and a counter give.
func roundRobin(b *backends) (*http.Client, func(), error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	var turn atomic.Int64
	next := func(req *http.Request) (*http.Response, error) {
		up := b.all[turn.Add(1)%int64(len(b.all))]
		out := req.Clone(req.Context())
		out.URL = &url.URL{Scheme: "http", Host: up.Addr(), Path: req.URL.Path}
		return transport.RoundTrip(out)
	}
	return &http.Client{Transport: roundTripper(next), Timeout: sla}, transport.CloseIdleConnections, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// balanced knows one name.
func balanced(b *backends) (*http.Client, func(), error) {
	res := &dnscache.Resolver{Servers: []netip.AddrPort{b.dns.Addr()}}
	policy := client.Standard()
	policy.Timeout.Total, policy.Timeout.Attempt = sla, time.Second
	c, err := client.New(client.Config{
		Resolver: res,
		Upstreams: []client.Upstream{{
			Name: "backend", Hosts: []string{backendName}, Internal: []string{b.url()}, Policy: policy,
		}},
	})
	if err != nil {
		return nil, nil, err
	}
	return c.HTTP(), func() { c.Close(); res.Close() }, nil
}
