package facade_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// The page can do without recommendations: an optional part has its fallback in its place, and the report says so.
func ExamplePart_fallback() {
	getRecs := func(context.Context) ([]Item, error) { return nil, errors.New("recommender is down") }

	recs, rep, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) ([]Item, error) {
			recs := facade.Go(s, "recs", getRecs, facade.Part[[]Item]{
				Optional: true,
				Timeout:  300 * time.Millisecond, // late is as good as failed
				Fallback: []Item{{"what everybody likes"}},
			})
			return recs.Get(ctx)
		})

	fmt.Println(recs, err)
	fmt.Println(rep.Complete, rep.Parts[0].State, rep.Parts[0].Err)
	// Output:
	// [{what everybody likes}] <nil>
	// false fallback facade: page: part "recs": recommender is down
}

// A FallbackFunc is asked first. It is the place for the part's own stale answer: the same request once more, with the
// directive that only a cache may answer.
func ExamplePart_fallbackFunc() {
	ask := func(ctx context.Context, directive string) (Item, error) {
		if directive == "only-if-cached, max-stale" {
			return Item{"from yesterday"}, nil
		}
		return Item{}, errors.New("origin is down")
	}

	item, _, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) (Item, error) {
			get := func(ctx context.Context) (Item, error) { return ask(ctx, "") }
			return facade.Go(s, "item", get, facade.Part[Item]{
				Optional:     true,
				FallbackFunc: func(ctx context.Context, _ error) (Item, error) { return ask(ctx, "only-if-cached, max-stale") },
				Fallback:     Item{"nothing here"},
			}).Get(ctx)
		})
	fmt.Println(item, err)
	// Output: {from yesterday} <nil>
}

// When decides whether a part runs at all. A skipped part does not make the page incomplete.
func ExamplePart_when() {
	_, rep, _ := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) ([]Item, error) {
			user := facade.Go(s, "user", getUser)
			offers := facade.Go(s, "offers", func(ctx context.Context) ([]Item, error) { return getOffers(ctx, 7) },
				facade.Part[[]Item]{When: func(ctx context.Context) (bool, error) {
					u, err := user.Get(ctx)
					return u.Group == 1, err
				}})
			return offers.Get(ctx)
		})
	fmt.Println(rep.Parts[1].State, rep.Complete)
	// Output: skipped true
}
