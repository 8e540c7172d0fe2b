package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
	"github.com/sortie-go/sortie/internal/memnet"
)

type doc struct {
	User int `json:"user"`
	Recs int `json:"recs"`
}

// docHandler serves a page of a required and an optional part.
func docHandler(user, recs func(context.Context) (int, error)) *facade.Handler[doc] {
	return &facade.Handler[doc]{
		Options: facade.Options{Name: "doc", Timeout: 500 * ms},
		Run: func(ctx context.Context, s *facade.Scope, _ *http.Request) (doc, error) {
			u := facade.Go(s, "user", user)
			r := facade.Go(s, "recs", recs, facade.Part[int]{Optional: true, Fallback: 7, Timeout: 300 * ms})
			var d doc
			var err error
			if d.User, err = u.Get(ctx); err != nil {
				return d, err
			}
			d.Recs, err = r.Get(ctx)
			return d, err
		},
	}
}

// serve answers a request for the page. In a bubble, no network is needed to see what is written.
func serve(t *testing.T, h http.Handler, change ...func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/doc/1", nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	var b strings.Builder
	if err := res.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(b.String(), "\r\n\r\n")
	return text
}

func askStates(r *http.Request) { r.Header.Set(facade.HeaderStates, "1") }

func TestHandlerAnswersCompletePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := serve(t, docHandler(after(10*ms, 1), after(10*ms, 2)), askStates)
		if res.StatusCode != 200 || res.Header.Get(facade.HeaderComplete) != "true" || res.Header.Get("Cache-Control") != "" ||
			res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Content-Length") != "19" ||
			res.Header.Get("Server-Timing") != "" {
			t.Error(res.Status, res.Header)
		}
		if got := body(t, res); got != `{"user":1,"recs":2}` {
			t.Error(got)
		}
	})
}

func TestHandlerKeepsPoorPagesOutOfCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := docHandler(after(10*ms, 1), failing(10*ms, errBoom))
		h.Header = func(header http.Header, d doc, rep *facade.Report) {
			header.Set("Cache-Control", "max-age=60")
			header.Set("X-User", fmt.Sprint(d.User, rep.Complete))
		}
		res := serve(t, h)
		if res.StatusCode != 200 || res.Header.Get(facade.HeaderComplete) != "false" || res.Header.Get("Cache-Control") != "no-store" ||
			res.Header.Get("X-User") != "1 false" {
			t.Error(res.Status, res.Header)
		}
		if got := body(t, res); got != `{"user":1,"recs":7}` {
			t.Error(got)
		}
		h = docHandler(after(0, 1), after(0, 1))
		h.Header = func(header http.Header, _ doc, _ *facade.Report) { header.Set("Cache-Control", "max-age=60") }
		if res := serve(t, h); res.Header.Get("Cache-Control") != "max-age=60" {
			t.Error(res.Header)
		}
	})
}

func TestHandlerStatus(t *testing.T) {
	statusFor := func(err error) int {
		if s, ok := errors.AsType[statusError](err); ok {
			return int(s)
		}
		return 0
	}
	self := func(ctx context.Context, s *facade.Scope, _ *http.Request) (doc, error) {
		f := make(chan *facade.Future[int], 1)
		f <- facade.Go(s, "a", func(ctx context.Context) (int, error) { return (<-f).Get(ctx) })
		time.Sleep(ms)
		return doc{}, nil
	}
	runs := func(fn func(context.Context, *facade.Scope, *http.Request) (doc, error)) *facade.Handler[doc] {
		return &facade.Handler[doc]{Run: fn, StatusFor: statusFor}
	}
	fails := func(err error) *facade.Handler[doc] {
		h := docHandler(failing(10*ms, err), after(0, 1))
		h.StatusFor = statusFor
		return h
	}
	for name, c := range map[string]struct {
		h      *facade.Handler[doc]
		status int
	}{
		"the run is late":         {docHandler(after(time.Minute, 1), after(0, 1)), 504},
		"a part is late":          {fails(context.DeadlineExceeded), 504},
		"a part fails":            {fails(errBoom), 502},
		"missing":                 {fails(statusError(404)), 404},
		"refused":                 {fails(fmt.Errorf("stock: %w", statusError(503))), 503},
		"no opinion":              {fails(statusError(200)), 502},
		"the page itself":         {runs(func(context.Context, *facade.Scope, *http.Request) (doc, error) { return doc{}, errBoom }), 500},
		"the page itself, judged": {runs(func(context.Context, *facade.Scope, *http.Request) (doc, error) { return doc{}, statusError(400) }), 400},
		"a part panics":           {docHandler(func(context.Context) (int, error) { panic("oops") }, after(0, 1)), 500},
		"the page panics":         {runs(func(context.Context, *facade.Scope, *http.Request) (doc, error) { panic("oops") }), 500},
		"cycle":                   {runs(self), 500},
		"mistake":                 {docHandler(nil, nil), 500},
		"no Run":                  {&facade.Handler[doc]{}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := serve(t, c.h, askStates)
				if res.StatusCode != c.status || res.Header.Get("Content-Type") != "application/problem+json" ||
					res.Header.Get("Cache-Control") != "no-store" || res.Header.Get(facade.HeaderComplete) != "" {
					t.Error(res.Status, res.Header)
				}
				got := body(t, res)
				if want := fmt.Sprintf(`{"title":%q,"status":%d}`, http.StatusText(c.status), c.status); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

func TestHandlerValueThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rep *facade.Report
		h := &facade.Handler[float64]{
			Options: facade.Options{OnRun: func(r *facade.Report) { rep = r }},
			Run:     func(context.Context, *facade.Scope, *http.Request) (float64, error) { return math.NaN(), nil },
		}
		if res := serve(t, h); res.StatusCode != 500 || res.Header.Get(facade.HeaderComplete) != "" {
			t.Error(res.Status, res.Header)
		}
		if _, ok := errors.AsType[*json.UnsupportedValueError](rep.Err); !ok {
			t.Error("nobody is told:", rep.Err)
		}
	})
}

func TestHandlerTellsOfAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rep *facade.Report
		h := &facade.Handler[doc]{
			Options: facade.Options{OnRun: func(r *facade.Report) { rep = r }},
			Run:     func(context.Context, *facade.Scope, *http.Request) (doc, error) { panic("oops") },
		}
		serve(t, h)
		if p, ok := errors.AsType[*facade.PanicError](rep.Err); !ok || p.Value != "oops" || !strings.Contains(string(p.Stack), "TestHandlerTellsOfAPanic") {
			t.Error("nobody is told:", rep.Err)
		}
	})
}

// A panic of the handler's other functions is not the run's: the server above has to tell of it.
func TestHandlerPassesOtherPanicsOn(t *testing.T) {
	fails := func(context.Context, *facade.Scope, *http.Request) (doc, error) { return doc{}, errBoom }
	works := func(context.Context, *facade.Scope, *http.Request) (doc, error) { return doc{}, nil }
	for name, h := range map[string]*facade.Handler[doc]{
		"StatusFor":  {Run: fails, StatusFor: func(error) int { panic("oops") }},
		"Header":     {Run: works, Header: func(http.Header, doc, *facade.Report) { panic("oops") }},
		"ShowStates": {Run: works, ShowStates: func(*http.Request) bool { panic("oops") }},
		"OnRun":      {Run: works, Options: facade.Options{OnRun: func(*facade.Report) { panic("oops") }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer func() {
					if v := recover(); v != "oops" {
						t.Error(v)
					}
				}()
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
				askStates(r)
				h.ServeHTTP(&silent{t}, r)
			})
		})
	}
}

// The caller cancelled: nothing is written, and it is not a 504.
func TestHandlerWritesNothingForACallerWhoLeft_krakendce949(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := docHandler(after(time.Minute, 1), after(0, 1))
		var rep *facade.Report
		h.Options.OnRun = func(r *facade.Report) { rep = r }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*ms, cancel)
		w := &silent{t: t}
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/doc/1", nil))
		if e, ok := rep.Err.(*facade.Error); !ok || e.Kind != facade.Cancelled || !errors.Is(e, context.Canceled) || rep.Took != 20*ms {
			t.Error(rep.Err)
		}
	})
}

// silent is a response that nobody may write to.
type silent struct{ t *testing.T }

func (w *silent) Header() http.Header         { w.t.Error("header"); return http.Header{} }
func (w *silent) Write(p []byte) (int, error) { w.t.Error("written"); return len(p), nil }
func (w *silent) WriteHeader(status int)      { w.t.Error("status", status) }

func TestHandlerPassesAbortOn(t *testing.T) {
	abort := func(context.Context) (int, error) { panic(http.ErrAbortHandler) }
	for name, h := range map[string]http.Handler{
		"in a part": docHandler(abort, after(0, 1)),
		"in Run":    &facade.Handler[doc]{Run: func(context.Context, *facade.Scope, *http.Request) (doc, error) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer func() {
					if v := recover(); v != http.ErrAbortHandler {
						t.Error(v)
					}
				}()
				h.ServeHTTP(&silent{t}, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
			})
		})
	}
}

func TestHandlerShowsStatesToWhoMaySeeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := docHandler(after(10*ms, 1), after(time.Minute, 2))
		h.ShowStates = func(r *http.Request) bool { return r.Header.Get("X-Staff") != "" }
		staff := func(r *http.Request) { r.Header.Set("X-Staff", "1") }
		if got := serve(t, h, askStates).Header.Get("Server-Timing"); got != "" {
			t.Error("shown to a stranger:", got)
		}
		if got := serve(t, h, staff).Header.Get("Server-Timing"); got != "" {
			t.Error("shown unasked:", got)
		}
		if got, want := serve(t, h, staff, askStates).Header.Get("Server-Timing"), `user;dur=10, recs;dur=300;desc="fallback: timeout"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		h = docHandler(failing(10*ms, errBoom), after(time.Minute, 2))
		h.ShowStates = func(*http.Request) bool { return true }
		res := serve(t, h, askStates)
		if got, want := res.Header.Get("Server-Timing"), `user;dur=10;desc="failed: failed", recs;dur=10;desc="cancelled"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := body(t, res); got != `{"title":"Bad Gateway","status":502,"part":"user"}` {
			t.Error(got)
		}
		if res := serve(t, h); body(t, res) != `{"title":"Bad Gateway","status":502}` {
			t.Error("the part is named to who did not ask")
		}
	})
}

func FuzzServerTiming(f *testing.F) {
	f.Add("user", "cart[3]")
	f.Add("a;b=\"c\"\r\nSet-Cookie: x", "\x00\xff ,")
	f.Fuzz(func(t *testing.T, one, two string) {
		h := &facade.Handler[int]{
			Run: func(ctx context.Context, s *facade.Scope, _ *http.Request) (int, error) {
				a, b := facade.Go(s, one, after(0, 1)), facade.Go(s, two, after(0, 2))
				return sum(ctx, a, b)
			},
			ShowStates: func(*http.Request) bool { return true },
		}
		res := serve(t, h, askStates)
		if one == "" || two == "" || one == two {
			if res.StatusCode != 500 {
				t.Error(res.Status)
			}
			return
		}
		members := strings.Split(res.Header.Get("Server-Timing"), ", ")
		if len(members) != 2 || res.StatusCode != 200 {
			t.Fatalf("%q", res.Header)
		}
		for _, m := range members {
			token, _, ok := strings.Cut(m, ";dur=")
			if !ok || token == "" || strings.Trim(token, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				t.Errorf("%q", m)
			}
		}
		var v int
		if err := json.Unmarshal([]byte(body(t, res)), &v); err != nil || v != 3 {
			t.Error(v, err)
		}
	})
}

// Over a connection: HEAD has the length of the body it leaves out, and a client that hangs up ends the run.
func TestHandlerOverAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		ln, err := network.Listen("page.example:80")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 3)
		h := docHandler(after(50*ms, 1), after(10*ms, 2))
		h.Options.OnRun = func(rep *facade.Report) { ended <- rep.Err }
		srv := &http.Server{Handler: h}
		go srv.Serve(ln)
		defer srv.Close()
		tr := &http.Transport{DialContext: network.DialContext}
		defer tr.CloseIdleConnections()
		client := &http.Client{Transport: tr}

		res, err := client.Head("http://page.example/doc/1")
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, res); res.ContentLength != 19 || got != "" || <-ended != nil {
			t.Error(res.ContentLength, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://page.example/doc/1", nil)
		if _, err := client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
