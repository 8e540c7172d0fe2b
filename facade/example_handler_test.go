package facade_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

// The page as a service: the same function, behind one address.
func ExampleHandler() {
	errNotFound := errors.New("no such item")
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", &facade.Handler[Item]{
		Options: facade.Options{Name: "item", Timeout: 800 * time.Millisecond},
		Run: func(ctx context.Context, s *facade.Scope, r *http.Request) (Item, error) {
			id := r.PathValue("id")
			return facade.Go(s, "item", func(context.Context) (Item, error) {
				if id != "7" {
					return Item{}, errNotFound
				}
				return Item{"cup"}, nil
			}).Get(ctx)
		},
		StatusFor: func(err error) int {
			if errors.Is(err, errNotFound) {
				return http.StatusNotFound
			}
			return 0
		},
	})

	for _, path := range []string{"/items/7", "/items/8"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(w.Code, w.Header().Get(facade.HeaderComplete), w.Body)
	}
	// Output:
	// 200 true {"Title":"cup"}
	// 404  {"title":"Not Found","status":404}
}
