package creds_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sortie-go/sortie/creds"
)

func TestWarmReadsDoNotAllocate(t *testing.T) {
	c := newCache(t, &source{life: time.Hour}, creds.Config{})
	idle := newCache(t, &source{life: time.Hour}, creds.Config{IdleAfter: time.Hour})
	tok := newTokens(t, &issuer{life: time.Hour}, creds.Config{})
	ctx := t.Context()
	c.Retrieve(ctx)
	idle.Retrieve(ctx)
	tok.Token(ctx)
	for name, read := range map[string]func(){
		"Retrieve":                func() { c.Retrieve(ctx) },
		"Retrieve with IdleAfter": func() { idle.Retrieve(ctx) },
		"Token":                   func() { tok.Token(ctx) },
		"Peek":                    func() { c.Peek() },
	} {
		if n := testing.AllocsPerRun(100, read); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The SDK's signer on the same request, clone included, is what anybody would use instead.
func TestSigningAllocatesLittleMoreThanTheSDK(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := newCache(t, &source{life: time.Hour}, creds.Config{})
	ctx := t.Context()
	v, err := c.Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := newRequest(t, "POST", "https://search.example/logs-2026/_search?size=10&from=20", `{"query":{}}`)
	for _, name := range []string{"Content-Type", "Accept", "User-Agent", "Traceparent", "X-Opaque-Id"} {
		req.Header.Set(name, "value")
	}
	ours := &creds.SigV4{Provider: c, Region: "us-east-1", Service: "es"}
	prepared, err := ours.Prepare(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	theirs := v4.NewSigner()
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	sdk := testing.AllocsPerRun(100, func() {
		if err := theirs.SignHTTP(ctx, v, req.Clone(ctx), hash, "es", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
	})
	sortie := testing.AllocsPerRun(100, func() {
		if err := ours.Sign(prepared, req.Clone(ctx)); err != nil {
			t.Fatal(err)
		}
	})
	if sortie > sdk*1.1 {
		t.Errorf("%v allocations, the SDK's signer %v", sortie, sdk)
	}
	t.Logf("%v allocations, the SDK's signer %v", sortie, sdk)
}

// E9: fifty readers at a hundred reads a second each, a life of one second, a source of 100 ms. The cache of the SDK lets
// readers wait for 101 ms; in virtual time any wait is seen.
func TestNoReaderWaitsForARefresh_aws_sdk_go_v2949(t *testing.T) {
	src := &source{life: time.Second, took: 100 * time.Millisecond}
	story(t, src, creds.Config{}, func(t *testing.T, c *creds.Cache) {
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 137 * time.Microsecond)
				for range 500 {
					start := time.Now()
					v, err := c.Retrieve(t.Context())
					if wait := time.Since(start); err != nil || wait != 0 || !v.Expires.After(start) {
						t.Errorf("waited %v: %v", wait, err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if n := src.calls(); n > 12 || src.most != 1 {
			t.Errorf("%d calls in 5 lifetimes, %d at once", n, src.most)
		}
	})
}

func TestCachesAtRestHaveNoGoroutine(t *testing.T) {
	story(t, &source{life: time.Hour}, creds.Config{}, func(t *testing.T, _ *creds.Cache) {
		before := runtime.NumGoroutine()
		var all []*creds.Cache
		for range 100 {
			c := newCache(t, &source{life: time.Hour}, creds.Config{})
			read(t, c)
			all = append(all, c)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 5 { // a timer of the runtime or two
			t.Errorf("%d goroutines for 100 caches", n)
		}
		for _, c := range all {
			c.Close()
		}
	})
}

func BenchmarkReadInsideSign(b *testing.B) {
	c, err := creds.New(&source{life: time.Hour}, creds.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.Retrieve(b.Context())
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if !c.Warm(now) {
			b.Fatal("not warm")
		}
	}
}
