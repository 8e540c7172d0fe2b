package creds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/creds"
)

func newTokens(t *testing.T, src creds.TokenSource, cfg creds.Config) *creds.Tokens {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	tok, err := creds.NewTokens(src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tok.Close() })
	return tok
}

// issuer hands out "secret-of-T1", "secret-of-T2", …
type issuer struct {
	life time.Duration
	n    atomic.Int32
}

func (i *issuer) Token(context.Context) (creds.Token, error) {
	t := creds.Token{Value: fmt.Sprintf("secret-of-T%d", i.n.Add(1))}
	if i.life > 0 {
		t.Expires = time.Now().Add(i.life)
	}
	return t, nil
}

func TestTokensAreRefreshedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &issuer{life: time.Hour}
		tok := newTokens(t, src, creds.Config{})
		if err := tok.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		v, err := tok.Token(t.Context())
		if err != nil || v.Value != "secret-of-T2" || src.n.Load() != 2 {
			t.Errorf("%v, %v, %d calls", v, err, src.n.Load())
		}
		if !tok.InvalidateIf("secret-of-T2", "401") || tok.InvalidateIf("secret-of-T1", "401") {
			t.Error("InvalidateIf takes the wrong one")
		}
		if v, _ := tok.Token(t.Context()); v.Value != "secret-of-T3" {
			t.Errorf("%v", v)
		}
		wantNoSecret(t, tok.Stats())
		wantNoSecret(t, tok.Peek())
		wantNoSecret(t, *tok.Peek())
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			wantNoSecret(t, fmt.Sprintf(verb, v))
		}
		wantNoSecret(t, v.LogValue().String())
		tok.Close()
		time.Sleep(2 * time.Hour)
		if _, err := tok.Token(t.Context()); !errors.Is(err, creds.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestTokenWithoutExpiryStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &issuer{}
		tok := newTokens(t, src, creds.Config{})
		for range 10 {
			tok.Token(t.Context())
			time.Sleep(time.Hour)
		}
		if src.n.Load() != 1 {
			t.Errorf("%d calls", src.n.Load())
		}
	})
}

func TestTokensThatCannotBeSentAreRefused(t *testing.T) {
	for _, bad := range []creds.Token{{}, {Value: "a\nb"}, {Value: "a b"}, {Value: "ü"}, {Value: "a", Type: "B\r\nX: y"}} {
		synctest.Test(t, func(t *testing.T) {
			src := creds.TokenFunc(func(context.Context) (creds.Token, error) { return bad, nil })
			tok := newTokens(t, src, creds.Config{})
			_, err := tok.Token(t.Context())
			if _, ok := errors.AsType[*creds.AnswerError](err); !ok {
				t.Errorf("%q: %v", bad.Value, err)
			}
		})
	}
	if _, err := creds.NewTokens(nil, creds.Config{Soft: -1}); err == nil {
		t.Error("no source")
	}
}
