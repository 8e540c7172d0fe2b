package client_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

// The comments on the fields of Conns promise defaults that the pool applies.
func TestConnsDefaultsAreWhatTheCommentsSay(t *testing.T) {
	d := pool.Defaults()
	said := comments(t, "Conns")
	for field, value := range map[string]any{
		"MaxConns": d.MaxConns, "MinIdle": d.MinIdle, "MaxStreams": d.MaxStreams, "MaxWaiters": "1,024", "DialLimit": d.DialLimit,
		"MaxWait": d.MaxWait, "DialTimeout": d.DialTimeout, "IdleTimeout": d.IdleTimeout, "MaxAge": d.MaxAge, "DrainTime": d.DrainTime,
	} {
		if want := "Default " + inWords(value); !strings.Contains(said[field], want) {
			t.Errorf("Conns.%s: the pool's default is %q, the comment says %q", field, want, said[field])
		}
	}
	if d.MaxWaiters != 1024 || d.MaxIdle != d.MaxConns || d.DrainBytes != 64<<10 {
		t.Errorf("defaults %+v", d)
	}
}

func inWords(value any) string {
	d, ok := value.(time.Duration)
	switch {
	case !ok:
		return fmt.Sprint(value)
	case d >= time.Minute:
		return fmt.Sprint(int(d.Minutes()), " min")
	case d >= time.Second:
		return fmt.Sprint(int(d.Seconds()), " s")
	}
	return fmt.Sprint(d.Milliseconds(), " ms")
}

// comments returns the comment of each field of a struct in policy.go.
func comments(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "policy.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range f.Names {
				said[id.Name] = f.Doc.Text() + f.Comment.Text()
			}
		}
		return false
	})
	return said
}
