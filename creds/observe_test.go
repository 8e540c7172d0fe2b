package creds_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/creds"
)

// answer makes the response to a signed request, from a server whose clock is ahead by skew.
func answer(status int, body string, skew time.Duration, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	resp.Header.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

const expiredToken = `{"message":"The security token included in the request is expired"}`

// Which answers reject the key, and which do not.
func TestAnswersThatRejectTheKey(t *testing.T) {
	const xml = "<?xml version=\"1.0\"?>\n<Error><RequestId>1</RequestId><Code>%</Code><Message>m</Message></Error>"
	long := strings.Repeat("x", 8<<10)
	for _, c := range []struct {
		name, service string
		status        int
		body          string
		header        []string
		want          bool
	}{
		{"header", "dynamodb", 400, "", []string{"X-Amzn-Errortype", "ExpiredTokenException:http://internal.amazon.com/"}, true},
		{"header with prefix", "dynamodb", 400, "", []string{"X-Amzn-Errortype", "com.amazon.coral.service#UnrecognizedClientException"}, true},
		{"JSON", "dynamodb", 400, `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"m"}`, nil, true},
		{"JSON code", "x", 403, `{"a":{"code":"no"},"code":"InvalidToken"}`, nil, true},
		{"JSON cut off after the code", "x", 403, `{"Code":"ExpiredToken","x":"` + long, nil, true},
		{"XML of S3", "s3", 400, strings.Replace(xml, "%", "ExpiredToken", 1), nil, true},
		{"XML of a query service", "iam", 403, "<ErrorResponse><Error><Code>InvalidClientTokenId</Code>", nil, true},
		{"XML of EC2", "ec2", 400, strings.Replace(xml, "%", "RequestExpired", 1), nil, true},
		{"OpenSearch, expired", "es", 403, expiredToken, nil, true},
		{"OpenSearch, invalid", "es", 403, `{"Message":"The security token included in the request is invalid."}`, nil, true},
		{"OpenSearch Serverless", "aoss", 403, expiredToken, nil, true},

		{"the same elsewhere", "execute-api", 403, expiredToken, nil, false},
		{"OpenSearch with another status", "es", 401, expiredToken, nil, false},
		{"OpenSearch, no permissions", "es", 403, `{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: es:ESHttpGet"}`, nil, false},
		{"OpenSearch, no permissions by roles", "es", 403, `{"error":{"reason":"no permissions for [indices:data/read/search]"},"status":403}`, nil, false},
		{"OpenSearch without a body", "es", 403, "", nil, false},
		{"OpenSearch, the message in the text", "es", 403, "the security token is expired", nil, false},
		{"a wrong signature", "x", 403, `{"__type":"SignatureDoesNotMatch"}`, nil, false},
		{"no access", "x", 403, `{"__type":"AccessDenied"}`, nil, false},
		{"a good answer", "x", 200, `{"__type":"ExpiredToken"}`, nil, false},
		{"a bad gateway", "x", 502, `{"__type":"ExpiredToken"}`, nil, false},
		{"compressed", "x", 403, `{"__type":"ExpiredToken"}`, []string{"Content-Encoding", "gzip"}, false},
		{"garbage", "x", 403, "{\x00", nil, false},
		{"garbage of XML", "x", 403, "<Code><Code>ExpiredToken", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{life: lifetime}
				cache := newCache(t, src, creds.Config{})
				s := &creds.SigV4{Provider: cache, Region: "us-east-1", Service: c.service}
				req := newRequest(t, "GET", "https://a.example/", "")
				if err := s.Sign(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				resp := answer(c.status, c.body, 0, c.header...)
				if got := s.Observe(t.Context(), req, resp); got != c.want {
					t.Errorf("Observe = %v", got)
				}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != c.body {
					t.Errorf("the body has %d bytes, want %d", len(body), len(c.body))
				}
				if got := cache.Stats().Rejections == 1; got != c.want {
					t.Errorf("rejected: %v", got)
				}
				if c.want {
					if k, _ := read(t, cache); k != "K2" {
						t.Errorf("then %s", k)
					}
				}
			})
		})
	}
}

func TestLateRejectionIsWorthAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: lifetime}
		cache := newCache(t, src, creds.Config{})
		s := &creds.SigV4{Provider: cache, Region: "us-east-1", Service: "es"}
		var requests []*http.Request
		for range 50 {
			req := newRequest(t, "GET", "https://a.example/", "")
			if err := s.Sign(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			requests = append(requests, req)
		}
		for _, req := range requests {
			if !s.Observe(t.Context(), req, answer(403, expiredToken, 0)) {
				t.Error("not worth another attempt")
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n := src.calls(); n != 2 || s.Stats().Rejections != 50 || s.Stats().Again != 50 {
			t.Errorf("%d calls, %+v", n, s.Stats())
		}
	})
}

func TestRejectionOfForeignCredentials(t *testing.T) {
	s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
	req := newRequest(t, "GET", "https://a.example/", "")
	if err := s.Sign(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if s.Observe(t.Context(), req, answer(403, expiredToken, 0)) || s.Stats().Rejections != 1 {
		t.Errorf("static credentials are not replaced: %+v", s.Stats())
	}
}

// P17: the date follows the service's clock, and comes back.
func TestClockSkewHeals_aws_sdk_go_v23187(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
		attempt := func(skew time.Duration) (accepted, again bool) {
			req := newRequest(t, "GET", "https://a.example/", "")
			if err := s.Sign(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			date, err := time.Parse("20060102T150405Z", req.Header.Get("X-Amz-Date"))
			if err != nil {
				t.Fatal(err)
			}
			if time.Now().Add(skew).Sub(date).Abs() > 5*time.Minute {
				return false, s.Observe(t.Context(), req, answer(403, "", skew, "X-Amzn-Errortype", "RequestTimeTooSkewed"))
			}
			return true, s.Observe(t.Context(), req, answer(200, "", skew))
		}
		for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			if accepted, again := attempt(ahead); accepted || !again {
				t.Errorf("%v ahead, first: accepted %v, again %v", ahead, accepted, again)
			}
			if accepted, again := attempt(ahead); !accepted || again {
				t.Errorf("%v ahead, second: accepted %v, again %v", ahead, accepted, again)
			}
			if off := s.Stats().Offset; (off - ahead).Abs() > time.Second {
				t.Errorf("offset %v", off)
			}
			// The clocks agree again. The date is off now, and the answer says so.
			if accepted, again := attempt(0); accepted || !again {
				t.Errorf("healed, first: accepted %v, again %v", accepted, again)
			}
			if accepted, _ := attempt(0); !accepted || s.Stats().Offset != 0 {
				t.Errorf("healed: accepted %v, offset %v", accepted, s.Stats().Offset)
			}
		}
	})
}

func TestDatesThatSayNothingAboutClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		for name, c := range map[string]struct {
			skew, took time.Duration
			header     []string
			want       time.Duration
		}{
			"right":         {10 * time.Minute, 0, nil, 10 * time.Minute},
			"within 30 s":   {29 * time.Second, 0, nil, 0},
			"aged":          {10 * time.Minute, 0, []string{"Age", "600"}, 0},
			"slow":          {10 * time.Minute, 16 * time.Minute, nil, 0},
			"not so slow":   {10 * time.Minute, 14 * time.Minute, nil, 10 * time.Minute},
			"no date":       {10 * time.Minute, 0, []string{"Date", "now"}, 0},
			"a little late": {-40 * time.Second, time.Second, nil, -40 * time.Second},
		} {
			s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
			req := newRequest(t, "GET", "https://a.example/", "")
			if err := s.Sign(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.took)
			s.Observe(t.Context(), req, answer(200, "", c.skew, c.header...))
			if got := s.Stats().Offset; got != c.want {
				t.Errorf("%s: offset %v, want %v", name, got, c.want)
			}
		}
	})
}

func TestSmallSkewIsNoReasonForAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		for skew, want := range map[time.Duration]bool{0: false, 4 * time.Minute: false, -4 * time.Minute: false, 5 * time.Minute: true} {
			for code, skewCode := range map[string]bool{
				"InvalidSignatureException": true, "SignatureDoesNotMatch": true, "AuthFailure": true, "RequestTimeTooSkewed": true,
				"AccessDeniedException": true, "RequestExpired": true, "ValidationException": false,
			} {
				s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "x"}
				req := newRequest(t, "GET", "https://a.example/", "")
				if err := s.Sign(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if got := s.Observe(t.Context(), req, answer(403, `{"code":"`+code+`"}`, skew)); got != (want && skewCode) {
					t.Errorf("%s with a skew of %v: %v", code, skew, got)
				}
			}
		}
		for _, message := range []string{"Signature expired: 1 is now earlier than 2", "Signature not yet current: 1 is still later than 2"} {
			s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
			req := newRequest(t, "GET", "https://a.example/", "")
			if err := s.Sign(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if !s.Observe(t.Context(), req, answer(403, `{"message":"`+message+`"}`, time.Hour)) {
				t.Error(message)
			}
		}
	})
}

func TestSkewOfTheServiceBringsTheRefreshForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{life: lifetime}
		c := newCache(t, src, creds.Config{Soft: time.Minute, Jitter: -1})
		s := &creds.SigV4{Provider: c, Region: "us-east-1", Service: "es"}
		req := newRequest(t, "GET", "https://a.example/", "")
		if err := s.Sign(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		s.Observe(t.Context(), req, answer(200, "", 2*time.Minute))
		if got := c.Peek().Soft; got < 179*time.Second || got > 3*time.Minute {
			t.Errorf("window %v, want about 3 minutes", got)
		}
	})
}

func FuzzErrorOf(f *testing.F) {
	f.Add(`{"__type":"ExpiredToken","message":"m"}`, "")
	f.Add("<Error><Code>ExpiredToken</Code></Error>", "a#b:c")
	f.Fuzz(func(t *testing.T, body, header string) {
		s := &creds.SigV4{Provider: example(), Region: "us-east-1", Service: "es"}
		req, err := http.NewRequest("GET", "https://a.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp := answer(403, body, 0)
		resp.Header["X-Amzn-Errortype"] = []string{header}
		s.Observe(t.Context(), req, resp)
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
			t.Errorf("%q became %q", body, got)
		}
	})
}
