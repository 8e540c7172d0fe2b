package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sortie-go/sortie/client"
)

func TestABadConfigNamesEveryMistakeAtOnce(t *testing.T) {
	t.Setenv("SORTIE_SIDE", "inside")
	_, err := client.New(client.Config{
		MaxUnlisted: -1, DrainTimeout: -1,
		Strict:   true,
		Unlisted: client.Policy{Timeout: &client.Timeout{}},
		Guard:    &client.Guard{},
		Proxy:    http.ProxyFromEnvironment,
		Upstreams: []client.Upstream{
			{Name: "Catalog", Hosts: nil, External: []string{"ftp://x", "https://", "://", "https://u:p@h", "https://h/#f", "https://h:99999"}},
			{Name: "a", Hosts: []string{"api.example", "https://api.example", "a.*.example", "*x.example", "h:0"}, PreserveHost: true},
			{Name: "a", Hosts: []string{"API.example."}, Internal: []string{"http://b"}, External: []string{"http://b:80/"}, ServerName: "n"},
			{Name: "c", Hosts: []string{"c"}, Transport: http.DefaultTransport, External: []string{"https://c"}, ServerName: "n",
				Policy: client.Policy{Conns: &client.Conns{}}},
			{Name: "e", Hosts: []string{"e"}, Policy: client.Policy{
				Timeout: &client.Timeout{Total: time.Second},
				Retry: &client.Retry{Attempts: 11, Base: 2 * time.Second, Cap: time.Second, MaxRetryAfter: time.Minute, BufferBody: -2,
					Statuses: []int{200}, IdempotencyHeader: "content-length"},
				Budget: client.Budget{Percent: 101, PerSecond: -2, Window: -1},
			}},
			{Name: "f", Hosts: []string{"f"}, Policy: client.Policy{Budget: client.Budget{Percent: 10}}},
			{Name: "d", Hosts: []string{"d"}, Signer: badSigner{}, External: []string{"https://d"}, Policy: client.Policy{
				Timeout: &client.Timeout{Total: time.Second, Attempt: -2, Progress: 2 * time.Second},
				Conns: &client.Conns{MaxConns: 4, MaxIdle: 5, MinIdle: 6, DialLimit: -1, MaxWait: -5, Protocol: client.H2C,
					DrainBytes: -1, DrainTime: 1, PingAfter: -1, PingTimeout: 1, TLS: &tls.Config{ServerName: "x"}},
			}},
		},
	})
	if err == nil {
		t.Fatal("New accepted it")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, path := range []string{
		"SORTIE_SIDE: ",
		"MaxUnlisted: ",
		"Unlisted: ",
		"Guard: ",
		"Upstreams[0].Name: ",
		"Upstreams[0].Hosts: ",
		"Upstreams[0].External[0]: ",
		"Upstreams[0].External[1]: ",
		"Upstreams[0].External[2]: ",
		"Upstreams[0].External[3]: ",
		"Upstreams[0].External[4]: ",
		"Upstreams[0].External[5]: ",
		"Upstreams[1].Hosts[1]: ",
		"Upstreams[1].Hosts[2]: ",
		"Upstreams[1].Hosts[3]: ",
		"Upstreams[1].Hosts[4]: ",
		"Upstreams[1].PreserveHost: ",
		"Upstreams[2].Name: ",
		"Upstreams[2].Hosts[0]: ",
		"Upstreams[2].External[0]: ",
		"Upstreams[2].ServerName: ",
		"Upstreams[3].Policy.Conns: ",
		"Upstreams[3].Transport: ",
		"Upstreams[4].Policy.Retry.Attempts: ",
		"Upstreams[4].Policy.Retry.Base: ",
		"Upstreams[4].Policy.Retry.Cap: ",
		"Upstreams[4].Policy.Retry.MaxRetryAfter: ",
		"Upstreams[4].Policy.Retry.BufferBody: ",
		"Upstreams[4].Policy.Retry.Statuses: ",
		"Upstreams[4].Policy.Retry.IdempotencyHeader: ",
		"Upstreams[4].Policy.Budget.Percent: ",
		"Upstreams[4].Policy.Budget.PerSecond: ",
		"Upstreams[4].Policy.Budget.Window: ",
		"Upstreams[5].Policy.Budget: ",
		"DrainTimeout: ",
		"Upstreams[6].Signer: ",
		"Upstreams[6].Policy.Timeout.Attempt: ",
		"Upstreams[6].Policy.Timeout.Progress: ",
		"Upstreams[6].Policy.Conns.MaxIdle: ",
		"Upstreams[6].Policy.Conns.MinIdle: ",
		"Upstreams[6].Policy.Conns.DialLimit: ",
		"Upstreams[6].Policy.Conns.MaxWait: ",
		"Upstreams[6].Policy.Conns.DrainTime: ",
		"Upstreams[6].Policy.Conns.PingTimeout: ",
		"Upstreams[6].Policy.Conns.TLS.ServerName: ",
		"Upstreams[6].Policy.Conns.Protocol: ",
	} {
		if !hasPrefix(lines, path) {
			t.Errorf("no mistake at %s", path)
		}
	}
	if strings.Contains(err.Error(), "u:p") {
		t.Error("the error shows user info")
	}
	if t.Failed() {
		t.Logf("%v", err)
	}
}

func hasPrefix(lines []string, prefix string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return true
		}
	}
	return false
}

type badSigner struct{}

func (badSigner) Sign(context.Context, *http.Request) error { return nil }
func (badSigner) Validate() error                           { return errors.New("Region is empty") }

func TestEachSettingMayBeLeftOut_extensions6163(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"nothing":                      {},
		"strict":                       {Strict: true},
		"no bases":                     {Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"a"}}}},
		"all limits":                   {Unlisted: client.Policy{Timeout: &client.Timeout{Total: -1, Attempt: -1, Progress: -1}}},
		"strict, and bounded identity": {Strict: true, MaxUnlisted: 2, Upstreams: []client.Upstream{{Name: "a", Hosts: []string{"*"}}}},
	} {
		c, err := client.New(cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	c := newClient(t, client.Config{Upstreams: []client.Upstream{
		{Name: "up", Hosts: []string{"api.example"}, External: []string{"http://b"}, Transport: &wire{}},
	}})
	canceled := canceledContext(t)
	for name, tc := range map[string]struct {
		change func(*http.Request)
		reason client.Reason
	}{
		"nil URL":  {func(r *http.Request) { r.URL = nil }, client.ReasonInvalidRequest},
		"no host":  {func(r *http.Request) { r.URL.Host = "" }, client.ReasonInvalidRequest},
		"ftp":      {func(r *http.Request) { r.URL.Scheme = "ftp" }, client.ReasonInvalidRequest},
		"opaque":   {func(r *http.Request) { r.URL.Opaque = "//api.example/x" }, client.ReasonInvalidRequest},
		"bad host": {func(r *http.Request) { r.URL.Host = "b\u200dad..example" }, client.ReasonInvalidRequest},
		"context":  {func(r *http.Request) { *r = *r.WithContext(canceled) }, client.ReasonCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			body := &countingBody{Reader: strings.NewReader("x")}
			req := newRequest(t, t.Context(), "POST", "http://api.example/", body)
			tc.change(req)
			resp, err := c.Do(req)
			var e *client.Error
			switch {
			case resp != nil, !errors.As(err, &e):
				t.Fatalf("got %v, %v", resp, err)
			case e.Reason != tc.reason:
				t.Errorf("reason %v, want %v (%v)", e.Reason, tc.reason, err)
			case !client.NeverSent(err):
				t.Error("NeverSent is false")
			case body.closed != 1:
				t.Errorf("body closed %d times", body.closed)
			}
		})
	}
}
