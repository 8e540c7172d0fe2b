package sortietest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

// RootCAs returns a new pool with the authority that issues the certificates of all upstreams in this process. Its
// key is made anew in each process and never leaves it.
func RootCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	if ca, err := authority(); err == nil {
		pool.AddCert(ca.Leaf)
	}
	return pool
}

// ClientTLS returns a new client configuration which trusts [RootCAs] and nothing else.
func ClientTLS() *tls.Config {
	return &tls.Config{RootCAs: RootCAs()}
}

// serverTLS issues a certificate for the hosts, or if there are none, for whatever name a client asks for.
func serverTLS(hosts []string) *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		names := slices.Clone(hosts)
		if len(names) == 0 && hello.ServerName != "" {
			names = []string{hello.ServerName}
		} else if len(names) == 0 { // no name is sent for an IP address
			host, _, _ := net.SplitHostPort(hello.Conn.LocalAddr().String())
			names = []string{host}
		}
		ca, err := authority()
		if err != nil {
			return nil, err
		}
		return issue(names, ca)
	}}
}

// authority makes the process's certificate authority when it is needed first.
var authority = sync.OnceValues(func() (*tls.Certificate, error) { return issue(nil, nil) })

// issue makes a certificate for names, signed by ca; without ca, an authority that signs itself. Its validity takes in
// the year 2000, in which synctest bubbles begin.
func issue(names []string, ca *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "sortietest"},
		NotBefore:             time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	parent, signer := template, any(key)
	if ca == nil {
		template.IsCA = true
		template.KeyUsage = x509.KeyUsageCertSign
		template.ExtKeyUsage = nil
	} else {
		template.Subject.CommonName = "sortietest upstream"
		template.SerialNumber = big.NewInt(2)
		parent, signer = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
