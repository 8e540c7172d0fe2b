package sortietest_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// example stands in for a test in examples, which have none.
type example struct{ fakeTB }

func newExample() *example { return new(example) }

func (e *example) Fatalf(format string, args ...any) {
	e.fakeTB.Fatalf(format, args...)
	panic(e.errors)
}

// The bubble in the package documentation.
func TestDocBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Hang())
		client := &http.Client{Transport: &http.Transport{DialContext: n.DialContext}, Timeout: time.Hour}
		start := time.Now()
		_, err := client.Get(up.URL()) // a timeout, at once
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			t.Errorf("error %v, want a timeout", err)
		}
		wantTook(t, start, time.Hour)
	})
}

// Code in comments rots unless something compiles it: each line of it must stand in a test or an example, too.
func TestCodeInDocumentationIsCompiled(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := make(map[string]bool)
	documented := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			code, isDoc := strings.CutPrefix(strings.TrimSpace(line), "//\t")
			switch {
			case strings.HasSuffix(file, "_test.go") && !isDoc:
				compiled[strings.TrimSpace(line)] = true
			case isDoc && !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "dns"):
				documented[strings.TrimSpace(code)] = file
			}
		}
	}
	if len(documented) < 10 {
		t.Errorf("found %d lines of code in the documentation: is this still looking in the right place?", len(documented))
	}
	for line, file := range documented {
		if !compiled[line] {
			t.Errorf("%s: code in a comment that nothing compiles: %s", file, line)
		}
	}
}
