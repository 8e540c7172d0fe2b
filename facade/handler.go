package facade

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The header fields that a Handler writes or reads.
const (
	HeaderComplete = "Facade-Complete" // of the answer: true, or false if a fallback stands in for a part
	HeaderStates   = "Facade-States"   // of the request: "1" asks for the states of the parts
)

// Handler serves a run as an HTTP endpoint. Its value is the body, as JSON.
//
//	outcome                              answer
//	complete                             200, Facade-Complete: true
//	a fallback was used                  200, Facade-Complete: false, Cache-Control: no-store
//	the run or a required part was late  504
//	a required part failed               502, or what StatusFor says
//	the function returned an error       500, or what StatusFor says
//	panic, cycle, mistake                500
//	the caller went away                 nothing is written
//
// Errors are written as application/problem+json (RFC 9457), without the text of the error; Options.OnRun gets that, and
// the stack of a panic. A panic with http.ErrAbortHandler, also in a part, is passed on, and so is one in StatusFor, Header
// or ShowStates: nothing was written then.
//
// Only Run is required. The fields must not be changed while the handler serves; it is safe for concurrent use.
type Handler[T any] struct {
	Options Options

	// Run is the function of the run. The context is that of the run, not that of the request.
	Run func(ctx context.Context, s *Scope, r *http.Request) (T, error)

	// StatusFor, if set, says with which status a failure is answered: 404 for an item that does not exist, 503 for a
	// back end that was not even asked. It gets the run's error; errors.Is and errors.As reach what the part returned.
	// Anything but a status from 400 to 599 means that it has no opinion.
	StatusFor func(error) int

	// Header, if set, adds or overrides fields of a successful answer. It cannot make an incomplete one cacheable.
	Header func(http.Header, T, *Report)

	// ShowStates says who may see, with the request header Facade-States: 1, the state of each part as Server-Timing, and
	// the part's name in problem bodies. Nil means nobody.
	ShowStates func(*http.Request) bool
}

// ServeHTTP runs Run and writes the answer.
func (h *Handler[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := h.answer(r)
	if !errors.Is(r.Context().Err(), context.Canceled) {
		a.write(w)
	}
}

// answer is complete before its first byte is written: whatever may fail has failed before.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // an error means that the caller went away
}

func (h *Handler[T]) answer(r *http.Request) answer {
	v, body, rep, err := h.do(r)
	if errors.Is(r.Context().Err(), context.Canceled) {
		return answer{}
	}
	states := r.Header.Get(HeaderStates) == "1" && h.ShowStates != nil && h.ShowStates(r)
	var a answer
	if err != nil {
		a = problem(h.status(err), partOf(err, states))
	} else {
		a = h.success(v, body, rep)
	}
	if states {
		a.header.Set("Server-Timing", serverTiming(rep.Parts))
	}
	return a
}

// do makes the run. Writing the JSON is a part of it: what goes wrong there is in the report, as is a panic.
func (h *Handler[T]) do(r *http.Request) (v T, body []byte, rep *Report, err error) {
	var run func(context.Context, *Scope) (T, error)
	if h.Run != nil {
		run = func(ctx context.Context, s *Scope) (v T, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = panicked("", p)
				}
			}()
			if v, err = h.Run(ctx, s, r); err == nil {
				body, err = json.Marshal(v)
			}
			return v, err
		}
	}
	v, rep, err = Do(r.Context(), h.Options, run)
	if p, ok := errors.AsType[*PanicError](err); ok && errors.Is(p, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	return v, body, rep, err
}

func (h *Handler[T]) success(v T, body []byte, rep *Report) answer {
	a := answer{status: http.StatusOK, header: make(http.Header), body: body}
	a.header.Set("Content-Type", "application/json")
	a.header.Set(HeaderComplete, strconv.FormatBool(rep.Complete))
	if h.Header != nil {
		h.Header(a.header, v, rep)
	}
	if !rep.Complete {
		a.header.Set("Cache-Control", "no-store")
	}
	return a
}

// status judges the error of a run.
func (h *Handler[T]) status(err error) int {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || e.Kind != Failed && e.Kind != TimedOut && e.Kind != Cancelled:
		return http.StatusInternalServerError
	case e.Timeout():
		return http.StatusGatewayTimeout
	}
	if h.StatusFor != nil {
		if status := h.StatusFor(err); status >= 400 && status <= 599 {
			return status
		}
	}
	if e.Part == "" { // it was not a part: the function of the run itself said no
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

func partOf(err error, show bool) string {
	e, ok := errors.AsType[*Error](err)
	if !ok || !show {
		return ""
	}
	return e.Part
}

// problem is an answer of RFC 9457. No cache keeps it: some of its statuses would be kept without being told so.
func problem(status int, part string) answer {
	body, _ := json.Marshal(struct { //nolint:errchkjson // strings and a number: cannot fail
		Title  string `json:"title"`
		Status int    `json:"status"`
		Part   string `json:"part,omitempty"`
	}{http.StatusText(status), status, part})
	return answer{status: status, body: body, header: http.Header{
		"Content-Type":  {"application/problem+json"},
		"Cache-Control": {"no-store"},
	}}
}

// serverTiming writes the states as browsers show them, such as recs;dur=301;desc="fallback: timeout". The text of an
// error has no place there, only its kind.
func serverTiming(parts []PartReport) string {
	var b strings.Builder
	for i := range parts[:min(len(parts), listed)] {
		p := &parts[i]
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(token(p.Name))
		b.WriteString(";dur=" + strconv.FormatFloat(float64(p.Took.Round(100*time.Microsecond))/1e6, 'f', -1, 64))
		if p.State == StateOK {
			continue
		}
		desc := p.State.String()
		if e, ok := errors.AsType[*Error](p.Err); ok && (p.State == StateFallback || p.State == StateFailed) {
			desc += ": " + e.Kind.String()
		}
		b.WriteString(`;desc="` + desc + `"`)
	}
	return b.String()
}

// token makes a token of RFC 9110 out of a name.
func token(name string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", c)) {
			return c
		}
		return '_'
	}, name)
}
