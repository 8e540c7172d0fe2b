package sortietest_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"testing"

	"github.com/sortie-go/sortie/sortietest"
)

func TestTLSNames(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *sortietest.Network) {
			up := &sortietest.Upstream{Network: n, Address: "catalog.example:443", TLS: true, HTTP2: h2}
			up.Start(t)
			if got := up.URL(); got != "https://catalog.example" {
				t.Errorf("URL %q", got)
			}
			wantAnswer(t, up.Client(), up.URL(), 200, "")
			want := "HTTP/1.1"
			if h2 {
				want = "HTTP/2.0"
			}
			if r := up.Requests()[0]; r.ServerName != "catalog.example" || r.Host != "catalog.example" || r.Proto != want {
				t.Errorf("record %+v", r)
			}
			wantAnswer(t, up.Client(), "https://"+loopbackOf(t, n, up), 200, "")
		})
	}
}

// loopbackOf finds the address that a name has on n.
func loopbackOf(t *testing.T, n *sortietest.Network, up *sortietest.Upstream) string {
	t.Helper()
	c, err := n.DialContext(t.Context(), "tcp", up.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.RemoteAddr().String()
}

func TestTLSIsNotTrustedWithoutBeingTold(t *testing.T) {
	up := &sortietest.Upstream{TLS: true}
	up.Start(t)
	_, _, err := get(&http.Client{Transport: new(http.Transport)}, up.URL())
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("error %v, want a certificate error", err)
	}
	wantAnswer(t, up.Client(), up.URL(), 200, "")
}

func TestTLSForAnotherHost(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := &sortietest.Upstream{
			Network: n, Address: "catalog.example:443", TLS: true, Hosts: []string{"search.example"},
		}
		up.Start(t)
		_, _, err := get(up.Client(), up.URL())
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("error %v, want a certificate error", err)
		}
		cfg := sortietest.ClientTLS()
		cfg.ServerName = "search.example"
		tr := &http.Transport{DialContext: n.DialContext, TLSClientConfig: cfg}
		defer tr.CloseIdleConnections()
		wantAnswer(t, &http.Client{Transport: tr}, up.URL(), 200, "")
	})
}
