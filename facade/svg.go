package facade

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Measures of the picture, in pixels.
const (
	svgWidth  = 960
	svgLabel  = 190 // left of the bars
	svgStatus = 150 // right of them
	svgBars   = svgWidth - svgLabel - svgStatus
	svgRow    = 22
	svgHead   = 58
	svgFoot   = 34
)

// The colours keep their order of brightness without colour vision, and a bar's state is also written beside it.
var svgColours = map[byte]string{'.': "#d5d9de", '-': "#a9c7e8", '=': "#2f6db3", '~': "#e39b2d"}

const (
	svgText   = "#1f2328"
	svgFaint  = "#57606a"
	svgLine   = "#e4e7eb"
	svgFailed = "#c23b3b"
	svgIdle   = "#8a929b" // unused and cancelled work
)

// WriteSVG writes what Waterfall shows as a picture: a whole SVG document, without scripts, styles or references. The
// same report gives the same bytes. Hovering over a line shows its details.
func (rep *Report) WriteSVG(w io.Writer) error {
	d := &drawing{length: rep.length(), critical: rep.critical()}
	height := svgHead + svgRow*len(rep.Parts) + svgFoot
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"`, svgWidth, height)
	d.printf(` role="img" font-family="system-ui, sans-serif" font-size="12" fill="%s">`+"\n", svgText)
	title := fmt.Sprintf("%s: %s of %s, %s", rep.title(), short(rep.Took), short(rep.Limit), rep.verdict())
	d.printf("<title>%s</title>\n", escaped(title))
	d.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", svgWidth, height)
	d.text(12, 22, `font-size="14" font-weight="600"`, title)
	d.axis(svgHead + svgRow*len(rep.Parts))
	for i := range rep.Parts {
		d.part(svgHead+svgRow*i, &rep.Parts[i])
	}
	d.legend(height - 12)
	d.printf("</svg>\n")
	_, err := w.Write(d.Bytes())
	return err
}

type drawing struct {
	bytes.Buffer
	length   time.Duration
	critical map[string]bool
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Buffer, format, args...) }

func (d *drawing) text(x, y int, attrs, s string) {
	d.printf(`<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attrs, escaped(s))
}

// x is where a moment lies.
func (d *drawing) x(at time.Duration) float64 {
	return svgLabel + float64(svgBars)*float64(at)/float64(d.length)
}

// axis draws a line for each round moment: four to nine of them.
func (d *drawing) axis(bottom int) {
	step := roundStep(d.length)
	for at := time.Duration(0); at <= d.length; at += step {
		x := d.x(at)
		d.printf(`<path d="M%.1f %dV%d" stroke="%s"/>`+"\n", x, svgHead-8, bottom, svgLine)
		d.text(int(x), svgHead-14, fmt.Sprintf(`text-anchor="middle" font-size="11" fill="%s"`, svgFaint), at.String())
	}
}

// roundStep is 1, 2 or 5 times a power of ten.
func roundStep(length time.Duration) time.Duration {
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if int64(length)/(digit*power) < 10 {
				return time.Duration(digit * power)
			}
		}
	}
}

func (d *drawing) part(y int, p *PartReport) {
	d.printf("<g><title>%s</title>\n", escaped(p.details()))
	d.printf(`<rect x="0" y="%d" width="%d" height="%d" fill="none" pointer-events="all"/>`+"\n", y, svgWidth, svgRow)
	weight := ""
	if d.critical[p.Name] {
		weight = ` font-weight="700"`
	}
	d.text(svgLabel-10, y+15, `text-anchor="end"`+weight, plain(p.Name, nameWidth))
	for _, s := range p.stretches() {
		width := max(d.x(s.to)-d.x(s.from), 2)
		switch {
		case s.what == '~': // to be seen also if it took no time
			width = max(width, 8)
		case s.to <= s.from:
			continue
		}
		d.printf(`<rect x="%.1f" y="%d" width="%.1f" height="14" rx="2" fill="%s"/>`+"\n", d.x(s.from), y+4, width, p.colour(s.what))
	}
	colour := svgFaint
	if p.State == StateFailed {
		colour = svgFailed
	}
	status := p.State.String()
	if p.Started > 0 || p.Took > 0 {
		status += "  " + short(p.Took)
	}
	if p.Late {
		status += "  late"
	}
	d.text(svgWidth-svgStatus+10, y+15, fmt.Sprintf(`font-size="11" fill="%s"`, colour), status)
	d.printf("</g>\n")
}

func (p *PartReport) colour(what byte) string {
	switch {
	case what == '=' && p.State == StateFailed:
		return svgFailed
	case what == '=' && (p.State == StateUnused || p.State == StateCancelled):
		return svgIdle
	}
	return svgColours[what]
}

// details is the text shown when one points at a part.
func (p *PartReport) details() string {
	words := []string{p.Name, p.State.String(), "took " + short(p.Took)}
	if p.Queued > 0 {
		words = append(words, "queued "+short(p.Queued))
	}
	if p.Parked > 0 {
		words = append(words, "waiting "+short(p.Parked))
	}
	for _, w := range p.Waits {
		words = append(words, "for "+w.Part)
	}
	if remark := p.remark(); remark != "" {
		words = append(words, remark)
	}
	return strings.Join(words, ", ")
}

func (d *drawing) legend(y int) {
	x := svgLabel
	for _, l := range []struct {
		what byte
		name string
	}{{'.', "queued"}, {'=', "running"}, {'-', "waiting for a part"}, {'~', "fallback"}} {
		d.printf(`<rect x="%d" y="%d" width="14" height="10" rx="2" fill="%s"/>`+"\n", x, y-9, svgColours[l.what])
		d.text(x+19, y, fmt.Sprintf(`font-size="11" fill="%s"`, svgFaint), l.name)
		x += 36 + 6*len(l.name)
	}
	d.text(x, y, fmt.Sprintf(`font-size="11" font-weight="700" fill="%s"`, svgFaint), "critical path")
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
