package repocheck_test

import (
	"go/ast"
	"go/types"
	"strings"
)

// checkLocked finds uses of a ClientConn's methods in functions that run under the pool's lock, named *Locked, and in
// the functions of the same package which those call. What a go statement starts, or a function value that is passed
// on for later, does not run under the lock.
func checkLocked(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		calls := callGraph{ty: tr.types, bodies: map[types.Object]*ast.FuncDecl{}, reach: map[types.Object]string{}}
		var locked []*ast.FuncDecl
		for _, f := range p.sources() {
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				calls.bodies[tr.types.Defs[fn.Name]] = fn
				if strings.HasSuffix(fn.Name.Name, "Locked") {
					locked = append(locked, fn)
				}
			}
		}
		for _, fn := range locked {
			if way := calls.way(tr.types.Defs[fn.Name]); way != "" {
				out = append(out, finding{tr.at(fn), fn.Name.Name + " uses " + way})
			}
		}
	}
	return out
}

type callGraph struct {
	ty     *typed
	bodies map[types.Object]*ast.FuncDecl
	reach  map[types.Object]string // how a function comes to a ClientConn's method; "" if it does not
}

// way tells through which functions fn uses a method of http.ClientConn, or "".
func (g *callGraph) way(fn types.Object) string {
	if known, ok := g.reach[fn]; ok {
		return known
	}
	g.reach[fn] = "" // a recursive call adds nothing
	body := g.bodies[fn]
	if body == nil {
		return ""
	}
	ran := runs(body.Body)
	for _, id := range ran.names {
		name := g.ty.funcName(id)
		if strings.HasPrefix(name, "(*net/http.ClientConn).") {
			g.reach[fn] = name
			break
		}
		if next, ok := g.ty.Uses[id].(*types.Func); ok && ran.called[id] {
			if way := g.way(next.Origin()); way != "" {
				g.reach[fn] = id.Name + ", which uses " + way
				break
			}
		}
	}
	return g.reach[fn]
}

// evaluated is what a body mentions, and what of it is called, while the function runs.
type evaluated struct {
	names  []*ast.Ident
	called map[*ast.Ident]bool
}

func runs(body *ast.BlockStmt) evaluated {
	out := evaluated{called: map[*ast.Ident]bool{}}
	literals := map[*ast.FuncLit]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return false
		case *ast.CallExpr:
			if lit, ok := n.Fun.(*ast.FuncLit); ok {
				literals[lit] = true
			}
			out.called[called(n)] = true
		case *ast.FuncLit:
			return literals[n]
		case *ast.Ident:
			out.names = append(out.names, n)
		}
		return true
	})
	return out
}
