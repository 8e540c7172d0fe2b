package sortietest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

const exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

func exampleSecretOf(key string) string {
	if key == "AKIDEXAMPLE" {
		return exampleSecret
	}
	return ""
}

// listUsers is the example of AWS's documentation: its wire form, its header lines and its signature.
const listUsers = "GET /?Action=ListUsers&Version=2010-05-08 HTTP/1.1\r\n" +
	"Host: iam.amazonaws.com\r\n" +
	"Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n" +
	"X-Amz-Date: 20150830T123600Z\r\n" +
	"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, " +
	"SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\r\n\r\n"

func received(t *testing.T, wire string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckSigV4AcceptsTheExampleOfAWS(t *testing.T) {
	if err := sortietest.CheckSigV4(received(t, listUsers), exampleSecretOf); err != nil {
		t.Error(err)
	}
}

func TestCheckSigV4NamesTheProblem(t *testing.T) {
	for _, c := range []struct{ old, changed, problem, line string }{
		{"AKIDEXAMPLE", "SOMEBODY", "unknown access key", ""},
		{"20150830T", "20150831T", "the scope is of", ""},
		{"20150830T123600Z", "yesterday", "X-Amz-Date", ""},
		{"AWS4-HMAC-SHA256 ", "AWS4-ECDSA ", "no Authorization", ""},
		{"/aws4_request", "/aws5", "the scope is", ""},
		{"Signature=", "Sig=", "lacks a part", ""},
		{"SignedHeaders=content-type;host", "SignedHeaders=content-type", "signed headers", ""},
		{"Content-Type:", "X-Amz-Other: 1\r\nContent-Type:", "x-amz-other is not signed", ""},
		{"Content-Type:", "X-Amz-Content-Sha256: 00\r\nContent-Type:", "not signed", ""},
		{"ListUsers", "ListRoles", "does not match", ""},
		{"Action=ListUsers&Version=2010-05-08", "Version=2010-05-08&Action=ListUsers", "", ""}, // the order does not matter
		{"iam.amazonaws.com", "iam.amazonaws.com:8443", "does not match", "host"},
		{"\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n{}", "does not match", "payload"},
	} {
		err := sortietest.CheckSigV4(received(t, strings.Replace(listUsers, c.old, c.changed, 1)), exampleSecretOf)
		if c.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", c.changed, err)
			}
			continue
		}
		e, ok := errors.AsType[*sortietest.SigV4Error](err)
		if !ok || !strings.Contains(e.Error(), c.problem) || e.Line != c.line {
			t.Errorf("%s for %s: %v", c.changed, c.old, err)
		}
	}
}

func TestCheckSigV4PutsTheBodyBack(t *testing.T) {
	r := received(t, strings.Replace(listUsers, "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n{}", 1))
	sortietest.CheckSigV4(r, exampleSecretOf)
	if body, _ := io.ReadAll(r.Body); string(body) != "{}" {
		t.Errorf("body %q", body)
	}
}

func FuzzCheckSigV4(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: a\r\nX-Amz-Date: 20150830T123600Z\r\nAuthorization: AWS4-HMAC-SHA256 " +
		"Credential=AK/20150830/r/s/aws4_request, SignedHeaders=host;x-amz-date, Signature=00\r\n\r\n")
	f.Add("POST /a/../b//%2A?b=2&a=%zz&a HTTP/1.1\r\nHost: [::1]:443\r\nContent-Length: 1\r\n\r\nx")
	f.Fuzz(func(t *testing.T, wire string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
		if err != nil {
			return
		}
		if err := sortietest.CheckSigV4(r, func(string) string { return "secret" }); err == nil {
			t.Error("a signature that nobody made")
		}
	})
}

// failures is a TB that collects what is reported.
type failures struct {
	testing.TB
	mu    sync.Mutex
	texts []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, _ ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, format)
}

func TestCheckSignerFindsWhatIsWrong(t *testing.T) {
	good := func(_ context.Context, r *http.Request) error {
		r.Header["Authorization"] = []string{"signed"}
		return nil
	}
	sortietest.CheckSigner(t.Context(), t, good, func(r *http.Request) error {
		if r.Header.Get("Authorization") != "signed" {
			return errors.New("not signed")
		}
		return nil
	})
	n := 0
	for name, bad := range map[string]func(context.Context, *http.Request) error{
		"fails":         func(context.Context, *http.Request) error { return errors.New("no") },
		"eats the body": func(_ context.Context, r *http.Request) error { r.Body = http.NoBody; return nil },
		"loses the replay": func(_ context.Context, r *http.Request) error {
			r.Body, r.GetBody = io.NopCloser(bytes.NewReader(nil)), nil
			return nil
		},
		"adds": func(_ context.Context, r *http.Request) error { r.Header.Add("Authorization", "signed"); return nil },
		"writes into the slice": func(_ context.Context, r *http.Request) error {
			n++
			r.Header["Authorization"] = append(r.Header["Authorization"][:0], strings.Repeat("x", n))
			return nil
		},
	} {
		f := &failures{TB: t}
		one := make(chan struct{}, 1) // these are not made for concurrent use
		sortietest.CheckSigner(t.Context(), f, func(ctx context.Context, r *http.Request) error {
			one <- struct{}{}
			defer func() { <-one }()
			return bad(ctx, r)
		}, nil)
		if len(f.texts) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestCheckSourceFindsWhatIsWrong(t *testing.T) {
	sortietest.CheckSource(t.Context(), t, func(ctx context.Context) (string, time.Time, error) {
		return "id", time.Now().Add(time.Hour), ctx.Err()
	})
	for name, bad := range map[string]func(context.Context) (string, time.Time, error){
		"fails":   func(context.Context) (string, time.Time, error) { return "", time.Time{}, errors.New("no") },
		"nothing": func(context.Context) (string, time.Time, error) { return "", time.Time{}, nil },
		"expired": func(context.Context) (string, time.Time, error) { return "id", time.Unix(0, 0), nil },
	} {
		f := &failures{TB: t}
		one := make(chan struct{}, 1)
		sortietest.CheckSource(t.Context(), f, func(ctx context.Context) (string, time.Time, error) {
			one <- struct{}{}
			defer func() { <-one }()
			return bad(ctx)
		})
		if len(f.texts) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
