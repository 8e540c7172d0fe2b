package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
)

// A keyring signs with its current key, and replaces one that is rejected.
type keyring struct {
	keys     []string
	prepared int
}

type bodyKey struct{}

func (k *keyring) Prepare(ctx context.Context, req *http.Request) (context.Context, error) {
	k.prepared++
	return context.WithValue(ctx, bodyKey{}, "hash of "+req.Method), nil
}

func (k *keyring) Sign(ctx context.Context, req *http.Request) error {
	req.Header.Set("X-Key", k.keys[0])
	req.Header.Set("X-Hash", ctx.Value(bodyKey{}).(string))
	return ctx.Err()
}

func (k *keyring) Observe(_ context.Context, req *http.Request, resp *http.Response) bool {
	if resp.StatusCode != http.StatusForbidden || len(k.keys) == 1 || req.Header.Get("X-Key") != k.keys[0] {
		return false
	}
	k.keys = k.keys[1:]
	return true
}

func TestARejectedKeyThatHasBeenReplacedIsTriedOnceMore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		keys   []string
		body   io.Reader
		status int
		seen   string
	}{
		{"replaced", []string{"old", "new"}, strings.NewReader("body"), 200, "old new"},
		{"nothing to replace it with", []string{"old"}, strings.NewReader("body"), 403, "old"},
		{"only once", []string{"old", "older", "new"}, strings.NewReader("body"), 403, "old older"},
		{"a body that is gone", []string{"old", "new"}, struct{ io.Reader }{strings.NewReader("body")}, 403, "old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				var seen []string
				lab.serve("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					if string(b) != "body" || r.Header.Get("X-Hash") != "hash of POST" {
						t.Errorf("body %q, hash %q", b, r.Header.Get("X-Hash"))
					}
					seen = append(seen, r.Header.Get("X-Key"))
					if r.Header.Get("X-Key") != "new" {
						http.Error(w, "expired", http.StatusForbidden)
					}
				})
				k := &keyring{keys: tc.keys}
				c := lab.client(client.Policy{}, func(cfg *client.Config) { cfg.Upstreams[0].Signer = k })
				resp := mustDo(t, c, newRequest(t, t.Context(), "POST", up, tc.body)) // any method: it was rejected
				body := readAll(t, resp)
				if resp.StatusCode != tc.status || strings.Join(seen, " ") != tc.seen || k.prepared != 1 {
					t.Errorf("status %d, keys %v, prepared %d times", resp.StatusCode, seen, k.prepared)
				}
				if tc.status == 403 && body != "expired\n" {
					t.Errorf("body %q", body)
				}
				r := client.ReportOf(resp)
				if len(r.Attempts) == 2 && (r.Attempts[1].Kind != client.KindResign || r.Retries != 0) {
					t.Errorf("report %+v", r)
				}
				settled(t, c)
			})
		})
	}
}
