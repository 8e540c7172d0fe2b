package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sortie-go/sortie/facade"
)

// A required part that fails ends the run. The error says which part, and errors.Is reaches what it returned.
func ExampleError() {
	errNotFound := errors.New("no such user")
	_, _, err := facade.Do(context.Background(), facade.Options{Name: "page"},
		func(ctx context.Context, s *facade.Scope) (string, error) {
			user := facade.Go(s, "user", func(context.Context) (string, error) { return "", errNotFound })
			return user.Get(ctx)
		})

	fmt.Println(err)
	if e, ok := errors.AsType[*facade.Error](err); ok {
		fmt.Println(e.Part, e.Kind, errors.Is(err, errNotFound))
	}
	// Output:
	// facade: page: part "user": no such user
	// user failed true
}
