package client

import (
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

var errOpaque = errors.New("Request.URL.Opaque cannot be rewritten to a base URL; set Path, and RawPath if it is escaped in its own way")

// checkRequest finds what makes a request impossible to send, before anything is done for it. What net/http checks later,
// the spelling of method and headers, is looked at only when a send has failed: see invalidRequest.
func checkRequest(req *http.Request) error {
	u := req.URL
	switch {
	case u == nil:
		return errors.New("Request.URL is nil; make requests with http.NewRequestWithContext")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("Request.URL has the scheme %q; only http and https can be sent", u.Scheme)
	case u.Host == "":
		return errors.New("Request.URL names no host")
	}
	return nil
}

// invalidRequest reports that net/http refuses the request's method or headers.
func invalidRequest(req *http.Request) bool {
	if !validToken(methodOf(req)) {
		return true
	}
	return invalidHeader(req.Header) || invalidHeader(req.Trailer)
}

func invalidHeader(header http.Header) bool {
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return true
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return true
			}
		}
	}
	return false
}

// validToken reports whether a method is a token of RFC 9110, 5.6.2.
func validToken(s string) bool {
	for i := range len(s) {
		if !httpguts.IsTokenRune(rune(s[i])) {
			return false
		}
	}
	return s != ""
}
