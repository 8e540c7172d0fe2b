package repocheck_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

const maxLines = 500

func structureRules() []rule {
	return []rule{
		{
			"docs",
			"the folder list is the architecture, and godoc is where a newcomer reads it: one package comment, in doc.go where " +
				"users look for it, that says more than the name",
			checkDocs,
		},
		{
			"imports",
			"imports point one way (DESIGN.md, section 2), so that each part can be understood, tested and replaced alone",
			checkImports,
		},
		{
			"api",
			"users build on the exported surface: a change of it is reviewed as text (make api)",
			checkAPI,
		},
		{
			"foreign",
			"a type of another module in our surface would make its major versions ours, and an internal type cannot be named by users",
			checkForeign,
		},
		{
			"deps",
			"every user inherits our dependencies: each is reviewed, imported where deps.txt says and hidden there behind our own words",
			checkDeps,
		},
		{
			"length",
			"one idea a file; a file that has outgrown 500 lines holds several",
			checkLength,
		},
	}
}

func checkDocs(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		var docs []*file
		for _, f := range p.files {
			if f.ast.Doc != nil && hasText(f.ast.Doc) {
				docs = append(docs, f)
			}
		}
		if len(docs) != 1 {
			out = append(out, finding{p.dir, fmt.Sprintf("%d package comments, want 1", len(docs))})
			continue
		}
		doc := docs[0]
		text := doc.ast.Doc.Text()
		switch words := len(strings.Fields(text)); {
		case p.public() && path.Base(doc.path) != "doc.go":
			out = append(out, finding{doc.path, "the comment of a public package belongs in doc.go"})
		case doc.test && !p.onlyTests():
			out = append(out, finding{doc.path, "the package comment is in a test file, where godoc does not look"})
		case p.name != "main" && !strings.HasPrefix(text, "Package "+p.name+" "):
			out = append(out, finding{doc.path, `the package comment must begin with "Package ` + p.name + ` "`})
		case words < 10:
			out = append(out, finding{doc.path, fmt.Sprintf("the package comment has %d words and cannot say more than the name", words)})
		}
	}
	return out
}

// hasText tells a comment from a lone build constraint or directive.
func hasText(doc *ast.CommentGroup) bool { return strings.TrimSpace(doc.Text()) != "" }

func (p *pkg) onlyTests() bool { return len(p.sources()) == 0 }

// mayImport is the arrow drawing of DESIGN.md, section 2. A package may also import itself in its tests.
// "internal" stands for every internal package, "public" for every public one except the test kit.
var mayImport = map[string][]string{
	".":                   nil,
	"client":              {"dnscache", "httpcache", "metrics", "internal"},
	"creds":               {"metrics", "internal/fresh"},
	"dnscache":            {"metrics", "internal/fresh"},
	"doctor":              {"client", "creds", "dnscache", "facade", "httpcache", "metrics"},
	"facade":              {"metrics"},
	"httpcache":           {"metrics"},
	"httpcache/storetest": {"httpcache"},
	"initproc":            nil,
	"metrics":             nil,
	"sortietest":          {"internal/memnet"},

	"httpcache/redisstore": {"httpcache", "internal/breaker"},

	"internal/backoff":   nil,
	"internal/balance":   nil,
	"internal/breaker":   nil,
	"internal/budget":    nil,
	"internal/fresh":     nil,
	"internal/hedge":     nil,
	"internal/limit":     nil,
	"internal/memnet":    nil,
	"internal/pool":      {"internal/backoff", "internal/ports"},
	"internal/ports":     nil,
	"internal/repocheck": nil,
}

// testsMayImport is what every package's tests may import besides.
var testsMayImport = []string{"internal/memnet", "sortietest", "httpcache/storetest"}

// engines know no HTTP: they are state machines of durations, indexes and outcomes.
var engines = []string{
	"internal/backoff", "internal/balance", "internal/breaker", "internal/budget",
	"internal/fresh", "internal/hedge", "internal/limit", "internal/ports",
}

func checkImports(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		allowed, known := mayImport[p.dir]
		if p.program() {
			allowed, known = []string{"public", "sortietest"}, true
		}
		if !known {
			out = append(out, finding{p.dir, "no row for this package in mayImport; say there what it may import"})
		}
		for _, f := range p.files {
			imports := f.imports()
			for _, name := range slices.Sorted(maps.Keys(imports)) {
				at := tr.at(imports[name])
				if dir, ok := own(name); ok && !f.mayImport(dir, allowed) {
					out = append(out, finding{at, fmt.Sprintf("%s imports %s", p.dir, dir)})
				}
				if name == "net/http" && !f.test && slices.Contains(engines, p.dir) {
					out = append(out, finding{at, "a policy engine imports net/http"})
				}
			}
		}
	}
	return out
}

func (f *file) mayImport(dir string, allowed []string) bool {
	inside := within(dir, "internal")
	switch {
	case f.test && (dir == f.pkg.dir || slices.Contains(testsMayImport, dir)):
		return true
	case f.example() && !inside: // an example shows how packages go together
		return true
	case slices.Contains(allowed, dir):
		return true
	case slices.Contains(allowed, "internal") && inside:
		return true
	case slices.Contains(allowed, "public"):
		return !inside || dir == f.pkg.dir
	}
	// A program may be split into packages of its own.
	return f.pkg.program() && within(dir, path.Dir(f.pkg.dir)) && path.Dir(f.pkg.dir) != "."
}

func checkLength(tr *tree) (out []finding) {
	tr.each(func(*file) bool { return true }, func(f *file) {
		if f.lines > maxLines {
			out = append(out, finding{f.path, fmt.Sprintf("%d lines, at most %d", f.lines, maxLines)})
		}
	})
	return out
}
