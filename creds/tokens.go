package creds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Token is a bearer token. It prints without its value.
type Token struct {
	Value   string    // the secret
	Type    string    // of the header Authorization. Empty: "Bearer"
	Expires time.Time // zero: never
}

// String names the type, the fingerprint and the expiry.
func (t Token) String() string {
	text := "creds: token " + fingerprint(t.Value)
	if !t.Expires.IsZero() {
		text += ", expires " + t.Expires.UTC().Format(time.RFC3339)
	}
	return text
}

// Format prints what String returns, whatever the verb, so that %+v does not show the value either.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(t.String())) }

// LogValue logs what String returns.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// fingerprint is 8 hex digits of the SHA-256.
func fingerprint(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:4])
}

// TokenSource is where tokens come from: uncached, since [Tokens] is the cache. A golang.org/x/oauth2 source that
// remembers its token, as ReuseTokenSource does, hides early refreshes and rejections; its client credentials Config does
// not.
type TokenSource interface {
	Token(ctx context.Context) (Token, error)
}

// TokenFunc makes a [TokenSource] of a function.
type TokenFunc func(context.Context) (Token, error)

// Token calls f.
func (f TokenFunc) Token(ctx context.Context) (Token, error) { return f(ctx) }

// Tokens keeps the token of one source and refreshes it ahead, by the same rules as [Cache]. Make it with [NewTokens]; all
// methods are safe for concurrent use. Close it when it is no longer needed.
type Tokens struct{ core *core[Token] }

// NewTokens returns Tokens in front of src. It reports every mistake at once, asks nothing and starts nothing.
func NewTokens(src TokenSource, cfg Config) (*Tokens, error) {
	s := source[Token]{name: strings.TrimPrefix(fmt.Sprintf("%T", src), "*")}
	var err error
	switch t := src.(type) {
	case nil:
		err = errors.New("creds: no source")
	case TokenFile:
		s.name = "token-file"
		var f *tokenFile
		if f, err = t.open(); err == nil {
			s.fetch, s.poll, s.changed = f.Token, f.polls(), f.changed
		}
	default:
		s.fetch = src.Token
	}
	if err != nil {
		return nil, errors.Join(err, cfg.validate(true))
	}
	s.kind = s.name
	core, err := newCore(tokenNature(), s, cfg)
	if err != nil {
		return nil, err
	}
	return &Tokens{core}, nil
}

// tokenNature is the nature of bearer tokens.
func tokenNature() *nature[Token] {
	return &nature[Token]{
		key:     func(t Token) string { return t.Value },
		expires: func(t Token) time.Time { return t.Expires },
		same:    func(a, b Token) bool { return a.Value == b.Value && a.Type == b.Type },
		check: func(t Token) error {
			visible := func(c rune) bool { return c > ' ' && c < 0x7f }
			switch {
			case t.Value == "":
				return &AnswerError{"no token"}
			case strings.ContainsFunc(t.Value+t.Type, func(c rune) bool { return !visible(c) }):
				return &AnswerError{"a token that does not fit into a header"}
			}
			return nil
		},
		tail: fingerprint,
	}
}

// Start begins refreshing; see [Cache.Start].
func (t *Tokens) Start(ctx context.Context) error { return t.core.start(ctx) }

// Close ends refreshing; see [Cache.Close].
func (t *Tokens) Close() error { return t.core.close() }

// Token returns the token; it waits, and fails, as [Cache.Retrieve] does.
func (t *Tokens) Token(ctx context.Context) (Token, error) {
	it, err := t.core.read(ctx, time.Now())
	if err != nil {
		return Token{}, err
	}
	return it.value, nil
}

// Peek returns what is in hand, expired or not, and nil before the first answer; see [Cache.Peek].
func (t *Tokens) Peek() *Snapshot[Token] { return t.core.peek() }

// InvalidateIf says that a service rejected the token with this value; see [Cache.InvalidateIf].
func (t *Tokens) InvalidateIf(value, reason string) bool { return t.core.invalidate(value, reason) }

// Stats returns the counts and the state as they are now.
func (t *Tokens) Stats() Stats { return t.core.report() }

// TokenFile is the source of a bearer token that something else writes into a file, as a kubelet does with the tokens of
// service accounts. White space around it is cut off; the expiry is that of a JSON web token, unverified, else never. Give
// it to [NewTokens], which watches the file as [File] says.
type TokenFile struct {
	Path string        // required
	Poll time.Duration // how often the file is read. Zero: 30 s
}

// Token reads the file once. It is for use without [Tokens].
func (f TokenFile) Token(ctx context.Context) (Token, error) {
	o, err := f.open()
	if err != nil {
		return Token{}, err
	}
	return o.Token(ctx)
}

func (f TokenFile) open() (*tokenFile, error) {
	w, err := watch("TokenFile", f.Path, f.Poll)
	if err != nil {
		return nil, err
	}
	return &tokenFile{w}, nil
}

// tokenFile is an opened TokenFile.
type tokenFile struct{ *watched }

func (f *tokenFile) Token(ctx context.Context) (t Token, err error) {
	err = f.read(ctx, func(text []byte) error {
		t.Value = strings.TrimSpace(string(text))
		t.Expires = jwtExpiry(t.Value)
		return tokenNature().check(t)
	})
	return t, err
}
