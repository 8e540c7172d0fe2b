package creds

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxErrorBody = 4 << 10
	trustedSkew  = 30 * time.Second // a clock that is no farther off counts as right
	dateSlack    = 4 * time.Minute  // services accept five
	maxRoundTrip = 15 * time.Minute // beyond it a Date says nothing about clocks
	amzDate      = "20060102T150405Z"
)

// skewCodes are the error codes with which services answer to a date that is off, among other things.
var skewCodes = []string{
	"AccessDeniedException",
	"AuthFailure",
	"InvalidSignatureException",
	"RequestExpired",
	"RequestTimeTooSkewed",
	"SignatureDoesNotMatch",
}

// Observe reads an answer to a signed attempt: it learns the service's clock, and of keys that were rejected. It reports
// whether signing again would be different, so that one more attempt is worth while. Package client calls it with each
// attempt's request and response, before anybody reads the body; up to 4 KiB of that are read and put back, with status
// 400, 401 and 403 alone.
func (s *SigV4) Observe(_ context.Context, req *http.Request, resp *http.Response) bool {
	if s.ready() != nil {
		return false
	}
	off := s.learn(req, resp, time.Now())
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return false
	}
	code, message := errorOf(resp, s.searches())
	again := false
	switch {
	case off && (slices.Contains(skewCodes, code) || s.searches() && saysDate(message)):
		s.counts.skewed.Add(1)
		again = true
	case rejects(code) || s.searches() && resp.StatusCode == http.StatusForbidden && saysToken(message):
		s.counts.rejections.Add(1)
		again = s.reject(signedKey(req.Header.Get("Authorization")), code)
	}
	if again {
		s.counts.again.Add(1)
	}
	return again
}

// searches reports whether the service is OpenSearch, which tells its reasons in messages only.
func (s *SigV4) searches() bool { return s.Service == "es" || s.Service == "aoss" }

func saysToken(message string) bool {
	return strings.Contains(message, "security token") && (strings.Contains(message, "expired") || strings.Contains(message, "invalid"))
}

func saysDate(message string) bool {
	return strings.Contains(message, "Signature expired") || strings.Contains(message, "Signature not yet current")
}

// reject hands a rejected key on, and reports whether there is, or will be, another.
func (s *SigV4) reject(key, code string) bool {
	if s.cache == nil || key == "" {
		return false
	}
	if code == "" {
		code = "message"
	}
	s.cache.InvalidateIf(key, s.Service+": "+code)
	return s.cache.core.replaced(key)
}

// learn takes the service's clock from its answer, and reports whether the attempt's date was too far off.
func (s *SigV4) learn(req *http.Request, resp *http.Response, now time.Time) bool {
	header := resp.Header["Date"]
	if len(header) == 0 || len(resp.Header["Age"]) > 0 {
		return false
	}
	date, err := http.ParseTime(header[0])
	if err != nil {
		return false
	}
	signed, err := time.Parse(amzDate, req.Header.Get("X-Amz-Date"))
	before := time.Duration(s.offset.Load())
	if err != nil || now.Add(before).Sub(signed).Abs() > maxRoundTrip {
		return false
	}
	skew := date.Sub(now.Truncate(time.Second)) // a Date has whole seconds
	if skew.Abs() <= trustedSkew {
		skew = 0
	}
	if (skew - before).Abs() > 2*time.Second {
		s.offset.Store(int64(skew))
		if s.cache != nil {
			s.cache.core.setSkew(skew)
		}
	}
	return signed.Sub(date).Abs() > dateSlack
}

// errorOf returns the error code of an answer, and the message if it is asked for: from the header X-Amzn-Errortype, or
// from the beginning of the body, which it puts back.
func errorOf(resp *http.Response, wantMessage bool) (code, message string) {
	code = plainCode(resp.Header.Get("X-Amzn-Errortype"))
	if code != "" && !wantMessage || resp.Body == nil || resp.Header.Get("Content-Encoding") != "" {
		return code, ""
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // an error comes again after it
	resp.Body = &putBack{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	inBody, message := parseError(head)
	if code == "" {
		code = inBody
	}
	return code, message
}

// putBack is a body of which the beginning has been read.
type putBack struct {
	io.Reader
	io.Closer
}

// plainCode cuts what services put around a code: "prefix#Code:http://…".
func plainCode(s string) string {
	s, _, _ = strings.Cut(s, ":")
	if i := strings.LastIndexByte(s, '#'); i >= 0 {
		s = s[i+1:]
	}
	return strings.TrimSpace(s)
}

// parseError finds code and message in the beginning of a body of JSON or XML.
func parseError(head []byte) (code, message string) {
	head = bytes.TrimLeft(head, " \t\r\n\ufeff")
	switch {
	case bytes.HasPrefix(head, []byte("{")):
		return parseJSONError(head)
	case bytes.HasPrefix(head, []byte("<")):
		return parseXMLError(head)
	}
	return "", ""
}

// parseJSONError goes through the fields one by one, as the end of the body may be missing.
func parseJSONError(head []byte) (code, message string) {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return "", ""
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		var value any
		if d.Decode(&value) != nil {
			break
		}
		text, _ := value.(string)
		switch name {
		case "__type", "code", "Code":
			code = plainCode(text)
		case "message", "Message":
			message = text
		}
	}
	return code, message
}

// parseXMLError takes the first elements Code and Message, wherever they are.
func parseXMLError(head []byte) (code, message string) {
	d := xml.NewDecoder(bytes.NewReader(head))
	d.Strict = false
	for code == "" || message == "" {
		t, err := d.RawToken()
		if err != nil {
			break
		}
		start, ok := t.(xml.StartElement)
		if !ok || start.Name.Local != "Code" && start.Name.Local != "Message" {
			continue
		}
		text, err := d.RawToken()
		chars, ok := text.(xml.CharData)
		switch {
		case err != nil || !ok:
		case start.Name.Local == "Code" && code == "":
			code = plainCode(string(chars))
		case start.Name.Local == "Message" && message == "":
			message = string(chars)
		}
	}
	return code, message
}

// sigv4Counts are the counts of a signer.
type sigv4Counts struct {
	signs, failures, rejections, skewed, again atomic.Uint64
}

// SigV4Stats describes a [SigV4] at one moment.
type SigV4Stats struct {
	Signs      uint64        // calls of Sign
	Failures   uint64        // of them, those that returned an error
	Rejections uint64        // answers that rejected the key
	Skewed     uint64        // answers to a date that was off
	Again      uint64        // answers after which another attempt was worth while
	Offset     time.Duration // of the service's clock, as the date follows it
	Provider   string        // "cache", "made" (a Cache made for the Provider) or "foreign"
}

// Stats returns the counts as they are now.
func (s *SigV4) Stats() SigV4Stats {
	st := SigV4Stats{
		Signs: s.counts.signs.Load(), Failures: s.counts.failures.Load(), Rejections: s.counts.rejections.Load(),
		Skewed: s.counts.skewed.Load(), Again: s.counts.again.Load(), Offset: time.Duration(s.offset.Load()),
		Provider: "foreign",
	}
	switch {
	case s.ready() != nil:
	case s.made:
		st.Provider = "made"
	case s.cache != nil:
		st.Provider = "cache"
	}
	return st
}
