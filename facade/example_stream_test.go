package facade_test

import (
	"context"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// The parts as they come, for a page that is sent piece by piece. The last item is the report.
func ExampleStream() {
	declare := func(ctx context.Context, s *facade.Scope) error {
		user := facade.Go(s, "user", getUser)
		facade.Go(s, "offers", func(ctx context.Context) ([]Item, error) {
			u, err := user.Get(ctx)
			if err != nil {
				return nil, err
			}
			return getOffers(ctx, u.Group)
		})
		return nil
	}

	for done, err := range facade.Stream(context.Background(), facade.Options{Name: "page"}, declare) {
		switch {
		case err != nil:
			fmt.Println("failed:", err)
		case done.Report != nil:
			fmt.Println("complete:", done.Report.Complete)
		default:
			fmt.Println(done.Name, done.Value)
		}
	}
	// Output:
	// user {Ada 7}
	// offers [{offer for group 7}]
	// complete: true
}
