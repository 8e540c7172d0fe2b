package sortietest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

const (
	tokenPath = "/latest/api/token"
	rolesPath = "/latest/meta-data/iam/security-credentials/"
)

// metadataStory runs in virtual time with a Metadata on a network in memory, at 169.254.169.254:80.
func metadataStory(t *testing.T, m *sortietest.Metadata, tell func(t *testing.T, ask asker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := sortietest.NewNetwork()
		l, err := n.Listen("169.254.169.254:80")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Serve(l); err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{DialContext: n.DialContext}
		t.Cleanup(func() {
			m.Close()
			tr.CloseIdleConnections()
		})
		tell(t, asker{t, m, &http.Client{Transport: tr}})
	})
}

type asker struct {
	t *testing.T
	m *sortietest.Metadata
	c *http.Client
}

// do returns status and body; status 0 is no answer, negative a body that breaks off.
func (a asker) do(method, path, body string, header ...string) (int, string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.m.URL()+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return -resp.StatusCode, string(text)
	}
	return resp.StatusCode, string(text)
}

func (a asker) want(status int, method, path string, header ...string) string {
	a.t.Helper()
	got, text := a.do(method, path, "", header...)
	if got != status {
		a.t.Errorf("%s %s: status %d (%s), want %d", method, path, got, text, status)
	}
	return text
}

// key returns the access key that the instance's endpoint gives for role "sortie", and its expiry.
func (a asker) key() (string, time.Time) {
	a.t.Helper()
	var k struct {
		AccessKeyID string    `json:"AccessKeyId"`
		Expiration  time.Time `json:"Expiration"`
	}
	if err := json.Unmarshal([]byte(a.want(200, "GET", rolesPath+"sortie")), &k); err != nil {
		a.t.Error(err)
	}
	return k.AccessKeyID, k.Expiration
}

func TestMetadataTokens(t *testing.T) {
	const ttl = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	m := &sortietest.Metadata{Tokens: sortietest.TokensRequired}
	metadataStory(t, m, func(_ *testing.T, ask asker) {
		ask.want(401, "GET", rolesPath)
		ask.want(401, "GET", rolesPath, "X-Aws-Ec2-Metadata-Token", "made-up")
		for _, bad := range []string{"", "0", "21601", "x"} {
			ask.want(400, "PUT", tokenPath, ttl, bad)
		}
		ask.want(403, "PUT", tokenPath, ttl, "60", "X-Forwarded-For", "10.0.0.1")
		token := ask.want(200, "PUT", tokenPath, ttl, "60")
		ask.want(200, "GET", rolesPath, "X-Aws-Ec2-Metadata-Token", token)
		time.Sleep(time.Minute)
		ask.want(401, "GET", rolesPath, "X-Aws-Ec2-Metadata-Token", token)
		token = ask.want(200, "PUT", tokenPath, ttl, "21600")
		m.RevokeTokens()
		ask.want(401, "GET", rolesPath, "X-Aws-Ec2-Metadata-Token", token)
	})
	m = &sortietest.Metadata{Tokens: sortietest.TokensOff}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		ask.want(404, "PUT", tokenPath, ttl, "60")
		ask.want(200, "GET", rolesPath)
		if n := m.Stats().V1Reads; n != 1 {
			t.Errorf("%d reads without a token", n)
		}
	})
}

func TestMetadataRoles(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		if got := ask.want(200, "GET", rolesPath); got != "sortie" {
			t.Errorf("roles %q", got)
		}
		m.SetRoles("web", "worker")
		if got := ask.want(200, "GET", strings.TrimSuffix(rolesPath, "/")); got != "web\nworker" {
			t.Errorf("roles %q", got)
		}
		ask.want(200, "GET", rolesPath+"worker")
		ask.want(404, "GET", rolesPath+"sortie")
		m.SetRoles()
		ask.want(404, "GET", rolesPath)
		ask.want(404, "GET", "/latest/meta-data/hostname")
	})
}

func TestMetadataBrokers(t *testing.T) {
	for name, c := range map[string]struct {
		broker sortietest.KeyBroker
		step   time.Duration
		want   []int         // numbers of the keys, a step apart
		left   time.Duration // of the last
	}{
		"fresh":  {sortietest.FreshKeys(), time.Minute, []int{1, 2, 3}, time.Hour},
		"cached": {sortietest.CachedKeys(15*time.Minute, 10*time.Minute), 5 * time.Minute, []int{1, 1, 2, 2}, 10 * time.Minute},
		"until":  {sortietest.KeysUntil(5 * time.Minute), 11 * time.Minute, []int{1, 1, 1, 1, 1, 2}, time.Hour},
		"same":   {sortietest.SameKey(), 40 * time.Minute, []int{1, 1, 1}, -20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			metadataStory(t, &sortietest.Metadata{Broker: c.broker}, func(t *testing.T, ask asker) {
				for i, want := range c.want {
					if i > 0 {
						time.Sleep(c.step)
					}
					key, expires := ask.key()
					if key != fmt.Sprintf("SORTIETEST%04d", want) {
						t.Errorf("answer %d: %s, want number %d", i, key, want)
					}
					if left := time.Until(expires); i == len(c.want)-1 && left != c.left {
						t.Errorf("%v left, want %v", left, c.left)
					}
				}
			})
		})
	}
}

func TestMetadataPush(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		m.Push(sortietest.Keys{AccessKeyID: "MINE", SecretAccessKey: "s"})
		for range 2 {
			if k, _ := ask.key(); k != "MINE" {
				t.Errorf("key %s", k)
			}
		}
		m.SetBroker(sortietest.FreshKeys())
		if k, _ := ask.key(); k != "SORTIETEST0001" || m.KeysIssued() != 1 {
			t.Errorf("key %s, %d issued", k, m.KeysIssued())
		}
		for key, want := range map[string]string{
			"MINE": "s", "SORTIETEST0001": "sortietest-secret-0001", "SORTIETEST0002": "", "SORTIETEST1": "", "x": "",
		} {
			if got := m.SecretOf(key); got != want {
				t.Errorf("SecretOf(%s) = %q", key, got)
			}
		}
	})
}

func TestMetadataAnswers(t *testing.T) {
	m := &sortietest.Metadata{Answer: sortietest.KeyAnswer{Life: -time.Minute}}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		if _, expires := ask.key(); time.Until(expires) != -time.Minute {
			t.Errorf("%v left", time.Until(expires))
		}
		for want, a := range map[string]sortietest.KeyAnswer{
			`"AccessKeyId":"",`:       {NoKeys: true},
			`{"Code":"Failed",`:       {Code: "Failed"},
			`"Expiration":"tomorrow"`: {BadDate: true},
		} {
			m.SetAnswer(a)
			if text := ask.want(200, "GET", rolesPath+"sortie"); !strings.Contains(text, want) {
				t.Errorf("%+v: %s", a, text)
			}
		}
		m.SetAnswer(sortietest.KeyAnswer{BadJSON: true})
		if text := ask.want(200, "GET", rolesPath+"sortie"); json.Valid([]byte(text)) {
			t.Errorf("valid: %s", text)
		}
		m.SetAnswer(sortietest.KeyAnswer{Truncated: true})
		ask.want(-200, "GET", rolesPath+"sortie")
	})
}

func TestMetadataContainer(t *testing.T) {
	m := &sortietest.Metadata{ContainerPath: "/creds", ContainerToken: "let me in"}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		ask.want(401, "GET", "/creds")
		ask.want(401, "GET", "/creds", "Authorization", "let me in please")
		ask.want(200, "GET", "/creds", "Authorization", "let me in")
		seen := m.Seen()
		if last := seen[len(seen)-1]; last.Token != "let me in" || last.Key != "SORTIETEST0001" || last.Status != 200 {
			t.Errorf("seen %+v", last)
		}
		if m.ContainerURL() != "http://169.254.169.254:80/creds" {
			t.Errorf("URL %s", m.ContainerURL())
		}
	})
}

func TestMetadataSTS(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		form := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "WebIdentityToken": {"jwt"}, "RoleSessionName": {"me"}}
		post := func() (int, string) {
			return ask.do("POST", "/", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		}
		status, text := post()
		if status != 200 || !strings.Contains(text, "<AccessKeyId>SORTIETEST0001</AccessKeyId>") || m.Seen()[0].Token != "jwt" {
			t.Errorf("%d %s", status, text)
		}
		m.SetSTSError("AccessDenied")
		if status, text = post(); status != 403 || !strings.Contains(text, "<Code>AccessDenied</Code>") {
			t.Errorf("%d %s", status, text)
		}
		m.SetSTSError("")
		form.Set("Action", "AssumeRole")
		if status, text = post(); status != 400 || !strings.Contains(text, "InvalidAction") {
			t.Errorf("%d %s", status, text)
		}
	})
}

func TestMetadataFaults(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		timed := func() time.Duration {
			start := time.Now()
			ask.key()
			return time.Since(start)
		}
		restore := m.Fail(sortietest.OnCreds, sortietest.MetadataFault{Delay: 43 * time.Millisecond})
		if took := timed(); took != 43*time.Millisecond {
			t.Errorf("took %v", took)
		}
		m.FailNext(2, sortietest.OnCreds|sortietest.OnRoles, sortietest.MetadataFault{Status: 429, RetryAfter: 3 * time.Second})
		ask.want(429, "GET", rolesPath+"sortie")
		ask.want(429, "GET", rolesPath)
		restore()
		restore()
		if took := timed(); took != 0 {
			t.Errorf("took %v after restore", took)
		}
		m.FailNext(1, sortietest.OnAll, sortietest.MetadataFault{Reset: true})
		if status, text := ask.do("PUT", tokenPath, ""); status != 0 || !strings.Contains(text, "reset") {
			t.Errorf("%d %s, want a reset", status, text)
		}
		m.FailNext(1, sortietest.OnCreds, sortietest.MetadataFault{Truncate: true})
		ask.want(-200, "GET", rolesPath+"sortie")

		restore = m.Fail(sortietest.OnCreds, sortietest.MetadataFault{Hang: true})
		time.AfterFunc(time.Minute, restore)
		if took := timed(); took != time.Minute {
			t.Errorf("hung for %v", took)
		}
		ask.want(404, "GET", "/elsewhere")
		s := m.Stats()
		if s.Requests[sortietest.OnCreds] != 5 || s.Statuses[sortietest.OnCreds][429] != 1 || s.Statuses[sortietest.OnToken][0] != 1 ||
			s.Total() != 8 || s.InFlight != 0 || s.MaxInFlight != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMetadataOutage(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(_ *testing.T, ask asker) {
		m.Outage(time.Minute, 4*time.Minute, sortietest.OnAll, sortietest.MetadataFault{Status: 503})
		for minute := range 7 {
			want := 200
			if minute >= 1 && minute < 5 {
				want = 503
			}
			ask.want(want, "GET", rolesPath)
			time.Sleep(time.Minute)
		}
	})
}

func TestMetadataCloseLetsHungRequestsGo(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(_ *testing.T, ask asker) {
		m.Fail(sortietest.OnAll, sortietest.MetadataFault{Hang: true})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { ask.do("GET", rolesPath, "") })
		}
		synctest.Wait()
		m.Close()
		all.Wait()
	})
}

func TestMetadataOfAClientThatLeaves(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		m.Fail(sortietest.OnAll, sortietest.MetadataFault{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", m.URL()+rolesPath, nil)
		if _, err := ask.c.Do(req); err == nil {
			t.Error("an answer")
		}
		synctest.Wait()
		if s := m.Stats(); s.InFlight != 0 || s.Statuses[sortietest.OnRoles][0] != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMetadataKeepsTheLatestRequests(t *testing.T) {
	m := &sortietest.Metadata{}
	metadataStory(t, m, func(t *testing.T, ask asker) {
		for range 300 {
			ask.key()
		}
		seen := m.Seen()
		if len(seen) != 256 || seen[255].Key != "SORTIETEST0300" || seen[0].Key != "SORTIETEST0045" {
			t.Errorf("%d requests, %+v to %+v", len(seen), seen[0], seen[len(seen)-1])
		}
	})
}

// The emulator of amazon-ec2-metadata-mock ends in concurrent map writes here.
func TestMetadataTokensAtOnce(t *testing.T) {
	m := &sortietest.Metadata{Tokens: sortietest.TokensRequired}
	var tokens sync.Map
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 500 {
				r := httptest.NewRequest("PUT", tokenPath, nil)
				r.Header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				if _, twice := tokens.LoadOrStore(w.Body.String(), true); twice || w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	all.Wait()
}

func TestMetadataEnvironment(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_PROFILE", "mine")
	m := sortietest.NewMetadata(t)
	m.Setenv(t)
	if os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT") != m.URL() || os.Getenv("AWS_EC2_METADATA_DISABLED") != "" ||
		os.Getenv("AWS_PROFILE") != "" || os.Getenv("AWS_CONFIG_FILE") != os.DevNull {
		t.Errorf("environment %q", os.Environ())
	}
	c := &sortietest.Metadata{Container: true, ContainerToken: "secret"}
	c.Start(t)
	for _, want := range []string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + c.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN=secret",
		"AWS_ENDPOINT_URL_STS=" + c.URL(),
	} {
		if !slices.Contains(c.Env(), want) {
			t.Errorf("%s is missing in %q", want, c.Env())
		}
	}
	if status, _ := (asker{t, c, http.DefaultClient}).do("GET", "/v2/credentials/sortie", "", "Authorization", "secret"); status != 200 {
		t.Errorf("status %d", status)
	}
	c.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Serve(l); err == nil {
		t.Error("Serve after Close")
	}
}

func TestMetadataPlaceNames(t *testing.T) {
	for place, want := range map[sortietest.MetadataPlace]string{
		sortietest.OnToken: "token", sortietest.OnRoles | sortietest.OnSTS: "roles|sts", 0: "other",
	} {
		if got := place.String(); got != want {
			t.Errorf("%d: %q, want %q", place, got, want)
		}
	}
}
