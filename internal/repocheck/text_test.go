package repocheck_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func textRules() []rule {
	return []rule{
		{
			"prose",
			"Go code that nothing compiles rots: what a document shows stands in an example test or an example program",
			checkProse,
		},
		{
			"words",
			"the repository is read on other machines, and what is unfinished belongs in an issue",
			checkWords,
		},
	}
}

// checkProse compares the Go blocks of every Markdown file, white space aside, with the examples.
func checkProse(tr *tree) (out []finding) {
	var compiled strings.Builder
	tr.each(func(f *file) bool { return f.example() || within(f.path, "examples") }, func(f *file) {
		compiled.WriteString(squeeze(tr.texts[f.path]) + "\n")
	})
	for _, name := range slices.Sorted(maps.Keys(tr.texts)) {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, b := range goBlocks(tr.texts[name]) {
			if !strings.Contains(compiled.String(), squeeze(b.code)) {
				out = append(out, finding{fmt.Sprintf("%s:%d", name, b.line), "this code is in no example: " + firstLine(b.code)})
			}
		}
	}
	return out
}

func squeeze(code string) string { return strings.Join(strings.Fields(code), " ") }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

type block struct {
	line int
	code string
}

// goBlocks returns the fenced blocks of a Markdown text that are marked as Go.
func goBlocks(text string) (out []block) {
	number, inside := 0, false
	for line := range strings.Lines(text) {
		number++
		switch fence := strings.TrimSpace(line); {
		case inside && fence == "```":
			inside = false
		case inside:
			out[len(out)-1].code += line
		case fence == "```go" || fence == "```golang":
			inside = true
			out = append(out, block{line: number})
		}
	}
	return out
}

// unfinished and local are written so that this file does not contain what they look for.
var (
	unfinished = regexp.MustCompile(`(?:^|[^.\w])(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b|\bnot imple` + `mented\b`)
	local      = regexp.MustCompile(`(^|[^\w.])/(home|root|Users)` + `/\w|[A-Z]:\\Users` + `\\`)
)

func checkWords(tr *tree) (out []finding) {
	paths := checkoutPaths(tr.root)
	for _, name := range slices.Sorted(maps.Keys(tr.texts)) {
		number := 0
		for line := range strings.Lines(tr.texts[name]) {
			number++
			word := cmp.Or(unfinished.FindString(line), local.FindString(line))
			for _, p := range paths {
				if strings.Contains(line, p) {
					word = p
				}
			}
			if word != "" {
				out = append(out, finding{fmt.Sprintf("%s:%d", name, number), fmt.Sprintf("%q", strings.TrimSpace(word))})
			}
		}
	}
	return out
}

// checkoutPaths returns the paths that exist on this machine only: of the checkout and of the user's home.
func checkoutPaths(root string) (out []string) {
	home, _ := os.UserHomeDir()
	for _, p := range []string{root, home} {
		if strings.Count(p, "/") > 1 { // "/src" could be part of anything
			out = append(out, p)
		}
	}
	return out
}
