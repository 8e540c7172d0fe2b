package repocheck_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "rewrite api.txt from the source")

// A rule judges a tree. Its name is also the prefix of its files in testdata and the first field in allow.txt.
type rule struct {
	name   string
	reason string
	check  func(*tree) []finding
}

// A finding is one place where a rule is broken. pos is "path:line", or a path alone.
type finding struct{ pos, text string }

func (f finding) String() string { return f.pos + ": " + f.text }

// rules lists every rule. The order is that of the list in CONTRIBUTING.md.
func rules() []rule {
	return slices.Concat(structureRules(), callRules(), textRules())
}

func TestRepository(t *testing.T) {
	root := repositoryRoot(t)
	src := os.DirFS(root)
	if *update {
		text := surfaceText(loadTree(t, src))
		if err := os.WriteFile(filepath.Join(root, apiFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := loadTree(t, src)
	tree.root = root
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if found := lines(r.check(tree)); len(found) > 0 {
				t.Errorf("%s\nwhy this rule: %s", strings.Join(found, "\n"), r.reason)
			}
		})
	}
}

// TestRulesCatch runs each rule over the trees of testdata/<rule>*.txtar. What stands before an archive's first file is
// the findings that the rule must give, and no others; so a tree shows what is caught and what is let through.
func TestRulesCatch(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			archives, err := filepath.Glob(filepath.Join("testdata", r.name+"*.txtar"))
			if err != nil || len(archives) == 0 {
				t.Fatalf("no testdata shows that rule %q catches anything (%v)", r.name, err)
			}
			for _, name := range archives {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				want, files := splitArchive(string(text))
				if len(want) == 0 {
					t.Errorf("%s expects no finding, so it proves nothing", name)
				}
				got := lines(r.check(loadTree(t, files)))
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: rule %s found\n\t%s\nwant\n\t%s", name, r.name,
						strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
				}
			}
		})
	}
}

// splitArchive reads the txtar form: lines of expected findings, then files, each under a line "-- name --".
func splitArchive(text string) (want []string, files fstest.MapFS) {
	files = fstest.MapFS{}
	var current *fstest.MapFile
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if name, end := strings.CutSuffix(name, " --"); ok && end {
			current = &fstest.MapFile{}
			files[name] = current
			continue
		}
		if current != nil {
			current.Data = append(current.Data, line...)
		} else if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	return want, files
}

// repositoryRoot returns the folder of go.work, looking upwards from the package's own.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			err = fs.ErrNotExist
		}
		dir = parent
	}
	t.Fatalf("go.work: %v", err)
	return ""
}

func lines[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}
