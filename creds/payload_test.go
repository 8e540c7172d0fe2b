package creds_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/creds"
)

func TestSigV4Bodies(t *testing.T) {
	sign := func(s *creds.SigV4, req *http.Request) (*server, error) {
		srv := newServer(t, exampleSecretOf)
		_, err := srv.send(t, s, req)
		return srv, err
	}
	small := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es", MaxBuffer: 10}

	t.Run("without GetBody", func(t *testing.T) {
		closed := &closes{Reader: strings.NewReader("0123456789")}
		req := newRequest(t, "POST", "http://a.example/", "")
		req.Body = closed
		srv, err := sign(small, req)
		if err != nil || srv.err != nil || string(srv.body) != "0123456789" || srv.last.ContentLength != 10 || closed.n != 1 {
			t.Errorf("%q, length %d, closed %d times: %v, %v", srv.body, srv.last.ContentLength, closed.n, err, srv.err)
		}
		if again, err := req.GetBody(); err != nil || again == nil {
			t.Error("it cannot be replayed")
		}
	})
	t.Run("beyond MaxBuffer", func(t *testing.T) {
		for _, length := range []int64{-1, 11} {
			req := newRequest(t, "POST", "http://a.example/", "")
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("0123456789x")), length
			_, err := sign(small, req)
			if e, ok := errors.AsType[*creds.SignError](err); !ok || e.Part != "body" {
				t.Errorf("length %d: %v", length, err)
			}
		}
	})
	t.Run("empty without GetBody", func(t *testing.T) {
		req := newRequest(t, "POST", "http://a.example/", "")
		req.Body = io.NopCloser(strings.NewReader(""))
		if srv, err := sign(small, req); err != nil || srv.err != nil || srv.last.ContentLength != 0 {
			t.Errorf("%v, %v", err, srv.err)
		}
	})
	t.Run("unknown length with GetBody", func(t *testing.T) { // E16
		req := newRequest(t, "POST", "http://a.example/", "compressed, say")
		req.ContentLength = -1
		if srv, err := sign(small, req); err != nil || srv.err != nil || srv.last.ContentLength != 15 {
			t.Errorf("length %d: %v, %v", srv.last.ContentLength, err, srv.err)
		}
	})
	t.Run("replaced after Prepare", func(t *testing.T) { // E16
		req := newRequest(t, "POST", "http://a.example/", "as it was")
		ctx, err := small.Prepare(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		other := newRequest(t, "POST", "http://a.example/", "as it is now").WithContext(ctx)
		if srv, err := sign(small, other); err != nil || srv.err != nil {
			t.Errorf("%v, %v", err, srv.err)
		}
	})
	t.Run("announces another length", func(t *testing.T) {
		req := newRequest(t, "POST", "http://a.example/", "12345")
		req.ContentLength = 4
		if _, err := sign(small, req); err == nil {
			t.Error("signed")
		}
	})
	t.Run("breaks off", func(t *testing.T) {
		for _, replay := range []bool{true, false} {
			req := newRequest(t, "POST", "http://a.example/", "x")
			broken := func() (io.ReadCloser, error) { return io.NopCloser(brokenReader{}), nil }
			req.Body, _ = broken()
			req.GetBody = nil
			if replay {
				req.GetBody = broken
			}
			if _, err := sign(small, req); !errors.Is(err, errSource) {
				t.Errorf("%v", err)
			}
			if _, err := small.Prepare(t.Context(), req); replay && !errors.Is(err, errSource) {
				t.Errorf("Prepare: %v", err)
			}
		}
	})
	t.Run("unsigned", func(t *testing.T) {
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "s3", Payload: creds.Unsigned}
		req := newRequest(t, "PUT", "https://a.example/k", "")
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader("stream")), 6
		srv, err := sign(s, req)
		if err != nil || srv.err != nil || string(srv.body) != "stream" || srv.last.Header.Get("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD" {
			t.Errorf("%v, %v", err, srv.err)
		}
		if _, err := sign(s, newRequest(t, "PUT", "http://a.example/k", "x")); err == nil {
			t.Error("an unsigned body over plain http")
		}
	})
}

type closes struct {
	io.Reader
	n int
}

func (c *closes) Close() error {
	c.n++
	return nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errSource }

func TestSigV4HashesABodyOncePerCall(t *testing.T) {
	s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
	req := newRequest(t, "POST", "https://a.example/", "body")
	read := 0
	get := req.GetBody
	req.GetBody = func() (io.ReadCloser, error) {
		read++
		return get()
	}
	ctx, err := s.Prepare(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		attempt := req.Clone(ctx)
		if err := s.Sign(ctx, attempt); err != nil {
			t.Fatal(err)
		}
	}
	if read != 1 {
		t.Errorf("read %d times for three attempts", read)
	}
	if ctx, err := s.Prepare(t.Context(), newRequest(t, "GET", "https://a.example/", "")); err != nil || ctx != t.Context() {
		t.Errorf("without a body: %v", err)
	}
}
