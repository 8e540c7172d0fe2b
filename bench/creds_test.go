package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sortie-go/sortie/creds"
)

// sessionToken is about as long as those of AWS.
var sessionToken = strings.Repeat("t", 800)

// keySource hands out keys that live for life, after took.
type keySource struct {
	life, took time.Duration
	asked      atomic.Int64
}

func (s *keySource) Retrieve(context.Context) (aws.Credentials, error) {
	n := s.asked.Add(1)
	time.Sleep(s.took)
	return aws.Credentials{
		AccessKeyID: fmt.Sprintf("SORTIEBENCH%04d", n), SecretAccessKey: "secret", SessionToken: sessionToken,
		CanExpire: true, Expires: time.Now().Add(s.life),
	}, nil
}

// credentialCaches are what keeps credentials: Sortie's, and the SDK's with the window that its users set.
func credentialCaches(b *testing.B, life, took, window time.Duration) map[string]func() (aws.CredentialsProvider, *keySource) {
	b.Helper()
	return map[string]func() (aws.CredentialsProvider, *keySource){
		"sortie": func() (aws.CredentialsProvider, *keySource) {
			src := &keySource{life: life, took: took}
			c, err := creds.New(src, creds.Config{Soft: window, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { c.Close() })
			return c, src
		},
		"aws.CredentialsCache": func() (aws.CredentialsProvider, *keySource) {
			src := &keySource{life: life, took: took}
			return aws.NewCredentialsCache(src, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = window }), src
		},
	}
}

// BenchmarkCredentials is a read of credentials that are in hand.
func BenchmarkCredentials(b *testing.B) {
	for _, name := range []string{"sortie", "aws.CredentialsCache"} {
		p, _ := credentialCaches(b, time.Hour, 0, 0)[name]()
		b.Run("warm/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Retrieve(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("parallel/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := p.Retrieve(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	src := &keySource{life: time.Hour}
	c, err := creds.New(src, creds.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.Retrieve(b.Context())
	b.Run("peek/sortie", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Peek()
		}
	})
	b.Run("clock", func(b *testing.B) { // what a read cannot do without
		for b.Loop() {
			time.Now()
		}
	})
}

// BenchmarkCredentialsAtExpiry is field report 5 in small: 50 callers at a hundred reads a second each, keys that live for
// a second, a source that takes 100 ms. One iteration is one second; what counts is the longest read.
func BenchmarkCredentialsAtExpiry(b *testing.B) {
	for _, window := range []time.Duration{0, 500 * time.Millisecond} {
		for _, name := range []string{"sortie", "aws.CredentialsCache"} {
			b.Run(name+"/window="+window.String(), func(b *testing.B) {
				p, src := credentialCaches(b, time.Second, 100*time.Millisecond, window)[name]()
				if _, err := p.Retrieve(b.Context()); err != nil {
					b.Fatal(err)
				}
				var took []time.Duration
				for b.Loop() {
					took = append(took, readFor(b, p, time.Second)...)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
				b.ReportMetric(float64(src.asked.Load())/float64(len(took)), "fetches/read")
			})
		}
	}
}

// readFor reads for a while from 50 goroutines, and returns how long each read took.
func readFor(b *testing.B, p aws.CredentialsProvider, d time.Duration) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var readers sync.WaitGroup
	end := time.Now().Add(d)
	for range 50 {
		readers.Go(func() {
			var mine []time.Duration
			for time.Now().Before(end) {
				start := time.Now()
				if _, err := p.Retrieve(b.Context()); err != nil {
					b.Error(err)
				}
				mine = append(mine, time.Since(start))
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	readers.Wait()
	return all
}

// BenchmarkCredentialsWindowBeyondLifetime is the setting of field report 5: the window is as long as the keys live.
func BenchmarkCredentialsWindowBeyondLifetime(b *testing.B) {
	for _, name := range []string{"sortie", "aws.CredentialsCache"} {
		b.Run(name, func(b *testing.B) {
			p, src := credentialCaches(b, 15*time.Minute, 0, 15*time.Minute)[name]()
			for b.Loop() {
				if _, err := p.Retrieve(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(src.asked.Load())/float64(b.N), "fetches/read")
		})
	}
}

// BenchmarkSign signs a search, clone included. The hash of the body is at hand for both.
func BenchmarkSign(b *testing.B) {
	src := &keySource{life: time.Hour}
	c, err := creds.New(src, creds.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx := b.Context()
	id, err := c.Retrieve(ctx)
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://search.example/logs-2026/_search?size=10&from=20",
		strings.NewReader(`{"query":{"match_all":{}}}`))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"Content-Type", "Accept", "User-Agent", "Traceparent", "X-Opaque-Id"} {
		req.Header.Set(name, "value")
	}
	b.Run("sortie", func(b *testing.B) {
		s := &creds.SigV4{Provider: c, Region: "us-east-1", Service: "es"}
		ctx, err := s.Prepare(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Sign(ctx, req.Clone(ctx)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("aws v4.Signer", func(b *testing.B) {
		const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		s := v4.NewSigner()
		b.ReportAllocs()
		for b.Loop() {
			if err := s.SignHTTP(ctx, id, req.Clone(ctx), hash, "es", "us-east-1", time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCredentialsMemory is what a cache with a value holds. At rest it has no goroutine.
func BenchmarkCredentialsMemory(b *testing.B) {
	const n = 1000
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := used()
		all := make([]*creds.Cache, n)
		for i := range all {
			c, err := creds.New(&keySource{life: time.Hour}, creds.Config{})
			if err != nil {
				b.Fatal(err)
			}
			c.Retrieve(b.Context())
			all[i] = c
		}
		b.ReportMetric(float64(used()-before)/n, "B/cache")
		for _, c := range all {
			c.Close()
		}
	}
}
