package facade

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CriticalPath returns the parts that the run's end waited for, in the order of time: the one that its function waited
// for last, before it the one that this part waited for last, and so on. To make the run faster, make one of these faster,
// or start it earlier.
func (rep *Report) CriticalPath() []PartReport {
	byName := make(map[string]int, len(rep.Parts))
	for i := range rep.Parts {
		byName[rep.Parts[i].Name] = i
	}
	var path []PartReport
	seen := make(map[string]bool)
	waits, until, inFn := rep.Waits, rep.Took, true
	for {
		name := lastWait(waits, until)
		i, ok := byName[name]
		switch {
		case name != "" && ok && !seen[name]:
			seen[name] = true
			path = append(path, rep.Parts[i])
			waits, until, inFn = rep.Parts[i].Waits, rep.Parts[i].end(), false
		case !inFn: // the part was declared late, perhaps because the run's function had to wait before
			p := path[len(path)-1]
			waits, until, inFn = rep.Waits, p.Started-p.Queued, true
		default:
			for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
				path[i], path[j] = path[j], path[i]
			}
			return path
		}
	}
}

// lastWait returns the part of the wait that ended last, at until or before.
func lastWait(waits []Wait, until time.Duration) string {
	var last Wait
	for _, w := range waits {
		if w.To <= until && w.To > last.To {
			last = w
		}
	}
	return last.Part
}

func (p *PartReport) end() time.Duration { return p.Started + p.Took }

// stretch is a piece of a part's line in the picture.
type stretch struct {
	what     byte // one of . = - ~
	from, to time.Duration
}

// stretches are in the order in which they are to be painted: a later one covers those before.
func (p *PartReport) stretches() []stretch {
	s := []stretch{{'.', p.Started - p.Queued, p.Started}, {'=', p.Started, p.end() - p.Fallback}}
	for _, w := range p.Waits {
		s = append(s, stretch{'-', w.From, w.To})
	}
	if p.State == StateFallback && p.Elements == 0 {
		s = append(s, stretch{'~', p.end() - p.Fallback, p.end()})
	}
	return s
}

// length is the time that the picture has to show.
func (rep *Report) length() time.Duration {
	length := max(rep.Took, 1)
	for i := range rep.Parts {
		length = max(length, rep.Parts[i].end())
	}
	return length
}

const (
	lineWidth = 50
	nameWidth = 24
	noteWidth = 60
)

// Waterfall draws the run in text, a line per part: queued ".", running "=", parked in Get "-", falling back "~". A star
// marks the critical path.
func (rep *Report) Waterfall() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s, %s\n", plain(rep.title(), nameWidth), short(rep.Took), short(rep.Limit), rep.verdict())
	critical := rep.critical()
	names := 4
	for i := range rep.Parts {
		names = max(names, utf8.RuneCountInString(plain(rep.Parts[i].Name, nameWidth)))
	}
	length := rep.length()
	for i := range rep.Parts {
		p := &rep.Parts[i]
		star := ' '
		if critical[p.Name] {
			star = '*'
		}
		fmt.Fprintf(&b, "%c %-*s %-9s %8s |%s|", star, names, plain(p.Name, nameWidth), p.State, short(p.Took), p.line(length))
		if remark := plain(p.remark(), noteWidth); remark != "" {
			b.WriteString(" " + remark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (rep *Report) title() string {
	if rep.Name == "" {
		return "run"
	}
	return rep.Name
}

func (rep *Report) verdict() string {
	verdict := "complete"
	switch {
	case rep.Err != nil:
		verdict = "failed"
	case !rep.Complete:
		verdict = "incomplete"
	}
	if rep.Stragglers > 0 {
		verdict += fmt.Sprintf(", %d late", rep.Stragglers)
	}
	return verdict
}

func (rep *Report) critical() map[string]bool {
	on := make(map[string]bool)
	for _, p := range rep.CriticalPath() {
		on[p.Name] = true
	}
	return on
}

func (p *PartReport) line(length time.Duration) string {
	line := []byte(strings.Repeat(" ", lineWidth))
	for _, s := range p.stretches() {
		from := int(s.from * lineWidth / length)
		to := int((s.to*lineWidth + length - 1) / length)
		if s.what == '~' { // always to be seen, also if it took no time
			from = min(from, lineWidth-1)
			to = max(to, from+1)
		}
		for i := max(from, 0); i < min(to, lineWidth); i++ {
			line[i] = s.what
		}
	}
	return string(line)
}

// remark is what there is to say about a part besides its times.
func (p *PartReport) remark() string {
	var words []string
	if p.Late {
		words = append(words, "late")
	}
	if p.Shared {
		words = append(words, "shared")
	}
	if p.Batch > 0 {
		words = append(words, fmt.Sprintf("keys=%d", p.Batch))
	}
	if p.Elements > 0 {
		words = append(words, fmt.Sprintf("elements=%d", p.Elements))
	}
	if p.Unlisted > 0 {
		words = append(words, fmt.Sprintf("unlisted=%d", p.Unlisted))
	}
	for _, a := range p.Notes {
		words = append(words, a.String())
	}
	if e, ok := errors.AsType[*Error](p.Err); ok && (p.State == StateFailed || p.State == StateFallback) {
		words = append(words, e.reason())
	}
	return strings.Join(words, " ")
}

// plain makes one line of printable text out of s, of n runes at most.
func plain(s string, n int) string {
	out := make([]rune, 0, n)
	for _, c := range s {
		if len(out) == n {
			out[n-1] = '…'
			break
		}
		if !unicode.IsPrint(c) {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// short rounds d to what a person reads.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
