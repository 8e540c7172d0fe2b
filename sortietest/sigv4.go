package sortietest

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// SigV4Error says why the signature of a request is not right.
type SigV4Error struct {
	// Problem names what is missing or wrong.
	Problem string

	// Line is the line of the canonical request in which the signer seems to differ, such as "URI" or "payload". Empty if
	// no single line explains the signature.
	Line string

	// Canonical is the canonical request as it should be. Empty if the check did not come so far.
	Canonical string
}

// Error names the problem, and shows the canonical request.
func (e *SigV4Error) Error() string {
	text := "sortietest: " + e.Problem
	if e.Line != "" {
		text += "; the signer's " + e.Line + " differs"
	}
	if e.Canonical != "" {
		text += "; it should have signed\n" + e.Canonical
	}
	return text
}

// CheckSigV4 checks the AWS signature (version 4, in the header Authorization) of a request that a server received. It
// computes it anew from AWS's public specification, apart from any signer, and returns a *[SigV4Error] if that gives
// another one, or if a header is unsigned that has to be signed. The secret of a key comes from secretOf, which returns ""
// for unknown keys: [Metadata.SecretOf] fits.
//
// The body is read, and put back. The age of the signature is not checked.
func CheckSigV4(r *http.Request, secretOf func(accessKeyID string) string) error {
	a, err := parseAuthorization(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	a.date = r.Header.Get("X-Amz-Date")
	if _, err := time.Parse("20060102T150405Z", a.date); err != nil {
		return &SigV4Error{Problem: fmt.Sprintf("X-Amz-Date is %q", a.date)}
	}
	if !strings.HasPrefix(a.date, a.day+"T") {
		return &SigV4Error{Problem: fmt.Sprintf("the scope is of %s, X-Amz-Date of %s", a.day, a.date)}
	}
	if a.secret = secretOf(a.key); a.secret == "" {
		return &SigV4Error{Problem: "unknown access key " + a.key}
	}
	c, err := canonicalOf(r, a)
	if err != nil {
		return err
	}
	if a.sign(c.String()) == a.signature {
		return nil
	}
	return &SigV4Error{Problem: "the signature does not match", Line: c.differs(r, a), Canonical: c.String()}
}

// authorization is a parsed header Authorization.
type authorization struct {
	key, day, region, service string
	headers                   []string
	signature                 string
	date, secret              string
}

func parseAuthorization(header string) (*authorization, error) {
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	if !ok {
		return nil, &SigV4Error{Problem: "no Authorization by AWS4-HMAC-SHA256"}
	}
	a := &authorization{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			scope := strings.Split(value, "/")
			if len(scope) != 5 || scope[4] != "aws4_request" {
				return nil, &SigV4Error{Problem: fmt.Sprintf("the scope is %q", value)}
			}
			a.key, a.day, a.region, a.service = scope[0], scope[1], scope[2], scope[3]
		case "SignedHeaders":
			a.headers = strings.Split(value, ";")
		case "Signature":
			a.signature = value
		}
	}
	if a.key == "" || a.headers == nil || a.signature == "" {
		return nil, &SigV4Error{Problem: "Authorization lacks a part"}
	}
	return a, nil
}

// sign returns the signature of a canonical request.
func (a *authorization) sign(canonical string) string {
	scope := strings.Join([]string{a.day, a.region, a.service, "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", a.date, scope, hashOf([]byte(canonical))}, "\n")
	k := []byte("AWS4" + a.secret)
	for _, part := range []string{a.day, a.region, a.service, "aws4_request", text} {
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(part))
		k = mac.Sum(nil)
	}
	return hex.EncodeToString(k)
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonicalRequest is the canonical request, line by line.
type canonicalRequest struct{ method, uri, query, headers, signed, payload string }

func (c canonicalRequest) String() string {
	return strings.Join([]string{c.method, c.uri, c.query, c.headers, c.signed, c.payload}, "\n")
}

const unsignedPayload = "UNSIGNED-PAYLOAD"

func canonicalOf(r *http.Request, a *authorization) (c canonicalRequest, err error) {
	if !slices.IsSorted(a.headers) || !slices.Contains(a.headers, "host") {
		return c, &SigV4Error{Problem: fmt.Sprintf("the signed headers are %q", a.headers)}
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(a.headers, name) {
			return c, &SigV4Error{Problem: name + " is not signed"}
		}
	}
	body, err := readAll(r)
	if err != nil {
		return c, err
	}
	c.payload = hashOf(body)
	if stated := r.Header.Get("X-Amz-Content-Sha256"); stated != "" && stated != c.payload {
		if stated != unsignedPayload {
			return c, &SigV4Error{Problem: "X-Amz-Content-Sha256 is not the hash of the body"}
		}
		c.payload = stated
	}
	path, query := target(r)
	c.method, c.uri, c.signed = r.Method, uriOf(path, a.service), strings.Join(a.headers, ";")
	parameters := pairs(query)
	slices.SortFunc(parameters, byNameThenValue)
	c.query = strings.Join(parameters, "&")
	c.headers = headersOf(r, a.headers, r.Host)
	return c, nil
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, errors.Join(&SigV4Error{Problem: "the body broke off"}, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// target returns path and query as they were sent.
func target(r *http.Request) (path, query string) {
	if r.RequestURI == "" {
		return r.URL.EscapedPath(), r.URL.RawQuery
	}
	path, query, _ = strings.Cut(r.RequestURI, "?")
	return path, query
}

// uriOf returns the canonical URI: the path as sent, normalised and encoded once more; for S3 encoded just once.
func uriOf(path, service string) string {
	if strings.HasPrefix(service, "s3") {
		return onceEncoded(path)
	}
	return escape(normal(path), "/")
}

func onceEncoded(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	return escape(path, "/")
}

// normal removes empty and dot segments.
func normal(path string) string {
	var out []string
	segments := strings.Split(path, "/")
	for _, s := range segments {
		switch s {
		case "", ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	last := segments[len(segments)-1]
	if len(out) > 0 && (last == "" || last == "." || last == "..") {
		return "/" + strings.Join(out, "/") + "/"
	}
	return "/" + strings.Join(out, "/")
}

// escape encodes all bytes but RFC 3986's unreserved ones and those in keep.
func escape(s, keep string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~"+keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// pairs returns the parameters of a query, encoded, in the order in which they were sent.
func pairs(query string) (out []string) {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		out = append(out, reencoded(name)+"="+reencoded(value))
	}
	return out
}

// byNameThenValue orders encoded parameters as signatures do: names first, so that "a=1" comes before "a-b=1".
func byNameThenValue(a, b string) int {
	an, av, _ := strings.Cut(a, "=")
	bn, bv, _ := strings.Cut(b, "=")
	return cmp.Or(strings.Compare(an, bn), strings.Compare(av, bv))
}

func reencoded(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		s = plain
	}
	return escape(s, "")
}

func headersOf(r *http.Request, names []string, host string) string {
	var b strings.Builder
	for _, name := range names {
		values := slices.Clone(r.Header.Values(name))
		if name == "host" {
			values = []string{host}
		}
		if name == "content-length" && len(values) == 0 {
			values = []string{fmt.Sprint(r.ContentLength)}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.FieldsFunc(v, func(c rune) bool { return c == ' ' }), " ")
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	return b.String()
}

// differs tries what signers are known to do instead, one line at a time.
func (c canonicalRequest) differs(r *http.Request, a *authorization) string {
	path, query := target(r)
	host, _, _ := strings.Cut(r.Host, ":")
	try := []struct {
		line   string
		change func(*canonicalRequest)
	}{
		{"URI", func(c *canonicalRequest) { c.uri = path }},
		{"URI", func(c *canonicalRequest) { c.uri = onceEncoded(path) }},
		{"URI", func(c *canonicalRequest) { c.uri = escape(path, "/") }},
		{"URI", func(c *canonicalRequest) { c.uri = escape(normal(path), "/") }},
		{"query", func(c *canonicalRequest) { c.query = query }},
		{"query", func(c *canonicalRequest) { c.query = strings.Join(pairs(query), "&") }},
		{"query", func(c *canonicalRequest) { c.query = "" }},
		{"payload", func(c *canonicalRequest) { c.payload = hashOf(nil) }},
		{"payload", func(c *canonicalRequest) { c.payload = unsignedPayload }},
		{"host", func(c *canonicalRequest) { c.headers = headersOf(r, a.headers, host) }},
		{"host", func(c *canonicalRequest) { c.headers = headersOf(r, a.headers, host+":443") }},
		{"host", func(c *canonicalRequest) { c.headers = headersOf(r, a.headers, host+":80") }},
	}
	for _, t := range try {
		other := c
		t.change(&other)
		if a.sign(other.String()) == a.signature {
			return t.line
		}
	}
	return ""
}
