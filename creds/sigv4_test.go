package creds_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

const (
	exampleKey    = "AKIDEXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

func example() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(exampleKey, exampleSecret, "")
}

func exampleSecretOf(key string) string {
	if key == exampleKey {
		return exampleSecret
	}
	return ""
}

func newRequest(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// The example of AWS's documentation: ListUsers of iam, on 2015-08-30.
func TestSigV4SignsTheExampleOfAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)))
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "iam"}
		req := newRequest(t, "GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", "")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		if err := s.Sign(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, " +
			"SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
		if got := req.Header.Get("Authorization"); got != want || req.Header.Get("X-Amz-Date") != "20150830T123600Z" {
			t.Errorf("Authorization\n%s, want\n%s", got, want)
		}
	})
}

// server receives requests over a network in memory, checks their signatures and remembers the last.
type server struct {
	secretOf func(string) string
	client   *http.Client
	last     *http.Request
	uri      string
	body     []byte
	err      error
	answer   func(http.ResponseWriter, *http.Request) // nil: 200
}

// newServer listens on every address that the tests use, in a bubble or outside of one.
func newServer(t *testing.T, secretOf func(string) string) *server {
	t.Helper()
	s := &server{secretOf: secretOf}
	n := sortietest.NewNetwork()
	l, err := n.Listen("10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(s.serve)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (c net.Conn, err error) {
		return n.DialContext(ctx, network, "10.0.0.1:80")
	}}
	t.Cleanup(func() {
		srv.Close()
		<-done
		tr.CloseIdleConnections()
	})
	s.client = &http.Client{Transport: tr}
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.last, s.uri = r, r.RequestURI
	s.err = sortietest.CheckSigV4(r, s.secretOf)
	s.body, _ = io.ReadAll(r.Body)
	if s.answer != nil {
		s.answer(w, r)
	}
}

// send signs a request and sends it, over plain http whatever its URL says. What the server thinks of it is in s.err.
func (s *server) send(t *testing.T, signer *creds.SigV4, req *http.Request) (*http.Response, error) {
	t.Helper()
	if err := signer.Sign(req.Context(), req); err != nil {
		return nil, err
	}
	if req.URL.Scheme == "https" {
		where := *req.URL
		where.Scheme, req.URL = "http", &where
	}
	resp, err := s.client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

func TestSigV4OnTheWire(t *testing.T) {
	for _, c := range []struct {
		name, service, method, url, body string
		header                           http.Header
		uri                              string // as the server sees it; empty: any
	}{
		{name: "get vanilla", url: "http://a.example/"},
		{name: "get no path", url: "http://a.example"},
		{name: "get unreserved", url: "http://a.example/-._~0123456789ABCabc"},
		{name: "get spaces", url: "http://a.example/a b/ c "},
		{name: "get utf8", url: "http://a.example/\u1234/ü"},
		{name: "get slash", url: "http://a.example//"},
		{name: "get slashes", url: "http://a.example//foo///bar//", uri: "//foo///bar//"},
		{name: "get dot", url: "http://a.example/./"},
		{name: "get dots", url: "http://a.example/foo/../bar/./x/.."},
		{name: "get pointless dot", url: "http://a.example/./foo"},
		{name: "get hidden file", url: "http://a.example/.well-known/..x"},
		{name: "es wildcard", service: "es", url: "http://a.example/logs-*/_search", uri: "/logs-*/_search"},
		{name: "es escaped wildcard", service: "es", url: "http://a.example/logs-%2A/_search", uri: "/logs-%2A/_search"},
		{name: "es list of indices", service: "es", url: "http://a.example/a,b/_search?filter_path=hits.*,took", uri: "/a,b/_search?filter_path=hits.%2A%2Ctook"},
		{name: "es date math", service: "es", url: "http://a.example/%3Clogs-%7Bnow%2Fd%7D%3E/_search"},
		{name: "aoss", service: "aoss", method: "POST", url: "http://a.example/i/_doc", body: `{"a":1}`},
		{name: "s3 key", service: "s3", url: "http://a.example/bucket/a*b,c(d) é/../e//f"},
		{name: "s3 escaped slash", service: "s3", url: "http://a.example/bucket/a%2Fb"},
		{name: "s3 object lambda", service: "s3-object-lambda", url: "http://a.example/a*b"},
		{name: "query order", url: "http://a.example/?b=2&b=1&a=3", uri: "/?b=2&b=1&a=3"},
		{name: "query of one name", url: "http://a.example/?p=b&p=a&p=", uri: "/?p=b&p=a&p="},
		{name: "query plus", url: "http://a.example/?q=a+b", uri: "/?q=a%20b"},
		{name: "query plus escaped", url: "http://a.example/?q=a%2Bb", uri: "/?q=a%2Bb"},
		{name: "query flag", url: "http://a.example/?flag&x=1", uri: "/?flag=&x=1"},
		{name: "query lower hex", url: "http://a.example/?q=%2a%c3%bc", uri: "/?q=%2A%C3%BC"},
		{name: "query unescaped", url: "http://a.example/?q=a/b:c,d*e$f@g!(h)'i'", uri: "/?q=a%2Fb%3Ac%2Cd%2Ae%24f%40g%21%28h%29%27i%27"},
		{name: "query needless escape", url: "http://a.example/?%61=%7e", uri: "/?a=~"},
		{name: "query empty parts", url: "http://a.example/?&a=1&&b=2&", uri: "/?a=1&b=2"},
		{name: "query equals in value", url: "http://a.example/?a=b=c==", uri: "/?a=b%3Dc%3D%3D"},
		{name: "query order after encoding", url: "http://a.example/?a%2Fb=1&a-b=2&a=a%2Fb&a=a-b"},
		{name: "query utf8", url: "http://a.example/?ü=é"},
		{name: "query mark only", url: "http://a.example/?"},
		{name: "default port", url: "http://a.example:80/"},
		{name: "other port", url: "http://a.example:8443/"},
		{name: "trailing dot", url: "http://a.example./"},
		{name: "trailing dot and port", url: "http://a.example.:8080/"},
		{name: "ipv6", url: "http://[2001:db8::1]/"},
		{name: "ipv6 and port", url: "http://[2001:db8::1]:9200/"},
		{name: "ipv6 and default port", url: "http://[2001:db8::1]:80/"},
		{name: "upper case host", url: "http://A.Example/"},
		{name: "headers", url: "http://a.example/", header: http.Header{
			"X-Amz-Meta-A": {"  a   b  ", "c"}, "X-Amz-Acl": {"private"}, "Content-Type": {"text/plain;  charset=utf-8"},
			"My-Header": {"v1", "v2"}, "X-Unsigned": {"z"}, "User-Agent": {"x"}, "Traceparent": {"00-1-2-03"},
		}},
		{name: "post", method: "POST", url: "http://a.example/", body: "Param1=value1"},
		{name: "post empty", method: "POST", url: "http://a.example/"},
		{name: "put es", service: "es", method: "PUT", url: "http://a.example/i/_doc/1", body: strings.Repeat("x", 100_000)},
		{name: "delete", method: "DELETE", url: "http://a.example/i"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer(t, exampleSecretOf)
			service := c.service
			if service == "" {
				service = "service"
			}
			s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: service, SignedHeaders: []string{"my-header"}}
			method := c.method
			if method == "" {
				method = "GET"
			}
			req := newRequest(t, method, c.url, c.body)
			maps.Copy(req.Header, c.header)
			if _, err := srv.send(t, s, req); err != nil {
				t.Fatal(err)
			}
			if srv.err != nil || c.uri != "" && srv.uri != c.uri || string(srv.body) != c.body {
				t.Errorf("%s, body of %d bytes: %v", srv.uri, len(srv.body), srv.err)
			}
			auth := srv.last.Header.Get("Authorization")
			for name := range c.header {
				want := strings.HasPrefix(name, "X-Amz-") || name == "Content-Type" || name == "My-Header"
				if signed := strings.Contains(auth, strings.ToLower(name)); signed != want {
					t.Errorf("%s signed: %v", name, signed)
				}
			}
		})
	}
}

func TestSigV4SignsEveryServiceWithWhatItRequires(t *testing.T) {
	for service, want := range map[string]bool{"es": true, "aoss": true, "s3": true, "s3express": true, "execute-api": false} {
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: service}
		req := newRequest(t, "GET", "https://a.example/", "")
		if err := s.Sign(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("X-Amz-Content-Sha256") != ""; got != want {
			t.Errorf("%s: X-Amz-Content-Sha256 %v", service, got)
		}
	}
}

// E12: what net/url would drop is refused before anything is sent.
func TestSigV4RefusesQueriesThatWouldBeDropped(t *testing.T) {
	s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
	for _, query := range []string{
		"a=1;b=2", "q=100%", "q=%zz", "a=1&b=%f", "X-Amz-Signature=00&a=1", "x-amz-signature=00", "%58-Amz-Signature=00",
	} {
		req := newRequest(t, "GET", "https://a.example/", "")
		req.URL.RawQuery = query
		before := *req.URL
		err := s.Sign(t.Context(), req)
		if e, ok := errors.AsType[*creds.SignError](err); !ok || e.Part != "query" {
			t.Errorf("%s: %v", query, err)
		}
		if len(req.Header) != 0 || *req.URL != before {
			t.Errorf("%s: the request was changed", query)
		}
	}
}

func TestSigV4RefusesWhatIsNotSentAsItStands(t *testing.T) {
	s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "s3"}
	for part, spoil := range map[string]func(*http.Request){
		"host": func(r *http.Request) { r.Header["Host"] = []string{"b.example"} },
		"path": func(r *http.Request) { r.URL.Opaque = "a.example/x" },
	} {
		req := newRequest(t, "GET", "https://a.example/", "")
		spoil(req)
		err := s.Sign(t.Context(), req)
		if e, ok := errors.AsType[*creds.SignError](err); !ok || e.Part != part {
			t.Errorf("%s: %v", part, err)
		}
	}
	for _, host := range []string{"", "ü.example", "a b", "."} {
		req := &http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Host: host, Path: "/"}}
		if err := s.Sign(t.Context(), req); err == nil {
			t.Errorf("host %q was signed", host)
		}
	}
}

func TestSigV4ScrubsOlderSignatures(t *testing.T) {
	srv := newServer(t, exampleSecretOf)
	s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "service"}
	req := newRequest(t, "GET", "http://a.example/", "")
	req.Header = http.Header{
		"Authorization": {"old"}, "X-Amz-Date": {"old"}, "X-Amz-Security-Token": {"old"}, "X-Amz-Content-Sha256": {"old"},
		"x-amz-security-token": {"older"},
	}
	if _, err := srv.send(t, s, req); err != nil || srv.err != nil {
		t.Fatal(err, srv.err)
	}
	for name, values := range srv.last.Header {
		if slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "old") }) {
			t.Errorf("%s: %q survived", name, values)
		}
	}
}

// E14: an attempt in flight keeps its headers when another, made of a shallow copy, is signed.
func TestSigV4LeavesOtherAttemptsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
		first := newRequest(t, "POST", "https://a.example/x?q=a+b", "{}")
		if err := s.Sign(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		before, where := first.Header.Clone(), *first.URL
		time.Sleep(2 * time.Second)
		second := *first
		second.Header = maps.Clone(first.Header)
		second.URL.RawQuery = "q=c+d"
		where.RawQuery = second.URL.RawQuery
		if err := s.Sign(t.Context(), &second); err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(before, first.Header, slices.Equal) || *first.URL != where {
			t.Errorf("the first attempt changed")
		}
		if before.Get("Authorization") == second.Header.Get("Authorization") || before.Get("X-Amz-Date") == second.Header.Get("X-Amz-Date") {
			t.Error("the second was not signed anew")
		}
	})
}

func TestSigV4FollowsTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: lifetime}
		c := newCache(t, src, creds.Config{})
		srv := newServer(t, func(key string) string { return "secret-of-" + key })
		s := &creds.SigV4{Provider: c, Region: "us-east-1", Service: "es"}
		for _, want := range []string{"K1", "K2", "K3"} {
			if _, err := srv.send(t, s, newRequest(t, "GET", "http://a.example/", "")); err != nil || srv.err != nil {
				t.Fatal(err, srv.err)
			}
			auth := srv.last.Header
			if !strings.Contains(auth.Get("Authorization"), "Credential="+want+"/") || auth.Get("X-Amz-Security-Token") != "session-of-"+want {
				t.Errorf("%v, want key %s", auth, want)
			}
			time.Sleep(11 * time.Minute)
		}
		if st := s.Stats(); st.Signs != 3 || st.Provider != "cache" || st.Failures != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSigV4NoticesACorrectedSecret(t *testing.T) {
	secret := "wrong"
	src := &source{}
	src.answer = func(context.Context, int) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "K", SecretAccessKey: secret}, nil
	}
	srv := newServer(t, func(string) string { return "right" })
	s := &creds.SigV4{Provider: aws.NewCredentialsCache(src), Region: "us-east-1", Service: "es"}
	srv.send(t, s, newRequest(t, "GET", "http://a.example/", ""))
	if srv.err == nil {
		t.Fatal("a wrong secret was accepted")
	}
	secret = "right"
	s.Provider.(*aws.CredentialsCache).Invalidate()
	if _, err := srv.send(t, s, newRequest(t, "GET", "http://a.example/", "")); err != nil || srv.err != nil {
		t.Error(err, srv.err)
	}
	if got := s.Stats().Provider; got != "foreign" {
		t.Errorf("provider %q", got)
	}
}

func TestSigV4PutsACacheAroundABareProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: lifetime}
		s := &creds.SigV4{Provider: src, Region: "us-east-1", Service: "es"}
		for range 100 {
			if err := s.Sign(t.Context(), newRequest(t, "GET", "https://a.example/", "")); err != nil {
				t.Fatal(err)
			}
		}
		if n := src.calls(); n != 1 || s.Stats().Provider != "made" {
			t.Errorf("%d calls, provider %q", n, s.Stats().Provider)
		}
		s.Close()
	})
}

// E21: the time for credentials counts into the caller's.
func TestSigV4HonoursTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: lifetime, took: time.Hour}
		c := newCache(t, src, creds.Config{})
		s := &creds.SigV4{Provider: c, Region: "us-east-1", Service: "es"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := s.Sign(ctx, newRequest(t, "GET", "https://a.example/_cluster/health", ""))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second || s.Stats().Failures != 1 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestSigV4Validate(t *testing.T) {
	if err := (&creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es", SignedHeaders: []string{"x-opaque-id"}}).Validate(); err != nil {
		t.Error(err)
	}
	bad := &creds.SigV4{
		Region: "a/b", Payload: creds.Unsigned, PathEncoding: 9, MaxBuffer: 1,
		SignedHeaders: []string{"Connection", "user-agent", "x-amz-date", "", "a b", "host"},
	}
	err := bad.Validate()
	for _, field := range []string{"Provider", "Region", "Service", "PathEncoding", "MaxBuffer", "[0]", "[1]", "[2]", "[3]", "[4]", "[5]"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is missing in %v", field, err)
		}
	}
	if err := (&creds.SigV4{Provider: aws.AnonymousCredentials{}, Region: "r", Service: "s"}).Validate(); err == nil {
		t.Error("anonymous")
	}
	req := newRequest(t, "GET", "https://a.example/", "")
	if err := bad.Sign(t.Context(), req); err == nil || bad.Close() != nil || bad.Observe(t.Context(), req, &http.Response{StatusCode: 403}) {
		t.Error("a broken signer signs")
	}
}

func TestSigV4PathEncodingOverrides(t *testing.T) {
	srv := newServer(t, exampleSecretOf)
	for encoding, ok := range map[creds.PathEncoding]bool{creds.EncodeByService: true, creds.EncodeTwice: true, creds.EncodeOnce: false} {
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es", PathEncoding: encoding}
		if _, err := srv.send(t, s, newRequest(t, "GET", "http://a.example/a%20b", "")); err != nil || (srv.err == nil) != ok {
			t.Errorf("%d: %v, %v", encoding, err, srv.err)
		}
	}
}

func TestSigV4PassesTheSuite(t *testing.T) {
	md := sortietest.NewMetadata(t)
	c := newCache(t, creds.EC2Role{Endpoint: md.URL()}, creds.Config{})
	for _, service := range []string{"es", "s3", "execute-api"} {
		s := &creds.SigV4{Provider: c, Region: "us-east-1", Service: service}
		sortietest.CheckSigner(t.Context(), t, s.Sign, func(r *http.Request) error { return sortietest.CheckSigV4(r, md.SecretOf) })
	}
}

// What is signed is what arrives, whatever the URL, or it is refused.
func FuzzSigV4(f *testing.F) {
	f.Add("/a/../b//*", "a=1&b=%2a&c", "h.example:443", "body", "es")
	f.Add("//", "a=1;b=2", "[::1%25eth0]:80", "", "s3")
	f.Add("/%zz", "100%", "ü", "", "execute-api")
	f.Fuzz(func(t *testing.T, path, query, host, body, service string) {
		u, err := url.Parse("http://h.example" + path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		u.Host, u.RawQuery = host, query
		req, err := http.NewRequest("POST", u.String(), strings.NewReader(body))
		if err != nil {
			return
		}
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: service}
		if s.Sign(t.Context(), req) != nil {
			return
		}
		var wire bytes.Buffer
		if req.Write(&wire) != nil {
			return
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			return // net/http will not send it either
		}
		if err := sortietest.CheckSigV4(got, exampleSecretOf); err != nil {
			t.Errorf("%s: %v", fmt.Sprint(u), err)
		}
	})
}
