package creds

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Bearer puts a token on requests, in the header Authorization. It is a Signer for package client:
//
//	Signer: creds.Bearer{Tokens: tokens}
//
// It is safe for concurrent use.
type Bearer struct {
	// Tokens is where the token comes from. Required.
	Tokens *Tokens

	// AllowHTTP lets the token go over plain http to other hosts than this one. A token is a secret, so by default that is
	// an error.
	AllowHTTP bool
}

// errNoToken is the cause of signing without Tokens.
var errNoToken = errors.New("creds: Bearer.Tokens: missing")

// Validate reports whether Tokens is missing. Package client calls it when it is made.
func (b Bearer) Validate() error {
	if b.Tokens == nil {
		return errNoToken
	}
	return nil
}

// Sign writes the header. The error is *[SignError], or that of the Tokens.
func (b Bearer) Sign(ctx context.Context, req *http.Request) error {
	if err := b.Validate(); err != nil {
		return &SignError{Part: "signer", Reason: "badly configured", Err: err}
	}
	if req.URL.Scheme != "https" && !b.AllowHTTP && !loopback(req.URL.Hostname()) {
		return &SignError{Part: "scheme", Reason: "a token goes over https only, unless AllowHTTP is set"}
	}
	it, err := b.Tokens.core.read(ctx, time.Now())
	if err != nil {
		return err
	}
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header["Authorization"] = []string{cmp.Or(it.value.Type, "Bearer") + " " + it.value.Value}
	return nil
}

// Observe reads an answer to an attempt that carried a token. A 401 rejects that token, unless WWW-Authenticate says that
// the request was at fault (RFC 6750, section 3.1). It reports whether another token is, or will be, there.
func (b Bearer) Observe(_ context.Context, req *http.Request, resp *http.Response) bool {
	if resp.StatusCode != http.StatusUnauthorized || b.Tokens == nil || blamesRequest(resp.Header.Values("WWW-Authenticate")) {
		return false
	}
	_, token, ok := strings.Cut(req.Header.Get("Authorization"), " ")
	if !ok {
		return false
	}
	b.Tokens.InvalidateIf(token, "401")
	return b.Tokens.core.replaced(token)
}

// blamesRequest reports whether a challenge has an error that another token would not cure.
func blamesRequest(challenges []string) bool {
	for _, c := range challenges {
		for part := range strings.FieldsFuncSeq(c, func(r rune) bool { return r == ',' || r == ' ' }) {
			name, value, _ := strings.Cut(part, "=")
			value = strings.Trim(value, `"`)
			if strings.EqualFold(name, "error") && (value == "invalid_request" || value == "insufficient_scope") {
				return true
			}
		}
	}
	return false
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
