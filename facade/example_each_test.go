package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// One part per element, the results in their order. Options.Permits bounds how many run at once.
func ExampleEach() {
	getStock := func(_ context.Context, sku string) (int, error) {
		if sku == "tea" {
			return 0, errors.New("shelf not found")
		}
		return len(sku), nil
	}

	stock, rep, err := facade.Do(context.Background(), facade.Options{Name: "stock", Permits: 8},
		func(ctx context.Context, s *facade.Scope) ([]int, error) {
			return facade.Each(s, "sku", []string{"coffee", "tea", "cup"}, getStock, facade.Part[int]{
				Optional: true,
				Fallback: -1, // unknown
			}).Get(ctx)
		})
	fmt.Println(stock, rep.Complete, err)
	// Output: [6 -1 3] false <nil>
}
