package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A base is one base URL of an upstream, parsed. It is immutable.
type base struct {
	text   string   // as configured
	url    *url.URL // scheme, host, path, query
	target hostPort // what is dialled and, for https, verified
	side   Side
	proxy  *url.URL // through which it is reached; nil: none
}

// parseBase reads one base URL. Its errors say what would be right.
func parseBase(text string, side Side) (*base, error) {
	u, err := url.Parse(text)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the text, which may hold a password
		}
		return nil, fmt.Errorf("no URL: %w", err)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("base URL of host %s has user info; use a Signer, or set the header on the request", u.Host)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf(`%q needs the scheme http or https, as in "https://api.shop.example"`, text)
	case u.Opaque != "" || u.Host == "":
		return nil, fmt.Errorf(`%q names no host; write "%s://host"`, text, u.Scheme)
	case u.Fragment != "":
		return nil, fmt.Errorf("%q has a fragment, which is never sent; remove it", text)
	}
	if err := checkPort(u.Port()); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	target, err := hostPortOf(u.Scheme, u.Host)
	if err != nil {
		return nil, fmt.Errorf("%q: host: %w", text, err)
	}
	if _, isLiteral := literal(target.host); !isLiteral && !plausibleHost(target.host) {
		return nil, fmt.Errorf("%q: a label of the host is empty or too long", text)
	}
	return &base{text: text, url: u, target: target, side: side}, nil
}

// checkPort accepts "" and the numbers that are ports.
func checkPort(port string) error {
	if port == "" {
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return nil
}

// rewrite fills dst with the URL that reaches logical at this base. Paths are joined as they are escaped, with exactly
// one slash, and nothing is cleaned or encoded anew: signatures and object keys depend on "..", "//" and "%2F" surviving.
func (b *base) rewrite(dst, logical *url.URL) {
	*dst = *logical
	dst.Scheme, dst.Host, dst.User = b.url.Scheme, b.url.Host, nil
	dst.Path, dst.RawPath = joinPaths(b.url, logical)
	dst.RawQuery = joinQueries(b.url.RawQuery, logical.RawQuery)
}

// joinPaths returns Path and RawPath of the base's path followed by the call's.
func joinPaths(b, call *url.URL) (path, rawPath string) {
	switch {
	case call.Path == "" && call.RawPath == "":
		return b.Path, b.RawPath
	case call.Path == "*": // OPTIONS * speaks of the server, not of a path
		return call.Path, call.RawPath
	case b.Path == "" || b.Path == "/":
		if strings.HasPrefix(call.Path, "/") {
			return call.Path, call.RawPath
		}
	}
	path = joinSlash(b.Path, call.Path)
	if b.RawPath == "" && call.RawPath == "" {
		// Neither needs a hint, so the joined path is encoded as each of them was.
		return path, ""
	}
	return path, joinSlash(b.EscapedPath(), call.EscapedPath())
}

// joinSlash joins two paths with exactly one slash between them.
func joinSlash(a, b string) string {
	return strings.TrimSuffix(a, "/") + "/" + strings.TrimPrefix(b, "/")
}

func joinQueries(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

// mapBack rewrites the response's references to this base into references to the logical URL, so that a client which
// follows them comes through the same upstream again. Everything else is left as it is.
func (b *base) mapBack(header http.Header, logical *url.URL) {
	for _, key := range [...]string{"Location", "Content-Location"} {
		values := header[key]
		if len(values) != 1 {
			continue
		}
		if mapped, ok := b.logicalReference(values[0], logical); ok {
			header[key] = []string{mapped}
		}
	}
}

// logicalReference returns what ref, a reference sent by this base, is under the logical URL. Relative paths resolve
// there by themselves.
func (b *base) logicalReference(ref string, logical *url.URL) (string, bool) {
	u, err := url.Parse(ref)
	if err != nil || u.Opaque != "" {
		return "", false
	}
	absolute := u.Host != ""
	switch {
	case absolute && !b.isServerOf(u):
		return "", false
	case !absolute && !strings.HasPrefix(u.Path, "/"):
		return "", false
	}
	prefix := strings.TrimSuffix(b.url.EscapedPath(), "/")
	rest, ok := strings.CutPrefix(u.EscapedPath(), prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	if !absolute && prefix == "" {
		return "", false // nothing to take away
	}
	if rest == "" {
		rest = "/"
	}
	// Always absolute: what is left of a path may begin with two slashes, which alone would name another host.
	mapped := logical.Scheme + "://" + logical.Host + rest
	if u.RawQuery != "" || u.ForceQuery {
		mapped += "?" + u.RawQuery
	}
	if fragment := u.EscapedFragment(); fragment != "" {
		mapped += "#" + fragment
	}
	return mapped, true
}

// isServerOf reports whether an absolute or scheme-relative URL names the base's server.
func (b *base) isServerOf(u *url.URL) bool {
	scheme := orDefault(u.Scheme, b.url.Scheme)
	if scheme != b.url.Scheme {
		return false
	}
	target, err := hostPortOf(scheme, u.Host)
	return err == nil && target == b.target
}
