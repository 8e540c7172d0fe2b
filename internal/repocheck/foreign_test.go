package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// inSurface lists the modules of which users hold values already, so that their types may stand in our surface:
// OpenTelemetry's providers and the AWS SDK's credentials.
var inSurface = []string{"go.opentelemetry.io/otel", "github.com/aws/aws-sdk-go-v2"}

// checkForeign finds types of other modules, and of our internal packages, in what public packages export.
func checkForeign(tr *tree) (out []finding) {
	for _, p := range tr.pkgs {
		if !p.public() {
			continue
		}
		for _, f := range p.sources() {
			visitSurface(f.ast, func(sel *ast.SelectorExpr) {
				name := importOf(f, tr.types, sel)
				if dir, ok := own(name); ok && within(dir, "internal") || !ok && foreign(name) {
					out = append(out, finding{tr.at(sel), fmt.Sprintf("%s of %s in the exported surface", types.ExprString(sel), name)})
				}
			})
		}
	}
	return out
}

func foreign(importPath string) bool {
	return importPath != "" && !standard(importPath) &&
		!slices.ContainsFunc(inSurface, func(m string) bool { return within(importPath, m) })
}

// importOf returns the import path of the package that qualifies a name, or "" when it is no package.
func importOf(f *file, ty *typed, sel *ast.SelectorExpr) string {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if name, ok := ty.Uses[id].(*types.PkgName); ok && name.Imported() != nil {
		return name.Imported().Path()
	}
	for _, spec := range f.ast.Imports { // a package whose name could not be known
		name, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil && spec.Name.Name == id.Name || spec.Name == nil && strings.Contains(name, id.Name) {
			return name
		}
	}
	return ""
}

// visitSurface calls visit for every qualified name in the exported declarations of a file: signatures, exported
// fields, methods of exported types, the declared types of variables and constants.
func visitSurface(f *ast.File, visit func(*ast.SelectorExpr)) {
	find := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				visit(sel)
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				find(d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				visitSpec(spec, find)
			}
		}
	}
}

func visitSpec(spec ast.Spec, find func(ast.Node)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		if spec.Type != nil && spec.Names[0].IsExported() {
			find(spec.Type)
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		st, ok := spec.Type.(*ast.StructType)
		if !ok {
			find(spec.Type)
			return
		}
		for _, field := range st.Fields.List {
			if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
				find(field.Type)
			}
		}
	}
}
