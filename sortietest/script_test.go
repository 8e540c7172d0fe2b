package sortietest_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func wantAnswer(t *testing.T, c *http.Client, url string, status int, body string) {
	t.Helper()
	if gotStatus, gotBody, err := get(c, url); gotStatus != status || gotBody != body || err != nil {
		t.Errorf("answer %d %q, %v, want %d %q", gotStatus, gotBody, err, status, body)
	}
}

// wantTook checks virtual time: it is for bubbles only.
func wantTook(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("took %v, want %v", got, want)
	}
}

func TestScriptRunsInOrderAndTheLastStepRepeats(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.Status(503), sortietest.OK("a"), sortietest.OK("b"))
	c := up.Client()
	wantAnswer(t, c, up.URL(), 503, "")
	wantAnswer(t, c, up.URL(), 200, "a")
	wantAnswer(t, c, up.URL(), 200, "b")
	wantAnswer(t, c, up.URL(), 200, "b")
}

func TestPlayReplacesTheScript(t *testing.T) {
	up := &sortietest.Upstream{Respond: func(*http.Request) sortietest.Step { return sortietest.Status(500) }}
	up.Start(t)
	c := up.Client()
	wantAnswer(t, c, up.URL(), 500, "")
	up.Play(sortietest.OK("a"), sortietest.OK("b"))
	wantAnswer(t, c, up.URL(), 200, "a")
	up.Play(sortietest.OK("c"))
	wantAnswer(t, c, up.URL(), 200, "c")
	up.Play()
	wantAnswer(t, c, up.URL(), 200, "")
}

func TestRespondDecidesByTheRequest(t *testing.T) {
	up := &sortietest.Upstream{Respond: func(r *http.Request) sortietest.Step {
		if r.URL.Path == "/slow" {
			return sortietest.Status(504)
		}
		body, _ := io.ReadAll(r.Body)
		return sortietest.OK(r.Method + " " + string(body))
	}}
	up.Start(t)
	c := up.Client()
	wantAnswer(t, c, up.URL()+"/slow", 504, "")
	if _, body, _ := do(c, "PUT", up.URL(), "seven"); body != "PUT seven" {
		t.Errorf("answer %q", body)
	}
	if got := up.Requests()[1].Body; string(got) != "seven" {
		t.Errorf("recorded body %q, want what Respond has read", got)
	}
}

func TestHeaders(t *testing.T) {
	base := sortietest.Status(429).With("Retry-After", "1")
	one := base.With("warning", "a").With("Warning", "b")
	two := base.With("Warning", "c")
	up := sortietest.NewUpstream(t, one, two)
	for _, want := range []string{"[a b]", "[c]"} {
		resp, err := up.Client().Get(up.URL())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header["Warning"]; "["+strings.Join(got, " ")+"]" != want {
			t.Errorf("Warning: %v, want %v: steps share headers", got, want)
		}
		if resp.Header.Get("Retry-After") != "1" || resp.StatusCode != 429 {
			t.Errorf("answer %v %v", resp.StatusCode, resp.Header)
		}
	}
}

func TestHeadCarriesTheLengthAlone(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("hello"))
	resp, err := up.Client().Head(up.URL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ContentLength != 5 {
		t.Errorf("Content-Length %d", resp.ContentLength)
	}
}

func TestTimeOfSteps(t *testing.T) {
	for _, test := range []struct {
		name string
		step sortietest.Step
		want time.Duration
	}{
		{"at once", sortietest.OK("0123456789"), 0},
		{"after", sortietest.OK("0123456789").After(time.Second), time.Second},
		{"stall", sortietest.OK("0123456789").Stall(3, time.Minute), time.Minute},
		{"stall before the body", sortietest.OK("0123456789").Stall(0, time.Minute), time.Minute},
		{"stall beyond the body", sortietest.OK("0123456789").Stall(11, time.Minute), 0},
		{"drip", sortietest.OK("0123456789").Drip(3, time.Second), 3 * time.Second},
		{"drip and stall", sortietest.OK("0123456789").Drip(4, time.Second).Stall(2, time.Minute), time.Minute + 2*time.Second},
		{"all", sortietest.OK("0123456789").After(time.Hour).Drip(5, time.Second).Stall(5, time.Minute), time.Hour + time.Minute + time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *sortietest.Network) {
				up := n.NewUpstream(t, "10.0.0.1:80", test.step)
				start := time.Now()
				wantAnswer(t, up.Client(), up.URL(), 200, "0123456789")
				wantTook(t, start, test.want)
			})
		})
	}
}

func TestStalledBodyShowsWhatCameBefore(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("0123456789").Stall(3, time.Minute))
		start := time.Now()
		resp, err := up.Client().Get(up.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b := make([]byte, 10)
		if n, _ := io.ReadAtLeast(resp.Body, b, 1); string(b[:n]) != "012" {
			t.Errorf("first read %q", b[:n])
		}
		wantTook(t, start, 0)
	})
}

func TestEndlessBody(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Endless())
		resp, err := up.Client().Get(up.URL())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, resp.Body, 10<<20); err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		resp.Body.Close()
		synctest.Wait()
		if s := up.Stats(); s.InFlight != 0 || s.OpenConns != 0 {
			t.Errorf("%+v after the client has gone", s)
		}
	})
}

func TestEndlessDrip(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Endless().Drip(1, time.Hour))
		start := time.Now()
		resp, err := up.Client().Get(up.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		io.CopyN(io.Discard, resp.Body, 25)
		wantTook(t, start, 24*time.Hour)
	})
}

func TestLargeBodyBreaksOffExactly(t *testing.T) {
	body := strings.Repeat("x", 1<<20)
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK(body).HangupAt(700_001))
		_, got, err := get(up.Client(), up.URL())
		wantError(t, err, io.ErrUnexpectedEOF)
		if len(got) != 700_001 {
			t.Errorf("read %d bytes", len(got))
		}
	})
}

func TestEndlessBodyBreaksOff(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Endless().HangupAt(100_000))
		_, got, err := get(up.Client(), up.URL())
		wantError(t, err, io.ErrUnexpectedEOF)
		if len(got) != 100_000 {
			t.Errorf("read %d bytes", len(got))
		}
	})
}

func TestThenCloseAnnouncesTheEndOfTheConnection(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *sortietest.Network) {
			up := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", HTTP2: h2}
			up.Steps = []sortietest.Step{sortietest.OK("a").ThenClose()}
			up.Start(t)
			c := up.Client()
			for range 3 {
				wantAnswer(t, c, up.URL(), 200, "a")
				synctest.Wait()
			}
			if conns := up.Stats().Conns; conns != 3 {
				t.Errorf("HTTP/2 %v: %d connections for three requests", h2, conns)
			}
		})
	}
}

// An answer that does not wait for the request body reaches a client which is still sending.
func TestUnreadAnswersWhileTheClientSends(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Status(413).Unread(), sortietest.OK("read"))
		body, feed := io.Pipe()
		defer feed.Close()
		resp, err := up.Client().Post(up.URL(), "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 413 || up.Stats().BodyBytes != 0 {
			t.Errorf("answer %d after %d bytes", resp.StatusCode, up.Stats().BodyBytes)
		}
	})
}

func TestUnreadThenClose(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.Status(413).Body("too long").Unread().ThenClose())
		body, feed := io.Pipe()
		defer feed.Close()
		resp, err := up.Client().Post(up.URL(), "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != "too long" || err != nil || !resp.Close {
			t.Errorf("answer %q, %v, close %v", b, err, resp.Close)
		}
	})
}

func TestHandleIsGivenTheBody(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(bytes.ToUpper(b))
	}
	up := sortietest.NewUpstream(t, sortietest.Handle(http.HandlerFunc(echo)))
	if _, body, err := do(up.Client(), "POST", up.URL(), "seven"); body != "SEVEN" || err != nil {
		t.Errorf("answer %q, %v", body, err)
	}
	if r := up.Requests()[0]; string(r.Body) != "seven" || r.BodyBytes != 5 {
		t.Errorf("recorded %q", r.Body)
	}
}

func TestManyAtOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("hello").After(time.Second))
		c := up.Client()
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { wantAnswer(t, c, up.URL(), 200, "hello") })
		}
		wg.Wait()
		wantTook(t, start, time.Second)
		if s := up.Stats(); s.MaxInFlight != 50 || s.Requests != 50 || s.Conns != 50 {
			t.Errorf("%+v", s)
		}
	})
}
