package repocheck_test

import (
	"go/ast"
	"go/types"
	"strings"
)

// checkSleep looks at library code and at tests; a program may sleep.
func checkSleep(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		enter := tr.types.bubbles(p)
		inside := tr.types.onlyInBubbles(p, enter)
		for _, f := range p.files {
			if !f.test && !f.library() {
				continue
			}
			for _, decl := range f.ast.Decls {
				if f.test && (inside[tr.types.declares(decl)] || saysBubble(decl)) || tr.allows("sleep", f, decl) {
					continue
				}
				for _, id := range outsideCalls(tr.types, decl, enter) {
					if tr.types.funcName(id) == "time.Sleep" {
						out = append(out, finding{tr.at(id), "time.Sleep on the real clock"})
					}
				}
			}
		}
	}
	return append(out, tr.unusedAllowances("sleep")...)
}

// saysBubble reports whether a function is said to run in a bubble. Methods that are called through an interface need
// the word, since nothing else tells who calls them.
func saysBubble(decl ast.Decl) bool {
	fn, ok := decl.(*ast.FuncDecl)
	return ok && fn.Recv != nil && strings.Contains(fn.Doc.Text(), "bubble")
}

// outsideCalls returns the identifiers of a node, except those in the arguments of calls of the given functions, and,
// where there is such a call, those of the functions in tables and variables, which it runs.
func outsideCalls(ty *typed, n ast.Node, except func(types.Object) bool) (out []*ast.Ident) {
	stored := map[*ast.FuncLit]bool{}
	enters := callsAny(ty, n, except)
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, elt := range n.Elts {
				if kv, ok := elt.(*ast.KeyValueExpr); ok {
					elt = kv.Value
				}
				stored[ty.literal(elt)] = enters
			}
		case *ast.AssignStmt:
			for _, value := range n.Rhs {
				stored[ty.literal(value)] = enters
			}
		case *ast.FuncLit:
			return !stored[n]
		case *ast.CallExpr:
			if id := called(n); id != nil && except(ty.Uses[id]) {
				return false
			}
		case *ast.Ident:
			out = append(out, n)
		}
		return true
	})
	return out
}

// literal returns the function that an expression is, if need be converted, such as http.HandlerFunc(func…), or nil.
func (ty *typed) literal(expr ast.Expr) *ast.FuncLit {
	if call, ok := expr.(*ast.CallExpr); ok && len(call.Args) == 1 && ty.Types[call.Fun].IsType() {
		expr = call.Args[0]
	}
	lit, _ := expr.(*ast.FuncLit)
	return lit
}

// bubbles returns the predicate of the functions that run their argument in a bubble: synctest.Test, and the helpers
// of the package's tests that take a function and call one of these.
func (ty *typed) bubbles(p *pkg) func(types.Object) bool {
	helpers := map[types.Object]bool{}
	enter := func(obj types.Object) bool {
		fn, ok := obj.(*types.Func)
		return ok && (fn.FullName() == "testing/synctest.Test" || helpers[fn.Origin()])
	}
	for before := -1; before < len(helpers); {
		before = len(helpers)
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && f.test && takesFunc(fn.Type) && callsAny(ty, fn, enter) {
					helpers[ty.Defs[fn.Name]] = true
				}
			}
		}
	}
	return enter
}

// onlyInBubbles returns the functions of the package's tests that are used, and only in bubbles or in each other.
func (ty *typed) onlyInBubbles(p *pkg, enter func(types.Object) bool) map[types.Object]bool {
	inside := map[types.Object]bool{}
	for _, f := range p.files {
		for _, decl := range f.ast.Decls {
			for _, id := range identifiers(decl) {
				if fn, ok := ty.Uses[id].(*types.Func); ok {
					inside[fn.Origin()] = true
				}
			}
		}
	}
	for removed := true; removed; {
		removed = false
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				if inside[ty.declares(decl)] {
					continue
				}
				for _, id := range outsideCalls(ty, decl, enter) {
					if fn, ok := ty.Uses[id].(*types.Func); ok && inside[fn.Origin()] {
						delete(inside, fn.Origin())
						removed = true
					}
				}
			}
		}
	}
	return inside
}

// declares returns the function that a declaration declares, nil if it is no function.
func (ty *typed) declares(decl ast.Decl) types.Object {
	if fn, ok := decl.(*ast.FuncDecl); ok {
		return ty.Defs[fn.Name]
	}
	return nil
}

func takesFunc(t *ast.FuncType) bool {
	for _, param := range t.Params.List {
		if _, ok := param.Type.(*ast.FuncType); ok {
			return true
		}
	}
	return false
}

func callsAny(ty *typed, n ast.Node, these func(types.Object) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if id := called(call); id != nil && these(ty.Uses[id]) {
				found = true
			}
		}
		return !found
	})
	return found
}
