package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

const apiFile = "internal/repocheck/api.txt"

func checkAPI(tr *tree) []finding {
	const enough = 20 // then the rest is better read in a diff
	out := apiDifference(tr)
	if n := len(out); n > enough {
		out = append(out[:enough], finding{apiFile, fmt.Sprintf("and %d more lines differ", n-enough)})
	}
	return out
}

func apiDifference(tr *tree) (out []finding) {
	want := slices.Collect(strings.Lines(tr.texts[apiFile]))
	got := slices.Collect(strings.Lines(surfaceText(tr)))
	for _, line := range got {
		if !slices.Contains(want, line) {
			out = append(out, finding{apiFile, "missing: " + strings.TrimSpace(line)})
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			out = append(out, finding{apiFile, "not in the source: " + strings.TrimSpace(line)})
		}
	}
	return out
}

// surfaceText lists every exported symbol of the public packages in the form of Go's own api files.
func surfaceText(tr *tree) string {
	var all []string
	for _, p := range tr.pkgs {
		if p.public() {
			all = append(all, surface(tr, p)...)
		}
	}
	return strings.Join(all, "\n") + "\n"
}

// surface lists one package, sorted and without the doubles that files for several systems give.
func surface(tr *tree, p *pkg) []string {
	s := &surfacer{types: tr.types, prefix: "pkg " + p.dir + ", "}
	for _, f := range p.sources() {
		for _, decl := range f.ast.Decls {
			s.decl(decl)
		}
	}
	slices.Sort(s.lines)
	return slices.Compact(s.lines)
}

type surfacer struct {
	types  *typed
	prefix string
	lines  []string
}

func (s *surfacer) addf(format string, args ...any) {
	line := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	s.lines = append(s.lines, s.prefix+line)
}

func (s *surfacer) decl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		s.function(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				s.value(d.Tok, spec)
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					s.typeSpec(spec)
				}
			}
		}
	}
}

func (s *surfacer) function(d *ast.FuncDecl) {
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		s.addf("func %s%s%s", d.Name, typeParams(d.Type.TypeParams), signature(d.Type))
	case ast.IsExported(receiver(d)):
		s.addf("method (%s) %s%s", types.ExprString(d.Recv.List[0].Type), d.Name, signature(d.Type))
	}
}

// receiver returns the name of a method's type, without pointer and type parameters, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	expr := ast.Unparen(d.Recv.List[0].Type)
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch x := expr.(type) {
	case *ast.IndexExpr:
		expr = x.X
	case *ast.IndexListExpr:
		expr = x.X
	}
	return types.ExprString(expr)
}

func (s *surfacer) value(tok token.Token, spec *ast.ValueSpec) {
	for _, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		var typ, val string
		if obj := s.types.Defs[name]; obj != nil && obj.Type() != types.Typ[types.Invalid] {
			typ = types.TypeString(obj.Type(), func(p *types.Package) string { return qualifier(p, obj) })
			if c, ok := obj.(*types.Const); ok && c.Val().Kind() != constant.Unknown {
				val = " = " + c.Val().ExactString()
			}
		} else if spec.Type != nil {
			typ = typeString(spec.Type)
		}
		s.addf("%s %s %s%s", tok, name, typ, val)
	}
}

func qualifier(p *types.Package, from types.Object) string {
	if p == from.Pkg() {
		return ""
	}
	return p.Name()
}

func (s *surfacer) typeSpec(spec *ast.TypeSpec) {
	head := "type " + spec.Name.Name + typeParams(spec.TypeParams)
	if spec.Assign.IsValid() {
		s.addf("%s = %s", head, typeString(spec.Type))
		return
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		s.addf("%s struct", head)
		s.fields(head+" struct", t)
	case *ast.InterfaceType:
		s.addf("%s interface", head)
		s.methods(head+" interface", t)
	default:
		s.addf("%s %s", head, typeString(t))
	}
}

func (s *surfacer) fields(head string, t *ast.StructType) {
	for _, field := range t.Fields.List {
		typ := typeString(field.Type)
		if len(field.Names) == 0 {
			s.addf("%s, embedded %s", head, typ)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				s.addf("%s, %s %s", head, name, typ)
			}
		}
	}
}

func (s *surfacer) methods(head string, t *ast.InterfaceType) {
	for _, field := range t.Methods.List {
		if len(field.Names) == 0 {
			s.addf("%s, embedded %s", head, typeString(field.Type))
		}
		for _, name := range field.Names {
			if sig, ok := field.Type.(*ast.FuncType); ok && name.IsExported() {
				s.addf("%s, %s%s", head, name, signature(sig))
			} else {
				s.addf("%s, unexported methods", head)
			}
		}
	}
}

// typeString prints a type, the functions in it without the names of their parameters.
func typeString(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.FuncType:
		return "func" + signature(x)
	case *ast.StarExpr:
		return "*" + typeString(x.X)
	case *ast.Ellipsis:
		return "..." + typeString(x.Elt)
	case *ast.ArrayType:
		if x.Len == nil {
			return "[]" + typeString(x.Elt)
		}
	case *ast.MapType:
		return "map[" + typeString(x.Key) + "]" + typeString(x.Value)
	}
	return types.ExprString(expr)
}

// signature prints parameters and results without their names, which are no promise.
func signature(t *ast.FuncType) string {
	params, results := typeList(t.Params), typeList(t.Results)
	out := "(" + strings.Join(params, ", ") + ")"
	switch len(results) {
	case 0:
		return out
	case 1:
		return out + " " + results[0]
	}
	return out + " (" + strings.Join(results, ", ") + ")"
}

func typeList(fields *ast.FieldList) (out []string) {
	if fields == nil {
		return nil
	}
	for _, field := range fields.List {
		typ := typeString(field.Type)
		for range max(1, len(field.Names)) {
			out = append(out, typ)
		}
	}
	return out
}

func typeParams(fields *ast.FieldList) string {
	if fields == nil {
		return ""
	}
	var out []string
	for _, field := range fields.List {
		for _, name := range field.Names {
			out = append(out, name.Name+" "+typeString(field.Type))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}
