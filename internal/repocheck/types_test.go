package repocheck_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// typed is what the type checker knows of a tree. Identifiers that stand for things of other modules are absent.
type typed struct {
	types.Info
	std  types.Importer
	fset *token.FileSet
	pkgs map[string]*pkg // by import path
	done map[string]*types.Package
}

func checkTypes(t *testing.T, tr *tree) *typed {
	t.Helper()
	ty := &typed{
		Info: types.Info{
			Types: map[ast.Expr]types.TypeAndValue{},
			Defs:  map[*ast.Ident]types.Object{},
			Uses:  map[*ast.Ident]types.Object{},
		},
		fset: tr.fset,
		pkgs: map[string]*pkg{},
		done: map[string]*types.Package{},
	}
	std := map[string]bool{}
	for _, p := range tr.pkgs {
		ty.pkgs[path.Join(module, p.dir)] = p
		for _, f := range p.files {
			for imported := range f.imports() {
				if standard(imported) && imported != "unsafe" && imported != "C" {
					std[imported] = true
				}
			}
		}
	}
	lookup, err := exportData(slices.Sorted(maps.Keys(std)))
	if err != nil {
		t.Fatal(err)
	}
	ty.std = importer.ForCompiler(tr.fset, "gc", lookup)
	for importPath, p := range ty.pkgs {
		ty.packageOf(importPath)
		external := func(f *file) bool { return strings.HasSuffix(f.ast.Name.Name, "_test") }
		ty.check(importPath+"_test", p, external)
	}
	return ty
}

// exportData asks the go command to compile the given standard packages and tells where their types are to be read.
func exportData(paths []string) (importer.Lookup, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	cmd := exec.Command("go", append([]string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %v", err, cmd.Stderr)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[name] = file
		}
	}
	return func(name string) (io.ReadCloser, error) { return os.Open(files[name]) }, nil
}

// Import implements [types.Importer]. A package that is neither standard nor ours is taken to be empty.
func (ty *typed) Import(name string) (*types.Package, error) {
	switch {
	case name == "unsafe":
		return types.Unsafe, nil
	case standard(name):
		return ty.std.Import(name)
	default:
		return ty.packageOf(name), nil
	}
}

func (ty *typed) packageOf(name string) *types.Package {
	if done := ty.done[name]; done != nil {
		return done
	}
	empty := types.NewPackage(name, path.Base(name))
	empty.MarkComplete()
	ty.done[name] = empty // an import cycle through test files ends here
	if p := ty.pkgs[name]; p != nil {
		inside := func(f *file) bool { return !strings.HasSuffix(f.ast.Name.Name, "_test") }
		ty.done[name] = ty.check(name, p, inside)
	}
	return ty.done[name]
}

// check notes the types of some files of a package. Errors do not matter: the compiler reports them better.
func (ty *typed) check(name string, p *pkg, keep func(*file) bool) *types.Package {
	var files []*ast.File
	for _, f := range p.files {
		if keep(f) {
			files = append(files, f.ast)
		}
	}
	conf := types.Config{Importer: ty, Error: func(error) {}}
	checked, _ := conf.Check(name, ty.fset, files, &ty.Info)
	return checked
}

// funcName returns the full name of the function for which an identifier stands, such as "time.Sleep",
// "(*net/http.ClientConn).Close" or "panic", and "" for anything else.
func (ty *typed) funcName(id *ast.Ident) string {
	switch obj := ty.Uses[id].(type) {
	case *types.Func:
		return obj.Origin().FullName()
	case *types.Builtin:
		return obj.Name()
	}
	return ""
}

// called returns the identifier of the function that a call names, nil for calls of other expressions.
func called(call *ast.CallExpr) *ast.Ident {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun
	case *ast.SelectorExpr:
		return fun.Sel
	}
	return nil
}
