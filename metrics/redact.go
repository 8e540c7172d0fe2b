package metrics

import (
	"net/url"
	"strings"
)

// redacted stands for what nobody may read.
const redacted = "REDACTED"

// secretParams are the query parameters whose values are secrets: signatures and tokens of URLs that are signed. The
// semantic conventions name the lower four for url.full; the rest is AWS's.
var secretParams = []string{
	"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token",
	"AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature",
}

// RedactURL returns u as it may stand in spans, logs and findings: without user name and password, and without the values
// of the query parameters that sign a URL (X-Amz-Signature, X-Amz-Credential, X-Amz-Security-Token, AWSAccessKeyId,
// Signature, sig, X-Goog-Signature, in any case). All else is kept as it is. Nil is "".
func RedactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	if u.User == nil && u.RawQuery == "" && u.Opaque == "" {
		return u.String()
	}
	safe := *u
	if u.User != nil {
		safe.User = url.UserPassword(redacted, redacted)
	}
	safe.Opaque = redactOpaque(u.Opaque)
	safe.RawQuery = redactQuery(u.RawQuery)
	return safe.String()
}

// redactOpaque treats what net/url does not take apart like the whole: programs that must send a path exactly as it is
// write "//host/path?query" there. Before the query an @ stands for user info, of a URL that may lack its slashes.
func redactOpaque(opaque string) string {
	path, query, found := strings.Cut(opaque, "?")
	if strings.Contains(path, "@") {
		path = redacted
	}
	if !found {
		return path
	}
	return path + "?" + redactQuery(query)
}

// redactQuery goes through the query as it is written, since decoding and encoding would change what is not secret. A
// semicolon separates as well: servers differ.
func redactQuery(query string) string {
	var b strings.Builder
	for query != "" {
		end := strings.IndexAny(query, "&;")
		pair, rest := query, ""
		if end >= 0 {
			pair, rest = query[:end], query[end:]
		}
		b.WriteString(redactPair(pair))
		query = rest
		if query != "" {
			b.WriteByte(query[0])
			query = query[1:]
		}
	}
	return b.String()
}

func redactPair(pair string) string {
	name, _, found := strings.Cut(pair, "=")
	if !found {
		return pair
	}
	plain, err := url.QueryUnescape(name)
	if err != nil { // a name that cannot be read might be any of them
		return name + "=" + redacted
	}
	for _, secret := range secretParams {
		if strings.EqualFold(strings.TrimSpace(plain), secret) {
			return name + "=" + redacted
		}
	}
	return pair
}
