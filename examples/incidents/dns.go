package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/metrics"
	"github.com/sortie-go/sortie/sortietest"
)

// What field reports 1 and 5 saw of DNS in containers: a lookup takes 20 to 90 ms, and with "ndots:5" a name is tried under
// each search domain before it is asked for as it stands.
const (
	lookupMin = 20 * time.Millisecond
	lookupMax = 90 * time.Millisecond
)

var searchDomains = []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "eu-west-1.compute.internal"}

func dns() scenario {
	return scenario{
		name:  "dns",
		title: "each call needs a new connection, a lookup takes 20 to 90 ms, and resolv.conf says ndots:5 with four domains; then the resolver dies",
		run:   runDNS,
		moral: "Sortie asks once, for the right name, ahead of the TTL's end, and keeps a good answer while the resolver is dead.",
	}
}

func runDNS(ctx context.Context, p *progress) ([]result, error) {
	resolver := &sortietest.DNS{Respond: slowly}
	if err := resolver.Listen(); err != nil {
		return nil, err
	}
	defer resolver.Close()
	api := &sortietest.Upstream{Steps: []sortietest.Step{sortietest.OK("hello").ThenClose()}}
	if err := api.Listen(); err != nil {
		return nil, err
	}
	defer api.Close()
	_, port, err := net.SplitHostPort(api.Addr())
	if err != nil {
		return nil, err
	}
	url := "http://api.shop.example:" + port + "/items/7"

	var plainDNS, sortieDNS average
	plain := &http.Client{Timeout: callTime, Transport: &http.Transport{DialContext: searchingDialer(resolver, &plainDNS)}}
	res := &dnscache.Resolver{Servers: []netip.AddrPort{resolver.Addr()}}
	defer res.Close()
	c, err := client.New(client.Config{
		Resolver: res,
		OnCall:   func(r client.Report) { sortieDNS.add(r.Account.Get(metrics.PhaseDNS)) },
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sortie := c.HTTP()
	sortie.Timeout = callTime

	var results []result
	run := func(name string, work load, h *http.Client, dns *average) {
		asked, conns := len(resolver.Questions()), api.Stats().Conns
		r := measure(ctx, p, work, name, h, url)
		r.Connections = api.Stats().Conns - conns
		r.Extra["questions"] = float64(len(resolver.Questions()) - asked)
		if dns != nil {
			r.Extra["dns_ms_per_call"] = dns.take().Seconds() * 1000 / float64(max(r.Calls, 1))
		}
		results = append(results, r)
	}
	healthy, dead := load{workers: 4, calls: 40}, load{workers: 4, calls: 8}
	run("plain", healthy, plain, &plainDNS)
	run("sortie", healthy, sortie, &sortieDNS)
	resolver.Outage(sortietest.DNSReply{Drop: true})
	run("plain, resolver dead", dead, plain, nil) // its lookups outlive the calls, so there is no time to show
	run("sortie, resolver dead", dead, sortie, nil)
	return results, nil
}

// callTime bounds each call of the scenario, so that those without an address fail within it.
const callTime = time.Second

// slowly answers as a cluster's resolver does: only the absolute name exists, and every answer takes its time.
func slowly(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
	reply := sortietest.NXDomain()
	if q.Name == "api.shop.example." {
		reply = sortietest.NoData()
		if q.Type == "A" {
			reply = sortietest.DNSReply{Addrs: []string{"127.0.0.1"}, TTL: 30}
		}
	}
	reply.Delay = lookupMin + rand.N(lookupMax-lookupMin)
	return reply, true
}

// searchingDialer dials as package net does under "options ndots:5" and "search" with the domains above. Package net reads
// them from /etc/resolv.conf alone, which an example cannot change, so the walk is made here, name by name, with its resolver.
func searchingDialer(server *sortietest.DNS, spent *average) func(context.Context, string, string) (net.Conn, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: server.DialLoopback}
	var dialer net.Dialer
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		addrs, err := search(ctx, resolver, host)
		spent.add(time.Since(start), true)
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, network, net.JoinHostPort(addrs[0].Unmap().String(), port))
	}
}

func search(ctx context.Context, resolver *net.Resolver, host string) (addrs []netip.Addr, err error) {
	for _, domain := range append(searchDomains, "") {
		name := host + "."
		if domain != "" {
			name += domain + "."
		}
		if addrs, err = resolver.LookupNetIP(ctx, "ip", name); err == nil || ctx.Err() != nil {
			break
		}
	}
	return addrs, err
}
