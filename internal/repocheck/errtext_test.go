package repocheck_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// matchers are the functions that look for something in a text.
var matchers = []string{
	"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "Index", "LastIndex", "EqualFold", "Compare", "Count",
	"Cut", "CutPrefix", "CutSuffix", "Match", "MatchString", "FindString", "FindStringSubmatch", "FindStringIndex",
}

// checkErrorText finds an error's text, fresh or kept in a variable, in a comparison, a switch or a matcher's arguments.
func checkErrorText(tr *tree) (out []finding) {
	tr.each((*file).library, func(f *file) {
		for _, decl := range f.ast.Decls {
			texts := errorTexts(tr.types, decl)
			for _, expr := range judged(tr.types, decl) {
				if containsErrorText(tr.types, expr, texts) && !tr.allows("errtext", f, decl) {
					out = append(out, finding{tr.at(expr), "an error is recognised by its text"})
					break
				}
			}
		}
	})
	return append(out, tr.unusedAllowances("errtext")...)
}

// judged returns the expressions in a declaration on whose text something is decided.
func judged(ty *typed, decl ast.Decl) (out []ast.Expr) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				out = append(out, n.X, n.Y)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				out = append(out, n.Tag)
			}
		case *ast.CallExpr:
			if id := called(n); id != nil && matches(ty.funcName(id)) {
				out = append(out, n.Args...)
			}
		}
		return true
	})
	return out
}

func matches(function string) bool {
	from := strings.HasPrefix(function, "strings.") || strings.HasPrefix(function, "bytes.") || strings.Contains(function, "regexp.")
	return from && slices.Contains(matchers, function[strings.LastIndex(function, ".")+1:])
}

// errorTexts returns the variables of a declaration to which the text of an error is assigned.
func errorTexts(ty *typed, decl ast.Decl) map[types.Object]bool {
	out := map[types.Object]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return true
		}
		for i, right := range assign.Rhs {
			if id, ok := assign.Lhs[i].(*ast.Ident); ok && containsErrorText(ty, right, nil) {
				out[ty.object(id)] = true
			}
		}
		return true
	})
	delete(out, nil)
	return out
}

func containsErrorText(ty *typed, expr ast.Expr, texts map[types.Object]bool) (found bool) {
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" && len(n.Args) == 0 {
				found = true
			}
		case *ast.Ident:
			found = found || texts[ty.Uses[n]]
		}
		return !found
	})
	return found
}

// object returns what an identifier defines or uses.
func (ty *typed) object(id *ast.Ident) types.Object {
	if obj := ty.Defs[id]; obj != nil {
		return obj
	}
	return ty.Uses[id]
}
