package bench_test

import (
	"context"
	"net"
	"testing"

	godns "github.com/ncruces/go-dns"
	rsdnscache "github.com/rs/dnscache"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// BenchmarkDNSHit is what a lookup costs whose answer is remembered, beside package net, which asks every time. The server is
// on loopback, so that of net's time nothing is the network's.
func BenchmarkDNSHit(b *testing.B) {
	const name = "api.example.com"
	dns := sortietest.NewDNS(b)
	dns.Host(name, 3600, "192.0.2.1", "2001:db8::1")
	plain := &net.Resolver{PreferGo: true, Dial: dns.DialLoopback}

	b.Run("sortie", func(b *testing.B) {
		r := &dnscache.Resolver{Mode: dnscache.Absolute, DialDNS: dns.DialLoopback}
		defer r.Close()
		benchLookup(b, func(ctx context.Context) (int, error) {
			res, err := r.Lookup(ctx, name)
			return res.Len(), err
		})
	})
	b.Run("rs", func(b *testing.B) {
		r := &rsdnscache.Resolver{Resolver: plain}
		benchLookup(b, func(ctx context.Context) (int, error) {
			addrs, err := r.LookupHost(ctx, name)
			return len(addrs), err
		})
	})
	b.Run("ncruces", func(b *testing.B) {
		r := godns.NewCachingResolver(plain)
		benchLookup(b, func(ctx context.Context) (int, error) {
			addrs, err := r.LookupNetIP(ctx, "ip", name+".")
			return len(addrs), err
		})
	})
	b.Run("net", func(b *testing.B) {
		benchLookup(b, func(ctx context.Context) (int, error) {
			addrs, err := plain.LookupNetIP(ctx, "ip", name+".")
			return len(addrs), err
		})
	})
}

// benchLookup measures lookup, after a first one that fills its cache. It must find both addresses.
func benchLookup(b *testing.B, lookup func(context.Context) (int, error)) {
	ctx := b.Context()
	if n, err := lookup(ctx); n != 2 || err != nil {
		b.Fatal(n, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if n, err := lookup(ctx); n != 2 || err != nil {
			b.Fatal(n, err)
		}
	}
}
