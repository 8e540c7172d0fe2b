package creds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// SigV4 signs requests for services of AWS, by signature version 4, with the SDK's own signer. It is a Signer for package
// client:
//
//	Signer: &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
//
// It is used by pointer, since it remembers keys, clock and counts; its fields must not change after the first use. All
// methods are safe for concurrent use.
//
// # What is signed
//
// The request as it is sent: host, path, query, body, and of the headers content-type, x-amz-* and SignedHeaders. All
// others stay unsigned, since proxies and tracers may change them. Credentials, date and signature are new for each
// attempt, and header values are replaced, never written into, so that an attempt in flight stays as it is.
//
// A request that would be understood in two ways is refused with *[SignError] before anything is sent: a query with ';' or
// a stray '%', which net/url and with it the SDK's signer silently drop; a query that is presigned; a header Host.
//
// # Clocks
//
// The date follows the service's clock where that is more than 30 s off, by the header Date of its answers, and comes back
// when the clocks agree again.
type SigV4 struct {
	// Provider is where credentials come from. Required. A *[Cache] is best: rejected keys are replaced then. Anything but
	// that, an *[aws.CredentialsCache] or static credentials gets a Cache of its own with default settings, so that it is not
	// asked for each request; Close ends that.
	Provider aws.CredentialsProvider

	// Region and Service are the scope of the signature, such as "eu-west-1" and "es". Required.
	Region, Service string

	// Payload says whether bodies are signed. Zero: they are.
	Payload PayloadMode

	// PathEncoding says how often the path is encoded in what is signed. Zero: once for S3, twice for all else.
	PathEncoding PathEncoding

	// SignedHeaders are names of further headers to sign where a request has them. They must reach the service unchanged.
	SignedHeaders []string

	// MaxBuffer bounds the bodies without GetBody, which have to be read to be signed. Zero: 1 MiB.
	MaxBuffer int64

	once    sync.Once
	broken  error
	cache   *Cache // Provider's, or made for it; nil if it is foreign
	made    bool   // cache was made here
	foreign aws.CredentialsProvider
	headers []string // SignedHeaders in canonical form

	signer atomic.Pointer[keySigner]
	offset atomic.Int64 // of the service's clock, as a Duration
	counts sigv4Counts
}

// PayloadMode is the choice of SigV4.Payload.
type PayloadMode uint8

// The choices.
const (
	Signed   PayloadMode = iota // the SHA-256 of the body is signed
	Unsigned                    // it is not: only over https, and only where the service documents it, as S3 does
)

// PathEncoding is the choice of SigV4.PathEncoding.
type PathEncoding uint8

// The choices.
const (
	EncodeByService PathEncoding = iota // once for S3, twice for all else
	EncodeOnce
	EncodeTwice
)

const (
	defaultMaxBuffer = 1 << 20
	unsignedPayload  = "UNSIGNED-PAYLOAD"
	emptyHash        = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// keySigner is a signer of the SDK with the secret from which it derives its keys. The SDK's goes by the access key alone,
// and would go on with the old secret if that were corrected.
type keySigner struct {
	key, secret string
	v4          *v4.Signer
}

// SignError says why a request cannot be signed. Nothing has been sent.
type SignError struct {
	Part   string // of the request: query, path, host, body, scheme or signer
	Reason string
	Err    error // the cause, if there is one
}

// Error names the part and the reason.
func (e *SignError) Error() string {
	text := "creds: cannot sign: " + e.Part + ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *SignError) Unwrap() error { return e.Err }

// Validate reports every mistake in the fields at once. Package client calls it when it is made.
func (s *SigV4) Validate() error {
	var all []error
	mistake := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf("creds: SigV4."+format, args...))
		}
	}
	switch {
	case s.Provider == nil:
		mistake(true, "Provider: missing")
	case aws.IsCredentialsProvider(s.Provider, aws.AnonymousCredentials{}):
		mistake(true, "Provider: anonymous")
	}
	mistake(!scopeWord(s.Region), "Region: %q", s.Region)
	mistake(!scopeWord(s.Service), "Service: %q", s.Service)
	mistake(s.Payload > Unsigned, "Payload: unknown value %d", s.Payload)
	mistake(s.PathEncoding > EncodeTwice, "PathEncoding: unknown value %d", s.PathEncoding)
	mistake(s.MaxBuffer < 0, "MaxBuffer: negative (%d)", s.MaxBuffer)
	mistake(s.MaxBuffer > 0 && s.Payload == Unsigned, "MaxBuffer: without effect, bodies are not signed")
	for i, name := range s.SignedHeaders {
		mistake(!signable(name), "SignedHeaders[%d]: %q changes on the way, or is signed or left out in any case", i, name)
	}
	return errors.Join(all...)
}

// scopeWord reports whether a word can stand in the scope of a signature.
func scopeWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '/' || c == ',' })
}

// unsignable are headers that the signer leaves out, that are signed in any case, or that change from hop to hop.
var unsignable = []string{
	"Authorization", "Connection", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Amzn-Trace-Id",
}

func signable(name string) bool {
	plain := func(c rune) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) &&
		!slices.Contains(unsignable, http.CanonicalHeaderKey(name)) && !amzHeader(name)
}

// ready prepares the provider, with the first use.
func (s *SigV4) ready() error {
	s.once.Do(func() {
		if s.broken = s.Validate(); s.broken != nil {
			return
		}
		for _, name := range s.SignedHeaders {
			s.headers = append(s.headers, http.CanonicalHeaderKey(name))
		}
		switch p := s.Provider.(type) {
		case *Cache:
			s.cache = p
		case *aws.CredentialsCache, credentials.StaticCredentialsProvider, *credentials.StaticCredentialsProvider:
			s.foreign = s.Provider
		default:
			s.cache, s.broken = New(p, Config{})
			s.made = s.broken == nil
		}
	})
	return s.broken
}

// Close closes the [Cache] that was made for Provider, if one was. Signing goes on with what that holds until it expires.
func (s *SigV4) Close() error {
	if s.ready() == nil && s.made {
		return s.cache.Close()
	}
	return nil
}

// Sign signs the request: the attempt's own, final in all else, and sent right after it. A body without GetBody is read
// into memory. The error is *[SignError], or that of the Provider.
func (s *SigV4) Sign(ctx context.Context, req *http.Request) error {
	err := s.sign(ctx, req)
	s.counts.signs.Add(1)
	if err != nil {
		s.counts.failures.Add(1)
	}
	return err
}

func (s *SigV4) sign(ctx context.Context, req *http.Request) error {
	if err := s.ready(); err != nil {
		return &SignError{Part: "signer", Reason: "badly configured", Err: err}
	}
	host, err := wireHost(req)
	if err != nil {
		return err
	}
	path, err := s.canonicalPath(req.URL)
	if err != nil {
		return err
	}
	query, err := wireQuery(req.URL)
	if err != nil {
		return err
	}
	hash, err := s.payload(ctx, req)
	if err != nil {
		return err
	}
	id, now, err := s.identity(ctx)
	if err != nil {
		return err
	}

	header := s.scratch(req)
	if hash == unsignedPayload || s.sendsHash() {
		header["X-Amz-Content-Sha256"] = []string{hash}
	}
	scratch := http.Request{
		Method: cmp.Or(req.Method, http.MethodGet), Host: host, Header: header,
		URL: &url.URL{Scheme: req.URL.Scheme, Host: host, Opaque: "//h" + path, RawQuery: query},
	}
	if err = s.signerFor(id).SignHTTP(ctx, *id, &scratch, hash, s.Service, s.Region, now); err != nil {
		return &SignError{Part: "signer", Reason: "the SDK's signer failed", Err: err}
	}
	if query != req.URL.RawQuery {
		where := *req.URL
		where.RawQuery, req.URL = query, &where
	}
	req.Host = host
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	for _, name := range ours {
		if values, ok := header[name]; ok {
			req.Header[name] = values
		}
	}
	return nil
}

// ours are the headers that signing writes.
var ours = []string{"Authorization", "X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token"}

// scratch scrubs older signatures from the request, since a token of an earlier identity must not survive, and returns
// what has to be signed of its headers. Values are shared, and only read.
func (s *SigV4) scratch(req *http.Request) http.Header {
	header := make(http.Header, 8)
	for name, values := range req.Header {
		switch {
		case name == "Content-Type" || slices.Contains(s.headers, name):
			header[name] = values
		case !amzHeader(name) && !strings.EqualFold(name, "Authorization"):
		case slices.ContainsFunc(ours, func(own string) bool { return strings.EqualFold(own, name) }):
			delete(req.Header, name)
		default:
			header[name] = values
		}
	}
	return header
}

func amzHeader(name string) bool {
	const prefix = "X-Amz-"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// sendsHash reports whether the service wants the hash of the body in a header.
func (s *SigV4) sendsHash() bool {
	return s.Service == "aoss" || s.Service == "es" || isS3(s.Service)
}

func isS3(service string) bool {
	switch service {
	case "s3", "s3express", "s3-outposts", "s3-object-lambda":
		return true
	}
	return false
}

func (s *SigV4) encodesOnce() bool {
	return s.PathEncoding == EncodeOnce || s.PathEncoding == EncodeByService && isS3(s.Service)
}

// identity returns the credentials to sign with, and the date by the service's clock.
func (s *SigV4) identity(ctx context.Context) (*aws.Credentials, time.Time, error) {
	now := time.Now()
	offset := time.Duration(s.offset.Load())
	if s.cache == nil {
		c, err := s.foreign.Retrieve(ctx)
		return &c, now.Add(offset), err //nolint:wrapcheck // the Provider's own
	}
	it := s.cache.core.warm(now)
	if it == nil {
		var err error
		if it, err = s.cache.core.read(ctx, now); err != nil {
			return nil, now, err
		}
		now = time.Now() // it may have waited
	}
	return &it.value, now.Add(offset), nil
}

func (s *SigV4) signerFor(id *aws.Credentials) *v4.Signer {
	k := s.signer.Load()
	if k == nil || k.key != id.AccessKeyID || k.secret != id.SecretAccessKey {
		once := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = s.encodesOnce() }
		k = &keySigner{id.AccessKeyID, id.SecretAccessKey, v4.NewSigner(once)}
		s.signer.Store(k)
	}
	return k.v4
}
