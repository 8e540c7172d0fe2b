package sortietest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// CheckSigner is a suite for signers: what package client, and any other that retries and hedges, relies on. It reports
// what it finds through tb. The signer must be able to sign requests for "https://service.example"; check, if not nil, is
// asked about every signed request, as a server would see it: [CheckSigV4] fits.
//
//   - a signed request carries the same body, of the length it announces, and can still replay it;
//   - attempts that share header values, as shallow copies do, do not change each other;
//   - signing again replaces an older signature;
//   - the URL of the original request is left alone;
//   - it may be used by several goroutines at once.
func CheckSigner(ctx context.Context, tb TB, sign func(context.Context, *http.Request) error, check func(*http.Request) error) {
	tb.Helper()
	s := &signerSuite{ctx: ctx, tb: tb, sign: sign, check: check}
	s.body("")
	s.body("{}")
	s.sharedHeaders()
	s.again()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s.body("concurrent")
			}
		})
	}
	all.Wait()
}

type signerSuite struct {
	ctx   context.Context
	tb    TB
	sign  func(context.Context, *http.Request) error
	check func(*http.Request) error
}

func (s *signerSuite) request(body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequest(http.MethodPost, "https://service.example/a/b?x=1&y=2", r)
	if err != nil {
		s.tb.Fatalf("sortietest: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// signed signs an attempt, a shallow copy of req with a header map and URL of its own, and has it checked.
func (s *signerSuite) signed(req *http.Request) *http.Request {
	attempt := *req
	attempt.Header = maps.Clone(req.Header)
	where := *req.URL
	attempt.URL = &where
	if req.GetBody != nil {
		attempt.Body, _ = req.GetBody()
	}
	if err := s.sign(s.ctx, &attempt); err != nil {
		s.tb.Errorf("sortietest: signing failed: %v", err)
		return &attempt
	}
	if s.check != nil {
		seen := attempt // check reads the body
		if attempt.GetBody != nil {
			seen.Body, _ = attempt.GetBody()
		}
		if err := s.check(&seen); err != nil {
			s.tb.Errorf("sortietest: the signed request is refused: %v", err)
		}
	}
	return &attempt
}

func (s *signerSuite) body(body string) {
	req := s.request(body)
	attempt := s.signed(req)
	var got []byte
	if attempt.Body != nil {
		got, _ = io.ReadAll(attempt.Body)
	}
	if string(got) != body || attempt.ContentLength != int64(len(body)) {
		s.tb.Errorf("sortietest: the signed body is %q, length %d; want %q", got, attempt.ContentLength, body)
	}
	if body != "" && attempt.GetBody == nil {
		s.tb.Errorf("sortietest: the signed request cannot replay its body")
	}
	if req.Header.Get("Authorization") != "" || req.URL.RawQuery != "x=1&y=2" {
		s.tb.Errorf("sortietest: signing an attempt changed the request it came from")
	}
}

func (s *signerSuite) sharedHeaders() {
	first := s.signed(s.request("first"))
	before := first.Header.Clone()
	s.signed(first)
	if !maps.EqualFunc(before, first.Header, slices.Equal) {
		s.tb.Errorf("sortietest: signing a second attempt changed the headers of the first:\n%v\nnow\n%v", before, first.Header)
	}
}

func (s *signerSuite) again() {
	req := s.request("again")
	req.Header["Authorization"] = []string{"old", "older"}
	if got := s.signed(req).Header["Authorization"]; len(got) != 1 || got[0] == "old" {
		s.tb.Errorf("sortietest: a stale Authorization is still there: %d values", len(got))
	}
}

// CheckSource is a suite for sources of credentials and tokens: what a cache in front of them relies on. It reports what
// it finds through tb. The function retrieve asks the source, and returns what identifies the answer, and its expiry, zero
// if it has none. The source must work while the suite runs.
//
//   - an answer has an identity, and has not expired;
//   - a context that has ended makes a question return, within a second, with an error or an answer;
//   - it may be asked by several goroutines at once.
func CheckSource(ctx context.Context, tb TB, retrieve func(context.Context) (id string, expires time.Time, err error)) {
	tb.Helper()
	ask := func(ctx context.Context) {
		id, expires, err := retrieve(ctx)
		switch {
		case err != nil:
			tb.Errorf("sortietest: the source failed: %v", err)
		case id == "":
			tb.Errorf("sortietest: an answer without identity, and no error")
		case !expires.IsZero() && !expires.After(time.Now()):
			tb.Errorf("sortietest: an answer that expired at %v", expires)
		}
	}
	ask(ctx)
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the suite has ended this context"))
	start := time.Now()
	if id, _, err := retrieve(ended); err == nil && id == "" {
		tb.Errorf("sortietest: neither answer nor error for a context that has ended")
	}
	if took := time.Since(start); took > time.Second {
		tb.Errorf("sortietest: a context that has ended kept the source busy for %v", took)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { ask(ctx) })
	}
	all.Wait()
}
