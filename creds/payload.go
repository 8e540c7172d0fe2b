package creds

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
)

// prepared is the hash of a call's body, kept in the context that Prepare made.
type prepared struct {
	hash   string
	length int64 // of the body that was hashed
}

type preparedKey struct{}

// Prepare hashes the body once for all attempts of a call, if it can be replayed. The context that it returns is the one
// for Sign. Package client calls it before the first attempt.
func (s *SigV4) Prepare(ctx context.Context, req *http.Request) (context.Context, error) {
	if s.Payload == Unsigned || noBody(req) || req.GetBody == nil {
		return ctx, nil
	}
	hash, n, err := hashReplay(req)
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, preparedKey{}, &prepared{hash, n}), nil
}

func noBody(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }

// payload returns the hash of the body that this attempt sends, and makes its length known.
func (s *SigV4) payload(ctx context.Context, req *http.Request) (string, error) {
	switch {
	case s.Payload == Unsigned && req.URL.Scheme != "https":
		return "", &SignError{Part: "body", Reason: "an unsigned body goes over https only"}
	case s.Payload == Unsigned:
		return unsignedPayload, nil
	case noBody(req):
		return emptyHash, nil
	case req.GetBody == nil:
		return s.buffer(req)
	}
	if p, ok := ctx.Value(preparedKey{}).(*prepared); ok && p.length == req.ContentLength {
		return p.hash, nil
	}
	hash, n, err := hashReplay(req)
	if err != nil {
		return "", err
	}
	if req.ContentLength <= 0 { // unknown: many services want it
		req.ContentLength = n
	}
	if n != req.ContentLength {
		return "", &SignError{Part: "body", Reason: fmt.Sprintf("it has %d bytes, and announces %d", n, req.ContentLength)}
	}
	return hash, nil
}

// hashReplay hashes a copy of the body.
func hashReplay(req *http.Request) (hash string, n int64, err error) {
	body, err := req.GetBody()
	if err != nil {
		return "", 0, &SignError{Part: "body", Reason: "it cannot be replayed", Err: err}
	}
	defer body.Close()
	sum := sha256.New()
	n, err = io.Copy(sum, body)
	if err != nil {
		return "", 0, &SignError{Part: "body", Reason: "it broke off", Err: err}
	}
	return hex.EncodeToString(sum.Sum(nil)), n, nil
}

// buffer reads a body that cannot be replayed, and puts it back so that it can.
func (s *SigV4) buffer(req *http.Request) (string, error) {
	limit := s.MaxBuffer
	if limit == 0 {
		limit = defaultMaxBuffer
	}
	if req.ContentLength > limit {
		return "", tooLong(limit)
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	switch {
	case err != nil:
		return "", &SignError{Part: "body", Reason: "it broke off", Err: err}
	case int64(len(body)) > limit:
		return "", tooLong(limit)
	}
	req.Body.Close()
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	if len(body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

func tooLong(limit int64) error {
	return &SignError{Part: "body", Reason: fmt.Sprintf("it has no GetBody, and more than the %d bytes of MaxBuffer", limit)}
}
