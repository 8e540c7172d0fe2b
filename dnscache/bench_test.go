package dnscache_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// warm returns a Resolver that has looked up api.example.com, for real time.
func warm(tb testing.TB, dns *sortietest.DNS) *dnscache.Resolver {
	tb.Helper()
	r := &dnscache.Resolver{Mode: dnscache.Absolute, DialDNS: dns.DialContext, MaxNames: 20_000}
	tb.Cleanup(func() { r.Close() })
	dns.Host("api.example.com", 300, "192.0.2.1", "2001:db8::1")
	if _, err := r.Lookup(tb.Context(), "api.example.com"); err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestHitDoesNotAllocate(t *testing.T) {
	r, ctx := warm(t, new(sortietest.DNS)), t.Context()
	n := testing.AllocsPerRun(1000, func() {
		res, err := r.Lookup(ctx, "api.example.com")
		if err != nil || res.Len() != 2 {
			t.Fatal(res, err)
		}
		for a := range res.All() {
			_ = a.Is4()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { r.Lookup(ctx, "API.example.com") }); n > 1 {
		t.Errorf("%v allocations for another spelling", n)
	}
}

func BenchmarkHit(b *testing.B) {
	r, ctx := warm(b, new(sortietest.DNS)), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r.Lookup(ctx, "api.example.com")
	}
}

func BenchmarkHitParallel(b *testing.B) {
	r, ctx := warm(b, new(sortietest.DNS)), b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Lookup(ctx, "api.example.com")
		}
	})
}

func BenchmarkOtherSpelling(b *testing.B) {
	r, ctx := warm(b, new(sortietest.DNS)), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r.Lookup(ctx, "API.example.com")
	}
}

// BenchmarkFirstLookup is all that is not the network: package net's resolver, two questions, the tap.
func BenchmarkFirstLookup(b *testing.B) {
	dns := new(sortietest.DNS)
	r, ctx := warm(b, dns), b.Context()
	dns.Respond = func(q sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
		return reply(300, "192.0.2.1", "2001:db8::1"), true
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := r.Lookup(ctx, fmt.Sprintf("host%d.example.com", i)); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 0 {
			dns.Reset()
		}
	}
}

// BenchmarkMemoryPerName fills the table with 10,000 names and reports what each of them occupies.
func BenchmarkMemoryPerName(b *testing.B) {
	const names = 10_000
	dns := &sortietest.DNS{Respond: func(sortietest.DNSQuestion) (sortietest.DNSReply, bool) {
		return reply(300, "192.0.2.1", "2001:db8::1"), true
	}}
	for b.Loop() {
		r := &dnscache.Resolver{Mode: dnscache.Absolute, DialDNS: dns.DialContext, MaxNames: names}
		before := heap()
		for i := range names {
			if _, err := r.Lookup(context.Background(), fmt.Sprintf("host%d.example.com", i)); err != nil {
				b.Fatal(err)
			}
			if i%1000 == 0 {
				dns.Reset()
			}
		}
		dns.Reset()
		b.ReportMetric(float64(heap()-before)/names, "B/name")
		if n := r.Stats().Names; n != names {
			b.Fatalf("%d names", n)
		}
		r.Close()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
