package facade_test

import (
	"context"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// Runs that need the same menu at the same moment wait for one call. Users of different shops never share one.
func ExampleShare() {
	type shopKey struct{}
	menus := &facade.Share[string]{
		Partition: func(ctx context.Context) string {
			shop, _ := ctx.Value(shopKey{}).(string)
			return shop
		},
	}
	getMenu := func(ctx context.Context) (string, error) {
		return fmt.Sprint("menu of ", ctx.Value(shopKey{})), nil
	}

	ctx := context.WithValue(context.Background(), shopKey{}, "north")
	menu, _, err := facade.Do(ctx, facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) (string, error) {
			return facade.Go(s, "menu", getMenu, facade.Part[string]{Key: "today", Share: menus}).Get(ctx)
		})
	fmt.Println(menu, err)
	// Output: menu of north <nil>
}
