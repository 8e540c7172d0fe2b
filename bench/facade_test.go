package bench_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/sortie-go/sortie/facade"
)

var pageParts = [8]string{"user", "news", "recs", "stock", "price", "cart", "menu", "ads"}

func nothing(context.Context) (int, error) { return 1, nil }

// BenchmarkPage is what it costs to make one answer out of eight calls, above the calls themselves, which do nothing here.
// The peers run functions in parallel and return the first error; with a deadline they do a little more of what the facade
// does: it also has fallbacks, dependencies, permits and the report.
//
// Beside the time stands that of the processors, garbage collection included: what others do on the machine changes it less.
func BenchmarkPage(b *testing.B) {
	for _, c := range []struct {
		name string
		page func(context.Context) (int, error)
	}{
		{"serial", serialPage},
		{"errgroup", errgroupPage},
		{"errgroup-deadline", withDeadline(errgroupPage)},
		{"conc", concPage},
		{"conc-deadline", withDeadline(concPage)},
		{"sortie", sortiePage},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context()) // as that of a request is
			defer cancel()
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if n, err := c.page(ctx); n != len(pageParts) || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func serialPage(ctx context.Context) (total int, err error) {
	for range pageParts {
		n, err := nothing(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func errgroupPage(ctx context.Context) (total int, err error) {
	g, ctx := errgroup.WithContext(ctx)
	var results [len(pageParts)]int
	for i := range results {
		g.Go(func() (err error) {
			results[i], err = nothing(ctx)
			return err
		})
	}
	err = g.Wait()
	for _, n := range results {
		total += n
	}
	return total, err
}

func concPage(ctx context.Context) (total int, err error) {
	p := pool.NewWithResults[int]().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range pageParts {
		p.Go(nothing)
	}
	results, err := p.Wait()
	for _, n := range results {
		total += n
	}
	return total, err
}

func withDeadline(page func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return page(ctx)
	}
}

func sortiePage(ctx context.Context) (int, error) {
	total, _, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (total int, err error) {
		var parts [len(pageParts)]*facade.Future[int]
		for i, name := range pageParts {
			parts[i] = facade.Go(s, name, nothing)
		}
		for _, p := range parts {
			n, err := p.Get(ctx)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	})
	return total, err
}
