package memnet_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
)

// serve starts an HTTP server on n in the bubble of t, and returns a client for it. Both end with the test.
func serve(t *testing.T, n *memnet.Network, address string, secure bool, h http.HandlerFunc) *http.Client {
	t.Helper()
	srv := &http.Server{Handler: h}
	tr := &http.Transport{DialContext: n.DialContext, ForceAttemptHTTP2: secure}
	ln := listen(t, n, address)
	if secure {
		srv.TLSConfig, tr.TLSClientConfig = certificate(t)
		go srv.ServeTLS(ln, "", "")
	} else {
		go srv.Serve(ln)
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
	})
	return &http.Client{Transport: tr}
}

func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "memnet"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"catalog.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: pool}
}

func TestHTTPServerInABubble(t *testing.T) {
	for _, test := range []struct {
		url, proto string
		secure     bool
	}{
		{"http://catalog.example:80/", "HTTP/1.1", false},
		{"https://catalog.example:443/", "HTTP/2.0", true},
	} {
		t.Run(test.proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				address := "catalog.example:80"
				if test.secure {
					address = "catalog.example:443"
				}
				c := serve(t, n, address, test.secure, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Minute)
					body, _ := io.ReadAll(r.Body)
					w.Write(body)
				})
				body := bytes.Repeat([]byte("sortie"), 100_000)
				start := time.Now()
				for range 3 {
					resp, err := c.Post(test.url, "text/plain", bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || !bytes.Equal(got, body) || resp.Proto != test.proto {
						t.Errorf("%s: %d bytes, %v, want %d by %s", resp.Proto, len(got), err, len(body), test.proto)
					}
				}
				if d := time.Since(start); d < 3*time.Minute || d > 4*time.Minute {
					t.Errorf("three calls of a minute each took %v", d)
				}
				if open := len(n.Conns(address)); open != 1 {
					t.Errorf("%d connections for three calls", open)
				}
			})
		})
	}
}

func TestHTTPClientSeesAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		c := serve(t, n, "10.0.0.1:80", false, func(w http.ResponseWriter, r *http.Request) {
			for _, conn := range n.Conns("10.0.0.1:80") {
				conn.Reset()
			}
		})
		_, err := c.Get("http://10.0.0.1/")
		if _, ok := errors.AsType[*net.OpError](err); !ok || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error %v, want a reset", err)
		}
	})
}

func TestHTTPClientLeavesAVanishedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		c := serve(t, n, "10.0.0.1:80", false, func(w http.ResponseWriter, r *http.Request) {})
		for i := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://10.0.0.1/", nil)
			resp, err := c.Do(req)
			switch i {
			case 0:
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				n.Conns("10.0.0.1:80")[0].Drop()
			case 1:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("call on a dropped connection: %v", err)
				}
			}
		}
	})
}
