package creds_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

func TestBearerWritesTheHeaderWhereItIsSafe(t *testing.T) {
	tok := newTokens(t, &issuer{life: time.Hour}, creds.Config{})
	for _, c := range []struct {
		url   string
		allow bool
		ok    bool
	}{
		{"https://a.example/", false, true},
		{"http://127.0.0.1:80/", false, true},
		{"http://[::1]/", false, true},
		{"http://localhost/", false, true},
		{"http://a.example/", false, false},
		{"http://127.0.0.1.example/", false, false},
		{"http://a.example/", true, true},
	} {
		req := newRequest(t, "GET", c.url, "")
		req.Header.Set("Authorization", "Bearer old")
		err := creds.Bearer{Tokens: tok, AllowHTTP: c.allow}.Sign(t.Context(), req)
		if _, refused := errors.AsType[*creds.SignError](err); (err == nil) != c.ok || refused == c.ok {
			t.Errorf("%s: %v", c.url, err)
		}
		if got := req.Header.Get("Authorization"); c.ok && got != "Bearer secret-of-T1" || !c.ok && got != "Bearer old" {
			t.Errorf("%s: Authorization %q", c.url, got)
		}
	}
	if creds.Bearer.Validate(creds.Bearer{}) == nil || (creds.Bearer{}).Sign(t.Context(), newRequest(t, "GET", "https://a.example/", "")) == nil {
		t.Error("without Tokens")
	}
}

func TestBearerUsesTheTypeOfTheToken(t *testing.T) {
	tok := newTokens(t, creds.TokenFunc(func(context.Context) (creds.Token, error) {
		return creds.Token{Value: "v", Type: "DPoP"}, nil
	}), creds.Config{})
	req := &http.Request{URL: newRequest(t, "GET", "https://a.example/", "").URL}
	if err := (creds.Bearer{Tokens: tok}).Sign(t.Context(), req); err != nil || req.Header.Get("Authorization") != "DPoP v" {
		t.Errorf("%v, %v", req.Header, err)
	}
}

// E6: twenty 401s for one token are one fetch.
func TestManyUnauthorizedAnswersAskOnce_azcore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &issuer{life: time.Hour}
		tok := newTokens(t, src, creds.Config{})
		b := creds.Bearer{Tokens: tok}
		sign := func() *http.Request {
			req := newRequest(t, "GET", "https://a.example/", "")
			if err := b.Sign(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			return req
		}
		first := sign()
		for range 20 {
			if !b.Observe(t.Context(), first, answer(401, "", 0)) {
				t.Error("not worth another attempt")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := src.n.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
		for range 20 { // a new token each time, and each refused: a second apart
			b.Observe(t.Context(), sign(), answer(401, "", 0))
			time.Sleep(100 * time.Millisecond)
		}
		if n := src.n.Load(); n > 5 {
			t.Errorf("%d calls in two seconds more", n)
		}
	})
}

func TestUnauthorizedAnswersThatBlameTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tok := newTokens(t, &issuer{life: time.Hour}, creds.Config{})
		b := creds.Bearer{Tokens: tok}
		req := newRequest(t, "GET", "https://a.example/", "")
		if err := b.Sign(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		for challenge, want := range map[string]bool{
			`Bearer realm="x", error="insufficient_scope", scope="a"`: false,
			`Bearer error=invalid_request`:                            false,
			`Basic realm="x", Bearer error="invalid_token"`:           true,
			`Bearer`: true,
			``:       true,
		} {
			if got := b.Observe(t.Context(), req, answer(401, "", 0, "WWW-Authenticate", challenge)); got != want {
				t.Errorf("%s: %v", challenge, got)
			}
		}
		for _, status := range []int{200, 403, 500} {
			if b.Observe(t.Context(), req, answer(status, "", 0)) {
				t.Errorf("status %d", status)
			}
		}
		if b.Observe(t.Context(), newRequest(t, "GET", "https://a.example/", ""), answer(401, "", 0)) {
			t.Error("a request without a token")
		}
	})
}

func TestBearerPassesTheSuite(t *testing.T) {
	tok := newTokens(t, &issuer{life: time.Hour}, creds.Config{})
	sortietest.CheckSigner(t.Context(), t, creds.Bearer{Tokens: tok}.Sign, func(r *http.Request) error {
		if got := r.Header.Get("Authorization"); got != "Bearer secret-of-T1" {
			return errors.New(got)
		}
		return nil
	})
}
