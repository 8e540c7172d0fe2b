package facade_test

import (
	"context"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// Parts ask for one price each; the back end is asked once. The batch is declared once, for all runs.
func ExampleBatch() {
	prices := &facade.Batch[string, int]{
		Name: "prices",
		Load: func(ctx context.Context, skus []string) (map[string]int, error) {
			fmt.Println("asked for", len(skus), "prices")
			answer := make(map[string]int)
			for _, sku := range skus {
				answer[sku] = 100 * len(sku)
			}
			return answer, nil
		},
	}

	total, _, err := facade.Do(context.Background(), facade.Options{Name: "cart"},
		func(ctx context.Context, s *facade.Scope) (total int, err error) {
			list := facade.Each(s, "line", []string{"tea", "cup", "coffee", "tea"}, prices.Get)
			each, err := list.Get(ctx)
			for _, price := range each {
				total += price
			}
			return total, err
		})
	fmt.Println(total, err)
	// Output:
	// asked for 3 prices
	// 1500 <nil>
}
