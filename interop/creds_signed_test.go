package interop_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// signed is a service that checks the signature of every request, with code that is not the signer's, and then plays the
// test's script.
type signed struct {
	*sortietest.Upstream
	md *sortietest.Metadata

	mu       sync.Mutex
	requests []seen
	expired  map[string]bool // keys that are refused as OpenSearch refuses them
	script   func(nth int, w http.ResponseWriter, r *http.Request) bool
}

// seen is a request that arrived.
type seen struct{ key, path, body, date string }

const expiredToken = `{"message":"The security token included in the request is expired"}`

// newSigned starts the service. The script, if not nil, is asked about each request; it returns true if it has answered.
func newSigned(t *testing.T, md *sortietest.Metadata, http2 bool, script func(int, http.ResponseWriter, *http.Request) bool) *signed {
	t.Helper()
	s := &signed{md: md, script: script, expired: map[string]bool{}}
	s.Upstream = &sortietest.Upstream{TLS: http2, HTTP2: http2, Steps: []sortietest.Step{sortietest.Handle(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { s.serve(t, w, r) }))}}
	s.Start(t)
	return s
}

func (s *signed) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	if err := sortietest.CheckSigV4(r, s.md.SecretOf); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.RequestURI, err)
	}
	body, _ := io.ReadAll(r.Body)
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	s.mu.Lock()
	s.requests = append(s.requests, seen{key, r.RequestURI, string(body), r.Header.Get("X-Amz-Date")})
	nth, expired := len(s.requests), s.expired[key]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case expired:
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, expiredToken)
	case s.script != nil && s.script(nth, w, r):
	default:
		io.WriteString(w, "{}")
	}
}

func (s *signed) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.requests...)
}

func (s *signed) expire(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired[key] = true
}

// credentials15 returns a Cache in front of an emulated metadata service.
func credentials15(t *testing.T) (*creds.Cache, *sortietest.Metadata) {
	t.Helper()
	md := &sortietest.Metadata{Tokens: sortietest.TokensRequired, Answer: sortietest.KeyAnswer{Life: 15 * time.Minute}}
	md.Start(t)
	c, err := creds.New(creds.EC2Role{Endpoint: md.URL(), RequireV2: true}, creds.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, md
}

// searching returns a client whose upstream "search" is the service, signed for it.
func searching(t *testing.T, s *signed, signer client.Signer, policy client.Policy) *client.Client {
	t.Helper()
	up := client.Upstream{
		Name: "search", Hosts: []string{"search.example"}, Internal: []string{s.URL()}, Policy: policy, Signer: signer,
	}
	if s.TLS {
		up.Policy.Conns = &client.Conns{TLS: sortietest.ClientTLS()}
	}
	return newClient(t, client.Config{Upstreams: []client.Upstream{up}})
}

func post(t *testing.T, c *client.Client, body io.Reader) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://search.example/logs-*/_bulk?refresh", body)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := body.(interface{ Len() int }); ok {
		req.ContentLength = int64(n.Len())
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Idempotency-Key", "1")
	before := req.Header.Clone()
	resp, err := c.Do(req)
	if len(req.Header) != len(before) || req.URL.String() != "https://search.example/logs-*/_bulk?refresh" {
		t.Errorf("the caller's request was changed: %v %v", req.URL, req.Header)
	}
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// once is a body of known length that net/http cannot replay.
type once struct{ *strings.Reader }

// P19: a retried POST carries the whole body and a signature of its own each time.
func TestSignatureSurvivesRetries_opensearch_go202_opensearch_go1121(t *testing.T) {
	long := strings.Repeat(`{"index":{}}`+"\n", 5000)
	for name, body := range map[string]func() io.Reader{
		"with GetBody":    func() io.Reader { return strings.NewReader(long) },
		"without GetBody": func() io.Reader { return once{strings.NewReader(long)} },
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				cache, md := credentials15(t)
				s := newSigned(t, md, http2, func(nth int, w http.ResponseWriter, _ *http.Request) bool {
					if nth == 1 {
						w.WriteHeader(http.StatusServiceUnavailable)
					}
					return nth == 1
				})
				signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
				c := searching(t, s, signer, client.Policy{Retry: &client.Retry{}})
				resp, _, err := post(t, c, body())
				if err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
				all := s.all()
				if len(all) != 2 || all[0].body != long || all[1].body != long || all[1].path != "/logs-*/_bulk?refresh=" {
					t.Errorf("%d requests, with %d and %d bytes to %s", len(all), len(all[0].body), len(all[len(all)-1].body), all[0].path)
				}
			})
		}
	}
}

// P19, with a first attempt that is given up on HTTP/2 while it runs.
func TestSignatureSurvivesACancelledAttempt(t *testing.T) {
	cache, md := credentials15(t)
	s := newSigned(t, md, true, func(nth int, _ http.ResponseWriter, r *http.Request) bool {
		if nth == 1 {
			<-r.Context().Done()
		}
		return nth == 1
	})
	signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
	c := searching(t, s, signer, client.Policy{
		Timeout: &client.Timeout{Attempt: 100 * time.Millisecond, Total: 20 * time.Second}, Retry: &client.Retry{},
	})
	resp, _, err := post(t, c, strings.NewReader("{}\n"))
	if err != nil || resp.StatusCode != 200 || len(s.all()) != 2 {
		t.Fatal(resp, err, s.all())
	}
}

// E14: two attempts of one call are under way at once, each with its own signature.
func TestHedgedAttemptsAreSignedApart(t *testing.T) {
	cache, md := credentials15(t)
	var hang atomic.Bool
	script := func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		if !hang.CompareAndSwap(true, false) {
			return false
		}
		<-r.Context().Done()
		return true
	}
	one, other := newSigned(t, md, false, script), newSigned(t, md, false, script)
	c := newClient(t, client.Config{Upstreams: []client.Upstream{{
		Name: "search", Hosts: []string{"search.example"}, Internal: []string{one.URL(), other.URL()},
		Policy: client.Policy{
			Timeout: &client.Timeout{Total: 20 * time.Second},
			Hedge:   &client.Hedge{Delay: 20 * time.Millisecond, ExtraLoad: 1}, Balance: &client.Balance{},
		},
		Signer: &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"},
	}}})
	for i := range 20 {
		slow := i%10 == 9 // hedges have to be earned by calls
		hang.Store(slow)
		resp, _, err := post(t, c, strings.NewReader("{}\n"))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(i, resp, err)
		}
		if won := client.ReportOf(resp).HedgeWon; won != slow {
			t.Errorf("call %d: the hedge won: %v", i, won)
		}
	}
}

// A rejected key is replaced, and the call made once more, without any retry policy. The body is that of OpenSearch.
func TestRejectedKeyIsReplacedWithinTheCall_botocore3777(t *testing.T) {
	cache, md := credentials15(t)
	s := newSigned(t, md, false, nil)
	signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
	c := searching(t, s, signer, client.Policy{})
	if resp, _, err := post(t, c, strings.NewReader("1")); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	s.expire("SORTIETEST0001")
	if resp, _, err := post(t, c, strings.NewReader("2")); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	all := s.all()
	if len(all) != 3 || all[1].key != "SORTIETEST0001" || all[2].key != "SORTIETEST0002" || all[2].body != "2" {
		t.Errorf("seen %+v", all)
	}
	if st := cache.Stats(); st.Rejections != 1 || st.Forced != 1 || signer.Stats().Again != 1 {
		t.Errorf("%d rejections, %d forced, %+v", st.Rejections, st.Forced, signer.Stats())
	}

	// The metadata service is down: the answer stands, with its body, and the next call is not slowed.
	md.Fail(sortietest.OnAll, sortietest.MetadataFault{Status: 500})
	s.expire("SORTIETEST0002")
	resp, text, err := post(t, c, strings.NewReader("3"))
	if err != nil || resp.StatusCode != 403 || text != expiredToken {
		t.Errorf("%v, %q, %v", resp, text, err)
	}
}

// P17: a service whose clock is off is asked once more with its date, then rightly at once.
func TestClockOfTheServiceIsFollowed_aws_sdk_go_v23187(t *testing.T) {
	cache, md := credentials15(t)
	const ahead = 10 * time.Minute
	s := newSigned(t, md, false, func(_ int, w http.ResponseWriter, r *http.Request) bool {
		now := time.Now().Add(ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		date, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if now.Sub(date).Abs() < 5*time.Minute {
			return false
		}
		w.Header().Set("X-Amzn-Errortype", "RequestTimeTooSkewed")
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}
	c := searching(t, s, signer, client.Policy{})
	for i, want := range []int{2, 3} {
		if resp, _, err := post(t, c, strings.NewReader("x")); err != nil || resp.StatusCode != 200 || len(s.all()) != want {
			t.Fatalf("call %d: %v, %v, %d requests", i, resp, err, len(s.all()))
		}
	}
	if off := signer.Stats().Offset; (off - ahead).Abs() > 2*time.Second {
		t.Errorf("offset %v", off)
	}
}

// E12: refused before anything is sent, and the reason reaches the caller.
func TestQueryThatWouldBeDroppedIsNotSent(t *testing.T) {
	cache, md := credentials15(t)
	s := newSigned(t, md, false, nil)
	c := searching(t, s, &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"}, client.Policy{Retry: &client.Retry{}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://search.example/_search?a=1;b=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(req); err == nil || !strings.Contains(err.Error(), "query") || len(s.all()) != 0 {
		t.Errorf("%v, %v, %d requests", resp, err, len(s.all()))
	}
}

func TestClientReportsASignersMistakes(t *testing.T) {
	_, err := client.New(client.Config{Upstreams: []client.Upstream{{
		Name: "search", Hosts: []string{"search.example"}, Signer: &creds.SigV4{Service: "es"},
	}}})
	for _, want := range []string{"Provider", "Region"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
}
