package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

func TestACallAccountsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * time.Millisecond)
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
			io.WriteString(w, "hello")
		})
		var seen reports
		c := lab.client(client.Policy{Timeout: &client.Timeout{}}, seen.config)
		ctx := client.WithTemplate(t.Context(), "/items/{id}")
		resp := getWith(t, ctx, c, up+"/items/7?secret=1")
		time.Sleep(5 * time.Millisecond)
		if soFar := client.ReportOf(resp); soFar.Ended || soFar.Duration != 35*time.Millisecond || soFar.Account.Sum() != soFar.Duration {
			t.Errorf("so far: %v", soFar)
		}
		readAll(t, resp)

		r := seen.only(t)
		if r.String() != client.ReportOf(resp).String() {
			t.Errorf("OnCall saw %v, ReportOf says %v", r, client.ReportOf(resp))
		}
		if r.Upstream != "up" || r.Method != "GET" || r.Host != "up.example" || r.Path != "/items/7" || r.Template != "/items/{id}" ||
			r.Side != client.External || r.Tier != client.External || r.Status != 200 || r.Reason != client.ReasonOK || !r.Ended ||
			r.BytesReceived != 5 || r.BytesSent == 0 || r.TimeLeft != 15*time.Second-r.Duration {
			t.Errorf("report %+v", r)
		}
		if r.Duration != 50*time.Millisecond || r.Account.Sum() != r.Duration {
			t.Errorf("%v accounted for of %v", r.Account.Sum(), r.Duration)
		}
		want := map[metrics.Phase]time.Duration{
			metrics.PhaseAcquire: 0, metrics.PhaseConnect: 0, metrics.PhaseWrite: 0,
			metrics.PhaseServer: 30 * time.Millisecond, metrics.PhaseCaller: 5 * time.Millisecond, metrics.PhaseBody: 15 * time.Millisecond,
		}
		if got := maps.Collect(r.Account.All()); !maps.Equal(got, want) {
			t.Errorf("account %v, want %v", got, want)
		}
		a := r.Attempts[0]
		if len(r.Attempts) != 1 || a.Number != 1 || a.Endpoint != "http://10.0.0.1" || a.Status != 200 || a.Conn.Reused ||
			a.Conn.Proto != "HTTP/1.1" || a.Conn.Remote.String() != "10.0.0.1:80" || a.Conn.Sends != 1 {
			t.Errorf("attempt %+v", a)
		}
	})
}

func TestAReusedConnectionHasNoSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("x"))
		c := lab.client(client.Policy{})
		readAll(t, get(t, c, up))
		time.Sleep(3 * time.Second)
		resp := get(t, c, up)
		readAll(t, resp)
		r := client.ReportOf(resp)
		if conn := r.Attempts[0].Conn; !conn.Reused || conn.IdleTime != 3*time.Second || conn.Age != 3*time.Second {
			t.Errorf("connection %+v", conn)
		}
		for _, p := range []metrics.Phase{metrics.PhaseDNS, metrics.PhaseConnect, metrics.PhaseTLS} {
			if _, happened := r.Account.Get(p); happened {
				t.Errorf("%v happened", p)
			}
		}
	})
}

func TestReportOfFindsTheCallUnderAnHTTPClientWithATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		c := lab.client(client.Policy{})
		h := c.HTTP()
		h.Timeout = time.Second // puts a body of its own around ours
		resp, err := h.Get(up + "/x")
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if r := client.ReportOf(resp); r.Upstream != "up" || r.BytesReceived != 5 {
			t.Errorf("report %+v", r)
		}
		if r := client.ReportOf(nil); r.Upstream != "" {
			t.Errorf("report of nil: %v", r)
		}
	})
}

func TestRedirectsComeThroughTheUpstreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/old" {
				http.Redirect(w, r, "/new", http.StatusFound)
				return
			}
			io.WriteString(w, r.URL.Path)
		})
		c := lab.client(client.Policy{})
		resp, err := c.HTTP().Get(up + "/old")
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); got != "/new" || resp.Request.URL.String() != up+"/new" {
			t.Errorf("got %q from %s", got, resp.Request.URL)
		}
	})
}

func TestTheCallersRequestIsNeverChanged_extensions6167(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("x"))
		c := lab.client(client.Policy{Timeout: &client.Timeout{}}, func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer(func(_ context.Context, r *http.Request) error {
				r.Header.Set("Authorization", "signed")
				r.Header.Add("X-Old", "appended")
				r.URL.RawQuery += "&signed=1"
				r.Body = http.NoBody
				return nil
			})
		})
		body := &countingBody{Reader: strings.NewReader("body")}
		req := newRequest(t, t.Context(), "POST", up+"/x?q=1", body)
		req.Header["X-Old"] = append(make([]string, 0, 4), "one")
		url, host := *req.URL, req.Host
		header := req.Header.Clone()
		readAll(t, mustDo(t, c, req))
		if *req.URL != url || req.Host != host || !maps.EqualFunc(req.Header, header, equalStrings) || req.Body != io.ReadCloser(body) {
			t.Errorf("the request is now %s %s %v", req.URL, req.Host, req.Header)
		}
		if got := req.Header["X-Old"][:2:2][1]; got != "" {
			t.Errorf("the signer wrote %q into the caller's slice", got)
		}
	})
}

func equalStrings(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }

func mustDo(t testing.TB, c *client.Client, req *http.Request) *http.Response {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

type signer func(context.Context, *http.Request) error

func (s signer) Sign(ctx context.Context, req *http.Request) error { return s(ctx, req) }

func TestTheSignerSeesWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Header.Get("X-Signed"))
		})
		c := lab.client(client.Policy{}, func(cfg *client.Config) {
			cfg.Upstreams[0].External = []string{"http://10.0.0.1/base"}
			cfg.Upstreams[0].Signer = signer(func(ctx context.Context, r *http.Request) error {
				time.Sleep(43 * time.Millisecond)
				r.Header.Set("X-Signed", r.Host+r.URL.Path)
				return ctx.Err()
			})
		})
		resp := get(t, c, up+"/x")
		if got := readAll(t, resp); got != "10.0.0.1/base/x" {
			t.Errorf("signed %q", got)
		}
		if d, _ := client.ReportOf(resp).Account.Get(metrics.PhaseCredential); d != 43*time.Millisecond {
			t.Errorf("credential took %v", d)
		}
	})
}

func TestASignerThatFailsSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t) // nobody listens
		why := errors.New("no credentials")
		body := &countingBody{Reader: strings.NewReader("body")}
		var seen reports
		c := lab.client(client.Policy{}, seen.config, func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer(func(context.Context, *http.Request) error { return why })
		})
		_, err := c.Do(newRequest(t, t.Context(), "POST", up, body))
		if !errors.Is(err, client.ErrCredential) || !errors.Is(err, why) || !client.NeverSent(err) || client.Refused(err) {
			t.Errorf("err = %v", err)
		}
		if body.closed != 1 || seen.only(t).Reason != client.ReasonCredential {
			t.Errorf("body closed %d times, report %v", body.closed, seen.all)
		}
		settled(t, c)
	})
}

func TestAPanicInAHookIsNotSwallowedAndTakesNothing(t *testing.T) {
	for name, change := range map[string]func(*client.Config){
		"signer": func(cfg *client.Config) {
			cfg.Upstreams[0].Signer = signer(func(context.Context, *http.Request) error { panic("signer") })
		},
		"transport": func(cfg *client.Config) {
			cfg.Upstreams[0].Transport = roundTrip(func(*http.Request) (*http.Response, error) { panic("transport") })
		},
		"OnCall, after a failure": func(cfg *client.Config) {
			cfg.Upstreams[0].Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("x") })
			cfg.OnCall = func(client.Report) { panic("hook") }
		},
		"OnCall, after the body": func(cfg *client.Config) {
			cfg.OnCall = func(client.Report) { panic("hook") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", answers("x"))
				body := &countingBody{Reader: strings.NewReader("body")}
				c := lab.client(client.Policy{Timeout: &client.Timeout{}}, change)
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic was swallowed")
						}
					}()
					resp, err := c.Do(newRequest(t, t.Context(), "POST", up, body))
					if err == nil {
						io.ReadAll(resp.Body)
					}
				}()
				if body.closed != 1 {
					t.Errorf("body closed %d times", body.closed)
				}
				settled(t, c)
			})
		})
	}
}

func TestAnUpgradedConnectionOutlivesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			line, _ := bufio.NewReader(rw).ReadString('\n')
			time.Sleep(time.Minute)
			io.WriteString(rw, "echo "+line)
			rw.Flush()
		})
		var seen reports
		c := lab.client(timeouts(3*time.Second, time.Second, time.Second), seen.config)
		req := newRequest(t, t.Context(), "GET", up, nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp := mustDo(t, c, req)
		rwc, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || resp.StatusCode != 101 {
			t.Fatalf("status %d, body %T", resp.StatusCode, resp.Body)
		}
		io.WriteString(rwc, "hello\n")
		if got := readAll(t, resp); got != "echo hello\n" {
			t.Errorf("read %q", got)
		}
		if r := seen.only(t); r.Duration != time.Minute || r.Status != 101 {
			t.Errorf("report %v", r)
		}
		settled(t, c)
	})
}

func TestReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("hello"))
		var seen reports
		c := lab.client(client.Policy{}, seen.config)
		resp := get(t, c, up)
		resp.Body.Close()
		resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Errorf("err = %v", err)
		}
		if r := seen.only(t); r.Reason != client.ReasonOK || r.Unclosed {
			t.Errorf("report %v", r)
		}
		settled(t, c)
	})
}
