package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/facade"
	"github.com/sortie-go/sortie/sortietest"
)

func page() scenario {
	return scenario{
		name:  "facade",
		title: "a page of 8 calls of 20 ms, some of which need another's answer; now and then an optional one hangs and a required one fails",
		run:   runPage,
		moral: "Serial code pays for each call. Naive parallel code waits for the slowest, and fails with any. A page of parts leaves out what it can do without.",
	}
}

// What a page is made of, and what each part needs first. The last two can be left out.
var (
	pageParts    = []string{"user", "cart", "product", "price", "stock", "reviews", "similar", "adverts"}
	pageNeeds    = map[string]string{"cart": "user", "price": "product", "stock": "product", "similar": "product"}
	pageOptional = map[string]bool{"similar": true, "adverts": true}
)

const pageTime = 300 * time.Millisecond

func runPage(ctx context.Context, p *progress) ([]result, error) {
	var results []result
	for _, run := range []struct {
		name  string
		build func(context.Context, fetch) error
	}{{"plain, serial", serialPage}, {"plain, parallel", parallelPage}, {"sortie", facadePage}} {
		up := &sortietest.Upstream{Respond: misbehaving()}
		if err := up.Listen(); err != nil {
			return nil, err
		}
		policy := client.Policy{Timeout: &client.Timeout{}, Conns: &client.Conns{MaxConns: 64}}
		c, err := client.New(client.Config{Unlisted: policy}) // the same client for all: what differs is the page
		if err != nil {
			up.Close()
			return nil, err
		}
		h := c.HTTP()
		one := func(ctx context.Context, part string) error { return fetchPart(ctx, h, up.URL()+"/"+part) }
		work := load{workers: 4, calls: 60}
		p.begin(run.name, work.calls)
		r := work.run(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pageTime)
			defer cancel()
			return run.build(ctx, one)
		}, p.tick)
		r.Client, r.Connections = run.name, up.Stats().Conns
		r.Extra["calls_to_upstreams"] = float64(up.Stats().Requests)
		r.Extra["errors_percent"] = 100 * float64(r.Failed) / float64(max(r.Calls, 1))
		results = append(results, r)
		c.Close()
		up.Close()
	}
	return results, nil
}

// misbehaving answers in 20 ms, but every fifth "adverts" hangs and every twentieth "price" fails.
func misbehaving() func(*http.Request) sortietest.Step {
	var mu sync.Mutex
	count := map[string]int{}
	return func(r *http.Request) sortietest.Step {
		mu.Lock()
		defer mu.Unlock()
		count[r.URL.Path]++
		switch n := count[r.URL.Path]; {
		case r.URL.Path == "/adverts" && n%5 == 0:
			return sortietest.Hang()
		case r.URL.Path == "/price" && n%20 == 0:
			return sortietest.Status(http.StatusInternalServerError)
		}
		return sortietest.OK("part").After(20 * time.Millisecond)
	}
}

// fetch gets one part.
type fetch func(ctx context.Context, part string) error

func fetchPart(ctx context.Context, h *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// serialPage is "just one more promise", one after another.
func serialPage(ctx context.Context, get fetch) error {
	for _, part := range pageParts {
		if err := get(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// parallelPage starts everything that it can, and waits for all of it.
func parallelPage(ctx context.Context, get fetch) error {
	errs := make([]error, len(pageParts))
	done := map[string]chan struct{}{}
	for _, part := range pageParts {
		done[part] = make(chan struct{})
	}
	var parts sync.WaitGroup
	for i, part := range pageParts {
		parts.Go(func() {
			defer close(done[part])
			if need, ok := pageNeeds[part]; ok {
				<-done[need]
			}
			errs[i] = get(ctx, part)
		})
	}
	parts.Wait()
	return errors.Join(errs...)
}

// facadePage says which part needs which, and which may be missing.
func facadePage(ctx context.Context, get fetch) error {
	_, _, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (struct{}, error) {
		futures := map[string]*facade.Future[bool]{}
		for _, part := range pageParts { // what others need stands before them
			need := futures[pageNeeds[part]]
			futures[part] = facade.Go(s, part, func(ctx context.Context) (bool, error) {
				if need != nil {
					if _, err := need.Get(ctx); err != nil {
						return false, err
					}
				}
				return true, get(ctx, part)
			}, optional(part)...)
		}
		for _, f := range futures {
			if _, err := f.Get(ctx); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

func optional(part string) []facade.Part[bool] {
	if !pageOptional[part] {
		return nil
	}
	return []facade.Part[bool]{{Optional: true, Timeout: 60 * time.Millisecond}}
}
