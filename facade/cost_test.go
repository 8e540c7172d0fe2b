package facade_test

import (
	"context"
	"testing"

	"github.com/sortie-go/sortie/facade"
)

// page is a page of eight parts, each of which costs nothing itself.
func page(ctx context.Context, names *[8]string, call func(context.Context) (int, error)) (int, error) {
	sum, _, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (int, error) {
		var parts [8]*facade.Future[int]
		for i, name := range names {
			parts[i] = facade.Go(s, name, call)
		}
		sum := 0
		for _, p := range parts {
			n, err := p.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	return sum, err
}

var eight = [8]string{"user", "news", "recs", "stock", "price", "cart", "menu", "ads"}

func one(context.Context) (int, error) { return 1, nil }

func BenchmarkPageOfEight(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := page(ctx, &eight, one); n != 8 || err != nil {
			b.Fatal(n, err)
		}
	}
}
