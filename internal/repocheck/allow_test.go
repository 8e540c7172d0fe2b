package repocheck_test

import (
	"fmt"
	"go/ast"
	"strings"
)

const allowFile = "internal/repocheck/allow.txt"

// An allowance is one line of allow.txt: a rule, the function that may break it as "path:Function" or
// "path:Type.Method" (a variable's or constant's name for package-level declarations), and the reason.
type allowance struct {
	rule, place, reason string
	line                int
	used                bool
}

func parseAllowances(text string) (out []*allowance) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		a := &allowance{rule: fields[0], line: number}
		if len(fields) > 1 {
			a.place, a.reason = fields[1], strings.Join(fields[2:], " ")
		}
		out = append(out, a)
	}
	return out
}

// allows reports whether allow.txt lets the declaration break the rule, and notes that the line is needed.
func (tr *tree) allows(rule string, f *file, decl ast.Decl) bool {
	found := false
	for _, name := range declared(decl) {
		for _, a := range tr.allowed {
			if a.rule == rule && a.place == f.path+":"+name && a.reason != "" {
				a.used, found = true, true
			}
		}
	}
	return found
}

// unusedAllowances returns the lines for one rule that nothing needed. It runs after the rule.
func (tr *tree) unusedAllowances(rule string) (out []finding) {
	for _, a := range tr.allowed {
		if a.rule == rule && !a.used {
			out = append(out, finding{fmt.Sprintf("%s:%d", allowFile, a.line), a.place + " does not need this line, or it gives no reason"})
		}
	}
	return out
}

// declared returns the names that a top-level declaration introduces; methods as Type.Method.
func declared(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if recv := receiver(d); recv != "" {
			return []string{recv + "." + d.Name.Name}
		}
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range v.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}
