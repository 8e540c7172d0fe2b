package repocheck_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkState lets a package-level variable of library code stand when nothing writes it, its type is not made
// to be written, and it is not exported (sentinel errors are).
func checkState(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		written := tr.types.written(p)
		for _, f := range p.sources() {
			if !f.library() {
				continue
			}
			for _, decl := range f.ast.Decls {
				gen, ok := decl.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR || tr.allows("state", f, decl) {
					continue
				}
				for _, spec := range gen.Specs {
					spec := spec.(*ast.ValueSpec)
					for _, id := range spec.Names {
						if text := judgeVariable(tr.types, id, spec, written); text != "" {
							out = append(out, finding{tr.at(id), id.Name + " " + text})
						}
					}
				}
			}
		}
	}
	return append(out, tr.unusedAllowances("state")...)
}

func judgeVariable(ty *typed, id *ast.Ident, spec *ast.ValueSpec, written map[types.Object]bool) string {
	if id.Name == "_" {
		return ""
	}
	sentinel := strings.HasPrefix(strings.ToLower(id.Name), "err") && len(spec.Values) > 0
	switch obj := ty.Defs[id]; {
	case written[obj]:
		return "is written after its declaration"
	case obj != nil && mutableType(obj.Type()):
		return "has a type that is made to be written"
	case sentinel:
		return ""
	case len(spec.Values) == 0:
		return "has no value, so something must write it"
	case id.IsExported():
		return "is exported, so every importer can assign it; sentinel errors are the exception"
	}
	return ""
}

// mutableType reports whether values of the type exist to be changed: locks, pools, atomics, channels.
func mutableType(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Chan:
		return true
	case *types.Pointer:
		return mutableType(t.Elem())
	case *types.Named:
		pkg := t.Obj().Pkg()
		return pkg != nil && (pkg.Path() == "sync" || pkg.Path() == "sync/atomic") || mutableType(t.Underlying())
	case *types.Struct:
		for field := range t.Fields() {
			if mutableType(field.Type()) {
				return true
			}
		}
	case *types.Array:
		return mutableType(t.Elem())
	}
	return false
}

// written returns the package-level variables that something in the package assigns, whole or in part, or whose
// address it takes.
func (ty *typed) written(p *pkg) map[types.Object]bool {
	out := map[types.Object]bool{}
	note := func(expr ast.Expr) {
		if id := base(expr); id != nil {
			out[ty.Uses[id]] = true
		}
	}
	for _, f := range p.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					note(left)
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.CallExpr:
				if id := called(n); id != nil && len(n.Args) > 0 && (ty.funcName(id) == "delete" || ty.funcName(id) == "clear") {
					note(n.Args[0])
				}
			}
			return true
		})
	}
	delete(out, nil)
	return out
}

// base returns the variable of which an assignable expression is a part: v in v, v.f, v[i].f and (*v).f.
func base(expr ast.Expr) *ast.Ident {
	for {
		switch x := expr.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.StarExpr:
			expr = x.X
		default:
			return nil
		}
	}
}
