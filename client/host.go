package client

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// A hostPort is a host as it is compared: lower case, ASCII (punycode), without trailing dot and brackets, IP addresses in
// their one usual form, with the port that is really meant.
type hostPort struct {
	host string
	port string
}

func (h hostPort) String() string {
	if strings.IndexByte(h.host, ':') >= 0 {
		return "[" + h.host + "]:" + h.port
	}
	return h.host + ":" + h.port
}

// defaultPort returns the port that a URL of the scheme means when it names none.
func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// hostPortOf returns the host and port that a URL's Host means under the given scheme. It allocates nothing for a host
// in its usual spelling.
func hostPortOf(scheme, urlHost string) (hostPort, error) {
	host, port := splitPort(urlHost)
	if port == "" {
		port = defaultPort(scheme)
	}
	host, err := canonicalHost(host)
	return hostPort{host, port}, err
}

// splitPort cuts "host", "host:port", "[v6]" and "[v6]:port"; an empty port is none, as in RFC 3986, 3.2.3, and leading
// zeros of a port mean nothing.
func splitPort(urlHost string) (host, port string) {
	if strings.HasPrefix(urlHost, "[") {
		if end := strings.IndexByte(urlHost, ']'); end > 0 {
			return urlHost[1:end], trimZeros(strings.TrimPrefix(urlHost[end+1:], ":"))
		}
	}
	if i := strings.LastIndexByte(urlHost, ':'); i >= 0 {
		return urlHost[:i], trimZeros(urlHost[i+1:])
	}
	return urlHost, ""
}

func trimZeros(port string) string {
	for len(port) > 1 && port[0] == '0' {
		port = port[1:]
	}
	return port
}

// canonicalHost returns the spelling of a host under which it is compared and dialled.
func canonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	if usualSpelling(host) {
		return host, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String(), nil
	}
	if lower := strings.ToLower(host); usualSpelling(lower) {
		return lower, nil // idna would refuse names with '_', which exist
	}
	return idna.Lookup.ToASCII(host)
}

// usualSpelling reports whether a host is what canonicalHost would make of it: lower-case ASCII.
func usualSpelling(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

// literal returns the IP address that a host is, if it is one.
func literal(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), err == nil
}

// serverOf returns scheme://host of a URL: enough to name an endpoint, without anything private.
func serverOf(u *url.URL) string { return u.Scheme + "://" + u.Host }
