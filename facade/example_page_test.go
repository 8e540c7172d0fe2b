package facade_test

import (
	"context"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// The calls behind the examples. Each of them would be an HTTP request, a query or an RPC.
type (
	User struct {
		Name  string
		Group int
	}
	Item struct{ Title string }
)

func getUser(context.Context) (User, error)     { return User{"Ada", 7}, nil }
func getNews(context.Context) ([]string, error) { return []string{"sale"}, nil }

// The simplest page: two calls at the same time, both of them needed.
func Example() {
	type Page struct {
		User User
		News []string
	}
	page, _, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) (p Page, err error) {
			user := facade.Go(s, "user", getUser)
			news := facade.Go(s, "news", getNews)
			if p.User, err = user.Get(ctx); err != nil {
				return p, err
			}
			p.News, err = news.Get(ctx)
			return p, err
		})
	fmt.Println(page, err)
	// Output: {{Ada 7} [sale]} <nil>
}
