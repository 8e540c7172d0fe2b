package facade_test

import (
	"context"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

func getOffers(_ context.Context, group int) ([]Item, error) {
	return []Item{{fmt.Sprint("offer for group ", group)}}, nil
}

// A part that needs another one gets it, with its own context. It takes no permit while it waits, and all that does not
// need the user runs meanwhile.
func ExampleFuture_Get_dependency() {
	offers, _, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) ([]Item, error) {
			user := facade.Go(s, "user", getUser)
			offers := facade.Go(s, "offers", func(ctx context.Context) ([]Item, error) {
				u, err := user.Get(ctx)
				if err != nil {
					return nil, err
				}
				return getOffers(ctx, u.Group)
			})
			return offers.Get(ctx)
		})
	fmt.Println(offers, err)
	// Output: [{offer for group 7}] <nil>
}

// Parts that wait for each other are found out by the last of them, at once.
func ExampleFuture_Get_cycle() {
	_, _, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) (int, error) {
			var self *facade.Future[int]
			declared := make(chan struct{})
			self = facade.Go(s, "total", func(ctx context.Context) (int, error) {
				<-declared
				return self.Get(ctx)
			})
			close(declared)
			return self.Get(ctx)
		})
	fmt.Println(err)
	// Output: facade: page: parts wait for each other: total -> total
}
