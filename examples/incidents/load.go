package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is so many workers, each making one call after another.
type load struct {
	workers, calls int           // calls in all
	pause          time.Duration // of a worker between two calls; in no figure but calls per second
}

// run makes the calls and measures them. It stops early when ctx ends; a call that was not made is in no figure.
func (l load) run(ctx context.Context, call func(context.Context) error, tick func()) result {
	var (
		begun, failed atomic.Int64
		mu            sync.Mutex
		times         []time.Duration
		workers       sync.WaitGroup
	)
	start := time.Now()
	for range l.workers {
		workers.Go(func() {
			for begun.Add(1) <= int64(l.calls) && ctx.Err() == nil {
				began := time.Now()
				err := call(ctx)
				took := time.Since(began)
				if err != nil {
					failed.Add(1)
				}
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
				tick()
				rest(ctx, l.pause)
			}
		})
	}
	workers.Wait()
	elapsed := time.Since(start)

	slices.Sort(times)
	return result{
		Calls:     len(times),
		Failed:    int(failed.Load()),
		P50:       milliseconds(quantile(times, 0.50)),
		P99:       milliseconds(quantile(times, 0.99)),
		PerSecond: float64(len(times)) / elapsed.Seconds(),
		Extra:     map[string]float64{},
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// quantile returns the smallest time that at least q of all do not exceed (nearest rank).
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// get is the program code of the scenarios: it knows nothing of Sortie.
func get(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
