package repocheck_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

const depsFile = "internal/repocheck/deps.txt"

// A requirement is one line of go.mod's require blocks.
type requirement struct {
	module   string
	indirect bool
}

// A dependency is one line of deps.txt: a module, the folders that may import it, and the reason for having it.
type dependency struct {
	module string
	places []string
	reason string
}

func checkDeps(tr *tree) (out []finding) {
	required := parseRequirements(tr.texts["go.mod"])
	for _, r := range required {
		if strings.HasPrefix(r.module, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(r.module, "go.opentelemetry.io/otel/exporters") {
			out = append(out, finding{"go.mod", r.module + ": the library uses OpenTelemetry's API only"})
		}
	}
	listed, bad := parseDeps(tr.texts[depsFile])
	out = append(out, bad...)
	seen := map[string]bool{}
	tr.each(func(f *file) bool { return tr.moduleOf(f.pkg.dir) == "." }, func(f *file) {
		imports := f.imports()
		for _, name := range slices.Sorted(maps.Keys(imports)) {
			if _, ok := own(name); ok || standard(name) {
				continue
			}
			module := longestPrefix(name, required)
			seen[module] = true
			if text := judgeImport(name, module, f.pkg.dir, listed); text != "" {
				out = append(out, finding{tr.at(ast.Node(imports[name])), text})
			}
		}
	})
	for _, d := range listed {
		if !seen[d.module] {
			out = append(out, finding{depsFile, d.module + " is listed and not imported"})
		}
	}
	for _, r := range required {
		if !r.indirect && !seen[r.module] {
			out = append(out, finding{"go.mod", r.module + " is required directly and not imported (go mod tidy)"})
		}
	}
	return out
}

func judgeImport(name, module, dir string, listed []dependency) string {
	if module == "" {
		return name + " belongs to no module that go.mod requires"
	}
	i := slices.IndexFunc(listed, func(d dependency) bool { return d.module == module })
	switch {
	case i < 0:
		return module + " is not in deps.txt"
	case !slices.Contains(listed[i].places, dir):
		return fmt.Sprintf("%s may be imported in %s only, says deps.txt", module, strings.Join(listed[i].places, ", "))
	}
	return ""
}

// longestPrefix returns the required module to which an import path belongs, or "".
func longestPrefix(importPath string, required []requirement) (best string) {
	for _, r := range required {
		if within(importPath, r.module) && len(r.module) > len(best) {
			best = r.module
		}
	}
	return best
}

func parseRequirements(gomod string) (out []requirement) {
	block := false
	for line := range strings.Lines(gomod) {
		line = strings.TrimSpace(line)
		rest, single := strings.CutPrefix(line, "require ")
		switch {
		case line == "require (":
			block = true
		case line == ")":
			block = false
		case single || block:
			if fields := strings.Fields(rest); len(fields) >= 2 {
				out = append(out, requirement{fields[0], strings.HasSuffix(line, "// indirect")})
			}
		}
	}
	return out
}

// parseDeps reads deps.txt: "module  place[,place...]  reason", with comments after '#'.
func parseDeps(text string) (out []dependency, bad []finding) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 4 {
			bad = append(bad, finding{fmt.Sprintf("%s:%d", depsFile, number), "want: module, places joined by commas, reason"})
			continue
		}
		out = append(out, dependency{fields[0], strings.Split(fields[1], ","), strings.Join(fields[2:], " ")})
	}
	return out, bad
}
