package interop_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// fromOAuth2 makes a source of an uncached one of golang.org/x/oauth2, such as clientcredentials.Config.Token.
func fromOAuth2(ask func(context.Context) (*oauth2.Token, error)) creds.TokenFunc {
	return func(ctx context.Context) (creds.Token, error) {
		t, err := ask(ctx)
		if err != nil {
			return creds.Token{}, err
		}
		return creds.Token{Value: t.AccessToken, Type: t.Type(), Expires: t.Expiry}, nil
	}
}

// toOAuth2 makes a source for oauth2.Transport. Not for oauth2.NewClient, which puts a cache around it.
type toOAuth2 struct{ tokens *creds.Tokens }

func (s toOAuth2) Token() (*oauth2.Token, error) {
	t, err := s.tokens.Token(context.Background())
	return &oauth2.Token{AccessToken: t.Value, TokenType: t.Type, Expiry: t.Expires}, err
}

// identityProvider answers with a new token each time.
func identityProvider(t *testing.T) *sortietest.Upstream {
	t.Helper()
	var up *sortietest.Upstream
	up = &sortietest.Upstream{Respond: func(*http.Request) sortietest.Step {
		return sortietest.OK(fmt.Sprintf(`{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, up.Stats().Requests)).
			With("Content-Type", "application/json")
	}}
	up.Start(t)
	return up
}

func TestTokensOfOAuth2(t *testing.T) {
	idp := identityProvider(t)
	cc := clientcredentials.Config{ClientID: "me", ClientSecret: "s", TokenURL: idp.URL()}
	tokens, err := creds.NewTokens(fromOAuth2(cc.Token), creds.Config{Name: "idp"})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()

	good := "Bearer token-1"
	api := &sortietest.Upstream{Respond: func(r *http.Request) sortietest.Step {
		if r.Header.Get("Authorization") != good {
			return sortietest.Status(401).With("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		return sortietest.OK("ok")
	}}
	api.Start(t)
	c := newClient(t, client.Config{Upstreams: []client.Upstream{{
		Name: "api", Hosts: []string{"api.example"}, Internal: []string{api.URL()}, Signer: creds.Bearer{Tokens: tokens},
	}}})
	get := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := get(); status != 200 {
		t.Errorf("status %d", status)
	}
	good = "Bearer token-2" // the first has been revoked
	if status := get(); status != 200 || idp.Stats().Requests != 2 {
		t.Errorf("status %d, %d tokens", status, idp.Stats().Requests)
	}

	plain := &http.Client{Transport: &oauth2.Transport{Source: toOAuth2{tokens}}}
	resp, err := plain.Get(api.URL())
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("over oauth2.Transport: %v, %v", resp, err)
	}
	if tok := tokens.Peek().Value(); time.Until(tok.Expires) > time.Hour {
		t.Errorf("%v", tok)
	}
}
