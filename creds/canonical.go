package creds

import (
	"net/http"
	"net/url"
	"strings"
)

// wireHost returns the host as it is sent and signed: without default port, trailing dot and zone.
func wireHost(req *http.Request) (string, error) {
	if _, ok := req.Header["Host"]; ok {
		return "", &SignError{Part: "host", Reason: "a header Host is not sent; set Request.Host"}
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	if plainHost(host) {
		return host, nil
	}
	name, port := splitPort(host)
	if port == "" || port == ":" || port == ":80" && req.URL.Scheme == "http" || port == ":443" && req.URL.Scheme == "https" {
		port = ""
	}
	name = strings.TrimSuffix(name, ".")
	if bare, zone, ok := strings.Cut(name, "%"); ok && strings.HasSuffix(zone, "]") {
		name = bare + "]"
	}
	if name == "" || strings.ContainsFunc(name+port, func(c rune) bool { return !hostRune(c) }) {
		return "", &SignError{Part: "host", Reason: "not sent as it stands: it is empty, or has characters that are not of a host"}
	}
	return name + port, nil
}

// plainHost reports whether a host needs no work: a name of letters, digits, '-' and '.', without port.
func plainHost(host string) bool {
	if host == "" || host[len(host)-1] == '.' {
		return false
	}
	return !strings.ContainsFunc(host, func(c rune) bool { return !hostRune(c) || strings.ContainsRune(":[]", c) })
}

func hostRune(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._:[]", c)
}

// splitPort cuts a port off, which keeps its colon. Brackets stay with the name.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || i < strings.LastIndexByte(host, ']') {
		return host, ""
	}
	return host[:i], host[i:]
}

// canonicalPath returns the path that is signed, before the SDK encodes it once more where the service wants that.
func (s *SigV4) canonicalPath(u *url.URL) (string, error) {
	path, err := wirePath(u)
	if err != nil {
		return "", err
	}
	if !s.encodesOnce() {
		return normalPath(path), nil // as AWS's specification asks, so that a proxy which cleans paths does no harm
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return "", &SignError{Part: "path", Reason: "a stray '%'"}
	}
	return escape(plain, true), nil
}

// wirePath returns the path as net/http sends it.
func wirePath(u *url.URL) (string, error) {
	path := u.EscapedPath()
	if u.Opaque != "" {
		rest, ok := strings.CutPrefix(u.Opaque, "//")
		if !ok || strings.Contains(rest, "?") {
			return "", &SignError{Part: "path", Reason: "URL.Opaque is not of the form //host/path"}
		}
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/", nil
		}
		path = rest[i:]
	}
	if path == "" {
		return "/", nil
	}
	if path[0] != '/' {
		path = "/" + path
	}
	return path, nil
}

// normalPath removes empty and dot segments from an escaped path that begins with '/'. A path that ends in one keeps a
// trailing '/'.
func normalPath(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path
	}
	segments := strings.Split(path[1:], "/")
	out := segments[:0]
	last := segments[len(segments)-1]
	for _, s := range segments {
		switch s {
		case "", ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	clean := "/" + strings.Join(out, "/")
	if len(out) > 0 && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

// wireQuery returns the query as it is sent and signed: the caller's parameters in the caller's order, in the one form of
// escaping that signatures know. It refuses what net/url would drop or read in another way.
func wireQuery(u *url.URL) (string, error) {
	raw := u.RawQuery
	clean := true
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if strings.EqualFold(name, "X-Amz-Signature") {
			return "", &SignError{Part: "query", Reason: "it is signed already (X-Amz-Signature)"}
		}
		clean = clean && ok && escaped(name) && escaped(value)
	}
	if clean || raw == "" {
		return raw, nil
	}
	return rewriteQuery(raw)
}

func rewriteQuery(raw string) (string, error) {
	var b strings.Builder
	b.Grow(len(raw) + 16)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		if strings.Contains(pair, ";") {
			return "", &SignError{Part: "query", Reason: "a ';' separates parameters for some and not for others; escape it (%3B)"}
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return "", strayPercent()
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return "", strayPercent()
		}
		if strings.EqualFold(name, "X-Amz-Signature") {
			return "", &SignError{Part: "query", Reason: "it is signed already (X-Amz-Signature)"}
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(escape(name, false))
		b.WriteByte('=')
		b.WriteString(escape(value, false))
	}
	return b.String(), nil
}

// strayPercent does not tell the query, which may hold secrets.
func strayPercent() error {
	return &SignError{Part: "query", Reason: "a '%' that begins no escape would be dropped; escape it (%25)"}
}

const upperHex = "0123456789ABCDEF"

// escape encodes all bytes but the unreserved ones of RFC 3986, and '/' in paths.
func escape(s string, path bool) string {
	n := 0
	for i := range len(s) {
		if !unreserved(s[i]) && !(path && s[i] == '/') {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; unreserved(c) || path && c == '/' {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// escaped reports whether s is what escape would make of it.
func escaped(s string) bool {
	for i := 0; i < len(s); i++ {
		if unreserved(s[i]) {
			continue
		}
		if s[i] != '%' || i+2 >= len(s) {
			return false
		}
		hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if hi < 0 || lo < 0 || unreserved(byte(hi<<4|lo)) {
			return false
		}
		i += 2
	}
	return true
}
