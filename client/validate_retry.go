package client

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

func (r *Retry) validate(path string, timeout *Timeout, m *mistakes) {
	if r.Attempts != 0 && (r.Attempts < 2 || r.Attempts > 10) {
		m.addf(path+".Attempts", "%d is not between 2 and 10; use 0 for the default of 3, or leave Retry out", r.Attempts)
	}
	checkCount(m, path+".Base", r.Base)
	checkCount(m, path+".Cap", r.Cap)
	checkCount(m, path+".MaxRetryAfter", r.MaxRetryAfter)
	checkOrNone(m, path+".BufferBody", r.BufferBody)
	in := r.compile()
	if in.waits.Base > in.waits.Cap {
		m.addf(path+".Base", "%v is longer than Cap (%v); make it shorter", in.waits.Base, in.waits.Cap)
	}
	if total := timeout.withDefaults().Total; total > 0 {
		shorterThanTotal(m, path+".Cap", in.waits.Cap, total)
		if r.MaxRetryAfter != 0 {
			shorterThanTotal(m, path+".MaxRetryAfter", in.waits.MaxWish, total)
		}
	}
	for _, status := range r.Statuses {
		if status < 400 || status > 599 {
			m.addf(path+".Statuses", "%d is no error; list codes from 400 to 599", status)
		}
	}
	checkOwnHeader(m, path+".IdempotencyHeader", r.IdempotencyHeader)
}

func shorterThanTotal(m *mistakes, path string, d, total time.Duration) {
	if d >= total {
		m.addf(path, "%v leaves nothing of Timeout.Total (%v); make it shorter", d, total)
	}
}

// checkOwnHeader accepts the name of a header that the client may set by itself; "" is none.
func checkOwnHeader(m *mistakes, path, name string) {
	if name == "" {
		return
	}
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		m.addf(path, "%q is no header name", name)
	case strings.HasPrefix(canonical, "Content-"), slices.Contains(reservedHeaders, canonical):
		m.addf(path, "%s has a meaning of its own in HTTP; choose another header", canonical)
	}
}

// reservedHeaders are those of the connection (RFC 9110, 7.6.1), and two that would break every request.
var reservedHeaders = []string{
	"Host", "Authorization", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func (b *Budget) validate(path string, m *mistakes) {
	if b.Percent < 0 || b.Percent > 100 {
		m.addf(path+".Percent", "%v is not between 0 and 100; use 0 for the default of 20", b.Percent)
	}
	if b.PerSecond < none {
		m.addf(path+".PerSecond", "%v is negative; use 0 for the default of 10 or -1 for none", b.PerSecond)
	}
	checkCount(m, path+".Window", b.Window)
}
