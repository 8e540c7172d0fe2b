package interop_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// objects is as much of S3 as the test needs.
type objects struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		o.kept[r.URL.EscapedPath()] = b
	case http.MethodGet:
		b, ok := o.kept[r.URL.EscapedPath()]
		if !ok {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
			return
		}
		w.Write(b)
	}
}

func TestAnAWSServiceClientRunsOnTop(t *testing.T) {
	server := httptest.NewServer(&objects{kept: map[string][]byte{}})
	defer server.Close()
	var mu sync.Mutex
	var reports []client.Report
	c := newClient(t, client.Config{
		Upstreams: []client.Upstream{{
			Name: "objects", Hosts: []string{"s3.eu-west-1.amazonaws.com"}, External: []string{server.URL}, PreserveHost: true,
			Policy: client.Policy{Timeout: &client.Timeout{}},
		}},
		OnCall: func(r client.Report) { mu.Lock(); defer mu.Unlock(); reports = append(reports, r) },
	})
	api := s3.New(s3.Options{
		Region: "eu-west-1", UsePathStyle: true, HTTPClient: c, // a Client has the one method that the SDK asks for
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""),
	})
	ctx := t.Context()
	bucket, key := aws.String("shop"), aws.String("items/a b+c/%2F")
	body := bytes.Repeat([]byte("0123456789"), 50_000)
	if _, err := api.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(body)}); err != nil {
		t.Fatal(err)
	}
	out, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out.Body)
	if err != nil || out.Body.Close() != nil || !bytes.Contains(body, got[:10]) || len(got) != len(body) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("none")}); err == nil || !strings.Contains(err.Error(), "NoSuchKey") {
		t.Errorf("err = %v", err)
	}

	mu.Lock()
	defer mu.Unlock()
	if len(reports) != 3 || reports[2].Reason != client.ReasonStatus || reports[2].Status != 404 {
		t.Fatalf("reports %v", reports)
	}
	for i, r := range reports {
		if r.Upstream != "objects" || !r.Ended || r.Unclosed || r.Attempts[0].Conn.Reused != (i > 0) {
			t.Errorf("report %+v", r)
		}
	}
}

func TestAWSRetriesSeeTheCausesTheyKnow(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.Reset(), sortietest.Status(503), sortietest.OK("hello"))
	c := newClient(t, client.Config{Upstreams: []client.Upstream{{
		Name: "objects", Hosts: []string{"s3.eu-west-1.amazonaws.com"}, External: []string{up.URL()},
	}}})
	api := s3.New(s3.Options{
		Region: "eu-west-1", UsePathStyle: true, HTTPClient: c,
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""),
	})
	out, err := api.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("shop"), Key: aws.String("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if s := up.Stats(); s.Requests != 3 {
		t.Errorf("%d requests, want the SDK's two retries on top of one", s.Requests)
	}
}

func TestAReverseProxyRunsOnTop(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			line, _ := rw.ReadString('\n')
			fmt.Fprint(rw, "echo "+line)
			rw.Flush()
			return
		}
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Path", r.Host+r.URL.Path)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusCreated)
		w.Write(b)
		w.Header().Set("X-Sum", fmt.Sprint(len(b)))
	}))
	defer backend.Close()
	c := newClient(t, client.Config{Upstreams: []client.Upstream{{
		Name: "backend", Hosts: []string{"backend.example"}, External: []string{backend.URL + "/v1"},
		Policy: client.Policy{Timeout: &client.Timeout{}},
	}}})
	target := &url.URL{Scheme: "http", Host: "backend.example"}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: c,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
	})
	defer proxy.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL+"/items", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "tenant.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(b) != "hello" || resp.StatusCode != http.StatusCreated ||
		resp.Header.Get("X-Path") != "tenant.example/v1/items" || resp.Trailer.Get("X-Sum") != "5" {
		t.Errorf("got %s %q, header %v, trailer %v, %v", resp.Status, b, resp.Header, resp.Trailer, err)
	}

	upgraded(t, proxy.URL)
	proxy.Close()
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// upgraded switches protocols through the proxy: both bodies must be writable.
func upgraded(t *testing.T, proxy string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy+"/chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	rw, ok := resp.Body.(io.ReadWriter)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("status %s, body %T", resp.Status, resp.Body)
	}
	fmt.Fprint(rw, "hello\n")
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "echo hello\n" {
		t.Errorf("read %q, %v", b, err)
	}
}
