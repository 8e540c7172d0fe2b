package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// In a run of the peers, 50 workers with 40 calls each opened 276 to 589 connections (httplb), 69 to 262 (heimdall), 95 to
// 112 (failsafe-go), 60 to 91 (go-retryablehttp).
func TestFiftyWorkersNeedNoMoreConnectionsThanWorkers_httplb(t *testing.T) {
	for name, server := range map[string]*sortietest.Upstream{
		"plain":  {Steps: []sortietest.Step{sortietest.OK("hello")}},
		"TLS":    {Steps: []sortietest.Step{sortietest.OK("hello")}, TLS: true},
		"HTTP/2": {Steps: []sortietest.Step{sortietest.OK("hello")}, TLS: true, HTTP2: true},
	} {
		t.Run(name, func(t *testing.T) {
			server.Start(t)
			c := newClient(t, client.Config{Unlisted: client.Policy{Conns: &client.Conns{TLS: sortietest.ClientTLS()}}})
			var workers sync.WaitGroup
			for range 50 {
				workers.Go(func() {
					for range 40 {
						resp, err := c.Do(newRequest(t, t.Context(), "GET", server.URL(), nil))
						if err != nil {
							t.Error(err)
							return
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			workers.Wait()
			if s := server.Stats(); s.Requests != 2000 || s.Conns > 50 {
				t.Errorf("%d requests over %d connections", s.Requests, s.Conns)
			}
			settled(t, c)
		})
	}
}

// failsafe-go opened 41 connections for 60 attempts, since it closed no body that it discarded.
func TestCallsOneAfterAnotherShareAConnection_heimdall45(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		server := n.NewUpstream(t, "10.0.0.1:80", sortietest.Status(503).Body(strings.Repeat("x", 2<<10)))
		c := newClient(t, client.Config{Dial: n.DialContext})
		for range 20 {
			resp := get(t, c, server.URL())
			if resp.StatusCode != 503 {
				t.Fatalf("status %d", resp.StatusCode)
			}
			resp.Body.Close() // unread
		}
		if s := server.Stats(); s.Conns != 1 || s.Requests != 20 {
			t.Errorf("%d requests over %d connections", s.Requests, s.Conns)
		}
	})
}

func TestDialsDoNotOutliveTheirCallers_go76784(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		n.BlackHole("10.0.0.1:80")
		c := newClient(t, client.Config{Dial: n.DialContext})
		dialing := func() int { return unlistedStats(c).Endpoints[0].Dialing }
		var calls sync.WaitGroup
		for range 500 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, err := c.Do(newRequest(t, ctx, "GET", "http://10.0.0.1/", nil))
				if !client.IsTimeout(err) || !client.NeverSent(err) || time.Since(start) != 10*time.Millisecond {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		}
		calls.Wait()
		if n := dialing(); n > 8 {
			t.Errorf("%d dials are running, the gate is 8", n)
		}
		time.Sleep(6 * time.Second)
		if n := dialing(); n != 0 {
			t.Errorf("%d dials are running after their time", n)
		}
	})
}

func TestAStaleConnectionCostsAMarkedPOSTNothing_go22158_go19943(t *testing.T) {
	for _, tc := range []struct {
		name   string
		mark   func(*http.Request) *http.Request
		resent bool
	}{
		{"unmarked", func(r *http.Request) *http.Request { return r }, false},
		{"by header", func(r *http.Request) *http.Request { r.Header.Set("Idempotency-Key", "k"); return r }, true},
		{"by an empty header, as net/http has it", func(r *http.Request) *http.Request { r.Header["Idempotency-Key"] = nil; return r }, true},
		{"by the call", func(r *http.Request) *http.Request {
			return r.WithContext(client.WithCall(r.Context(), client.CallOptions{Idempotent: client.Yes}))
		}, true},
		{"a marked one the call forbids", func(r *http.Request) *http.Request {
			r.Header.Set("Idempotency-Key", "k")
			return r.WithContext(client.WithCall(r.Context(), client.CallOptions{Idempotent: client.No}))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sortietest.NewNetwork()
				server := &sortietest.Upstream{Network: n, Address: "10.0.0.1:80", RequestsPerConn: 1, StaleReuse: true,
					Steps: []sortietest.Step{sortietest.OK("hello")}}
				server.Start(t)
				c := newClient(t, client.Config{Dial: n.DialContext})
				readAll(t, get(t, c, server.URL()))

				req := tc.mark(newRequest(t, t.Context(), "POST", server.URL(), strings.NewReader("body")))
				resp, err := c.Do(req)
				if tc.resent {
					if err != nil {
						t.Fatal(err)
					}
					readAll(t, resp)
					r := client.ReportOf(resp)
					if got := server.Requests(); len(got) != 2 || string(got[1].Body) != "body" {
						t.Errorf("the server saw %v", got)
					}
					if len(r.Attempts) != 1 || r.Attempts[0].Conn.Sends != 2 {
						t.Errorf("attempts %+v", r.Attempts)
					}
					return
				}
				if client.ReasonOf(err) != client.ReasonConnectionLost || client.NeverSent(err) || !strings.Contains(err.Error(), "may have been processed") {
					t.Errorf("err = %v", err)
				}
				if s := server.Stats(); s.Requests != 1 {
					t.Errorf("the server saw %d requests", s.Requests)
				}
			})
		})
	}
}

// failsafe-go and heimdall dialled an untrusted server three times.
func TestAnUntrustedCertificateIsOneHandshake_failsafe(t *testing.T) {
	server := &sortietest.Upstream{TLS: true, Steps: []sortietest.Step{sortietest.OK("hello")}}
	server.Start(t)
	c := newClient(t, client.Config{})
	_, err := c.Do(newRequest(t, t.Context(), "GET", server.URL(), nil))
	var untrusted *tls.CertificateVerificationError
	if client.ReasonOf(err) != client.ReasonCertificate || !errors.As(err, &untrusted) || !client.NeverSent(err) {
		t.Errorf("err = %v", err)
	}
	if ep := unlistedStats(c).Endpoints[0]; ep.Failed != 1 || ep.Created != 0 {
		t.Errorf("dials: %+v", ep.ConnStats)
	}
}

func TestThePeersNameIsTheBasesNotTheAddress(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := sortietest.NewNetwork()
			server := &sortietest.Upstream{Network: n, Address: "10.0.0.1:443", TLS: true, HTTP2: http2, Hosts: []string{"catalog.internal"},
				Steps: []sortietest.Step{sortietest.OK("hello")}}
			server.Start(t)
			c := newClient(t, client.Config{Dial: n.DialContext, Upstreams: []client.Upstream{{
				Name: "catalog", Hosts: []string{"api.example"}, External: []string{"https://10.0.0.1"}, ServerName: "catalog.internal",
				Policy: client.Policy{Conns: &client.Conns{TLS: sortietest.ClientTLS()}},
			}}})
			resp := get(t, c, "https://api.example/x")
			readAll(t, resp)
			seen := server.Requests()[0]
			if seen.ServerName != "catalog.internal" || seen.Host != "10.0.0.1" {
				t.Errorf("server name %q, Host %q", seen.ServerName, seen.Host)
			}
			want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]
			if got := client.ReportOf(resp).Attempts[0].Conn.Proto; got != want {
				t.Errorf("protocol %q, want %q", got, want)
			}
		})
	}
}
