package repocheck_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/sortie-go/sortie"

// A tree is the source of a repository, read and parsed once; the rules only read it.
type tree struct {
	root    string // where it lies on disk, "" if nowhere
	fset    *token.FileSet
	pkgs    []*pkg            // by folder
	texts   map[string]string // every text file by path, Go source included
	modules []string          // the folders that hold a go.mod, the root among them
	allowed []*allowance
	types   *typed
}

// A pkg is one folder of Go files: the package and its tests.
type pkg struct {
	dir   string // "." for the root
	name  string
	files []*file
}

type file struct {
	path  string
	pkg   *pkg
	ast   *ast.File
	test  bool
	lines int
}

// loadTree reads every text file below src, parses the Go files among them, and checks their types.
func loadTree(t *testing.T, src fs.FS) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet(), texts: map[string]string{}}
	err := fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(name):
			return fs.SkipDir
		case !d.Type().IsRegular() || generated(name):
			return nil
		}
		data, err := fs.ReadFile(src, name)
		if err == nil && utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
			tr.texts[name] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.parse(); err != nil {
		t.Fatal(err)
	}
	tr.allowed = parseAllowances(tr.texts[allowFile])
	tr.types = checkTypes(t, tr)
	return tr
}

// skipDir reports whether nothing in the folder is source: version control, local tools, fuzzing corpora, and the
// trees here that break the rules on purpose.
func skipDir(name string) bool {
	return name == ".git" || name == ".tmp" || name == "internal/repocheck/testdata" || strings.HasSuffix(name, "testdata/fuzz")
}

// generated reports whether the file is one that the .gitignore names.
func generated(name string) bool {
	return slices.Contains([]string{".test", ".prof", ".out"}, path.Ext(name))
}

func (tr *tree) parse() error {
	byDir := map[string]*pkg{}
	for name, text := range tr.texts {
		if path.Base(name) == "go.mod" {
			tr.modules = append(tr.modules, path.Dir(name))
		}
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") || strings.HasPrefix(name, ".") {
			continue
		}
		parsed, err := parser.ParseFile(tr.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		p := byDir[dir]
		if p == nil {
			p = &pkg{dir: dir}
			byDir[dir] = p
			tr.pkgs = append(tr.pkgs, p)
		}
		f := &file{path: name, pkg: p, ast: parsed, test: strings.HasSuffix(name, "_test.go"), lines: strings.Count(text, "\n")}
		p.name = strings.TrimSuffix(parsed.Name.Name, "_test")
		p.files = append(p.files, f)
	}
	for _, p := range tr.pkgs {
		slices.SortFunc(p.files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	}
	slices.SortFunc(tr.pkgs, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return nil
}

// at gives the place of a node as findings show it.
func (tr *tree) at(n ast.Node) string {
	p := tr.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// moduleOf returns the folder of the module to which dir belongs.
func (tr *tree) moduleOf(dir string) string {
	best := "."
	for _, m := range tr.modules {
		if within(dir, m) && (best == "." || within(m, best)) {
			best = m
		}
	}
	return best
}

func within(dir, parent string) bool {
	return parent == "." || dir == parent || strings.HasPrefix(dir, parent+"/")
}

// program reports whether the package is no library: a command, or in one of the modules that only use the library.
func (p *pkg) program() bool {
	top, _, _ := strings.Cut(p.dir, "/")
	return p.name == "main" || slices.Contains([]string{"examples", "bench", "interop", "deploy"}, top)
}

func (p *pkg) internal() bool { return slices.Contains(strings.Split(p.dir, "/"), "internal") }

// public reports whether users may import the package.
func (p *pkg) public() bool { return !p.program() && !p.internal() }

// library reports whether the file is compiled into users' programs.
func (f *file) library() bool { return !f.test && !f.pkg.program() }

// example reports whether the file holds the runnable examples of a package.
func (f *file) example() bool { return f.test && strings.HasPrefix(path.Base(f.path), "example") }

// sources returns the files of the package that are no tests.
func (p *pkg) sources() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
}

// own returns the folder of one of our packages, given its import path.
func own(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// imports returns the paths that the file imports, with their places.
func (f *file) imports() map[string]*ast.ImportSpec {
	out := map[string]*ast.ImportSpec{}
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out[p] = spec
		}
	}
	return out
}

// each calls visit for every Go file that satisfies keep, in order.
func (tr *tree) each(keep func(*file) bool, visit func(*file)) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			if keep(f) {
				visit(f)
			}
		}
	}
}
