package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress shows how far a scenario is, on a terminal; elsewhere it is silent.
type progress struct {
	w    io.Writer // nil: silent
	name string

	mu    sync.Mutex
	what  string
	total int
	made  int
	shown time.Time
}

func newProgress(w io.Writer, name string) *progress {
	p := &progress{name: name}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

// begin starts a part of the scenario, of so many calls.
func (p *progress) begin(what string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.total, p.made, p.shown = what, total, 0, time.Time{}
	p.showLocked()
}

// tick counts one call.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	p.showLocked()
}

func (p *progress) showLocked() {
	const width = 30
	now := time.Now()
	if p.w == nil || p.total == 0 || p.made < p.total && now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	bar := make([]byte, width)
	for i := range bar {
		bar[i] = ' '
		if i*p.total < p.made*width {
			bar[i] = '='
		}
	}
	fmt.Fprintf(p.w, "\r%s, %-8s [%s] %d of %d", p.name, p.what, bar, p.made, p.total)
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
