package creds_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// The SDK's own clients of the metadata service, the container endpoint and STS run against the emulator here.

// memory returns an HTTP client of a network in memory, on which md listens at the addresses.
func memory(t *testing.T, md *sortietest.Metadata, addresses ...string) *http.Client {
	t.Helper()
	n := sortietest.NewNetwork()
	for _, a := range addresses {
		l, err := n.Listen(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := md.Serve(l); err != nil {
			t.Fatal(err)
		}
	}
	tr := &http.Transport{DialContext: n.DialContext}
	t.Cleanup(func() {
		md.Close()
		tr.CloseIdleConnections()
	})
	return &http.Client{Transport: tr}
}

func TestEC2RoleShowsTheTrueExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{
			Tokens: sortietest.TokensRequired, Answer: sortietest.KeyAnswer{Life: 6 * time.Hour},
			Broker: sortietest.KeysUntil(5 * time.Minute),
		}
		client := memory(t, md, "169.254.169.254:80")
		c := newCache(t, creds.EC2Role{RequireV2: true, HTTPClient: client}, creds.Config{})
		start := time.Now()
		wantKey(t, c, "SORTIETEST0001")
		if e := c.Peek().Expires; !e.Equal(start.Add(6 * time.Hour)) {
			t.Errorf("expires %v after the start, want 6h", e.Sub(start))
		}
		time.Sleep(12 * time.Hour)
		if k, wait := read(t, c); k != "SORTIETEST0003" || wait != 0 {
			t.Errorf("read %s after %v", k, wait)
		}
		s := c.Stats()
		if s.Name != "ec2-role" || s.Total() > 70 || md.Stats().V1Reads != 0 {
			t.Errorf("%s: %d fetches, %d reads without token", s.Name, s.Total(), md.Stats().V1Reads)
		}
	})
}

// Field report 5: fifteen-minute credentials, a window of fifteen minutes, two metadata calls for each request.
func TestFieldReport5_MetadataCallsPerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{Broker: sortietest.CachedKeys(15*time.Minute, 10*time.Minute)}
		client := memory(t, md, "169.254.169.254:80")
		md.Fail(sortietest.OnAll, sortietest.MetadataFault{Delay: 43 * time.Millisecond})
		c := newCache(t, creds.EC2Role{HTTPClient: client}, creds.Config{Soft: 15 * time.Minute})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		const requests = 3600
		for range requests {
			if _, wait := read(t, c); wait != 0 {
				t.Fatalf("a request waited %v for its credentials", wait)
			}
			time.Sleep(time.Second)
		}
		if n := md.Stats().Total(); n > 200 {
			t.Errorf("%d metadata calls for %d requests", n, requests)
		}
	})
}

func TestEC2RoleSurvivesAnOutageByStaticStability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{Answer: sortietest.KeyAnswer{Life: 15 * time.Minute}}
		client := memory(t, md, "169.254.169.254:80")
		c := newCache(t, creds.EC2Role{HTTPClient: client}, creds.Config{})
		read(t, c)
		md.Outage(0, time.Hour, sortietest.OnAll, sortietest.MetadataFault{Status: 500})
		for time.Until(c.Peek().Expires) > -30*time.Minute {
			read(t, c)
			time.Sleep(10 * time.Second)
		}
		if s := c.Stats(); !s.Stale || s.StaleServed == 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(30 * time.Minute)
		if _, wait := read(t, c); wait != 0 || c.Peek().Stale {
			t.Errorf("waited %v; %v", wait, c.Peek())
		}
	})
}

func TestEC2RoleFollowsARenamedRoleAndRevokedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{Tokens: sortietest.TokensRequired}
		client := memory(t, md, "169.254.169.254:80")
		c := newCache(t, creds.EC2Role{RequireV2: true, HTTPClient: client}, creds.Config{})
		wantKey(t, c, "SORTIETEST0001")
		md.SetRoles("other")
		md.RevokeTokens()
		c.InvalidateIf("SORTIETEST0001", "test")
		if k, _ := read(t, c); k != "SORTIETEST0002" {
			t.Errorf("read %s", k)
		}
	})
}

func TestEC2RoleRequiresV2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{Tokens: sortietest.TokensOff}
		client := memory(t, md, "169.254.169.254:80")
		if _, err := (creds.EC2Role{RequireV2: true, HTTPClient: client}).Retrieve(t.Context()); err == nil {
			t.Error("v1 was used")
		}
		if _, err := (creds.EC2Role{HTTPClient: client}).Retrieve(t.Context()); err != nil {
			t.Errorf("without RequireV2: %v", err)
		}
	})
}

func TestBadAnswersOfTheMetadataService_aws_sdk_js2440(t *testing.T) {
	for name, answer := range map[string]sortietest.KeyAnswer{
		"expired": {Life: -time.Minute}, "code": {Code: "Failed"}, "no keys": {NoKeys: true},
		"bad date": {BadDate: true}, "bad JSON": {BadJSON: true}, "truncated": {Truncated: true},
	} {
		for _, container := range []bool{false, true} {
			if container && name == "code" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				md := &sortietest.Metadata{Container: container, Answer: sortietest.KeyAnswer{Life: 15 * time.Minute}}
				md.Start(t)
				md.Setenv(t)
				var src aws.CredentialsProvider = creds.EC2Role{}
				if container {
					src = creds.Container{}
				}
				c := newCache(t, src, creds.Config{})
				k, _ := read(t, c)
				md.SetAnswer(answer)
				c.InvalidateIf(k, "test")
				if again, _ := read(t, c); again != k || !c.Peek().Rejected || c.Stats().LastError == nil {
					t.Errorf("read %s, LastError %v", again, c.Stats().LastError)
				}
			})
		}
	}
}

func TestContainerOnSockets(t *testing.T) {
	md := &sortietest.Metadata{Container: true, ContainerToken: "let me in"}
	md.Start(t)
	md.Setenv(t)
	c := newCache(t, creds.Container{}, creds.Config{})
	if k, _ := read(t, c); k != "SORTIETEST0001" || c.Stats().Name != "container" {
		t.Errorf("read %s of %s", k, c.Stats().Name)
	}
	if s := c.ProviderSources(); len(s) != 1 || s[0] != aws.CredentialSourceHTTP {
		t.Errorf("sources %v", s)
	}

	// The token file comes first; its trailing newline is no part of the token; it is read for each fetch.
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "let me in\n")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "wrong")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file)
	c = newCache(t, creds.Container{}, creds.Config{})
	read(t, c)
	write(t, file, "let\nme in")
	if _, err := (creds.Container{}).Retrieve(t.Context()); err == nil {
		t.Error("a token with a line break in it was sent")
	}
}

func TestContainerRelativeURIComesFirst(t *testing.T) {
	md := &sortietest.Metadata{ContainerPath: "/v2/mine"}
	client := memory(t, md, "169.254.170.2:80")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/mine")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://elsewhere.example/")
	if v, err := (creds.Container{HTTPClient: client}).Retrieve(t.Context()); err != nil || v.AccessKeyID != "SORTIETEST0001" {
		t.Errorf("%s, %v", v.AccessKeyID, err)
	}
}

// E17: where the container endpoint may be.
func TestContainerEndpoints(t *testing.T) {
	for uri, ok := range map[string]bool{
		"http://10.0.0.1/":               false,
		"http://169.254.169.254/":        false,
		"http://[fd00:ec2::24]/":         false,
		"http://127.0.0.1:1/":            true,
		"http://127.99.0.1/":             true,
		"http://[::1]/":                  true,
		"http://[::ffff:169.254.170.2]/": true,
		"http://169.254.170.2/x":         true,
		"http://169.254.170.23/x":        true,
		"http://[fd00:ec2::23]/x":        true,
		"https://10.0.0.1/":              true,
		"https://creds.example/":         true,
		"ftp://127.0.0.1/":               false,
		"http:///nothing":                false,
		"http://%zz/":                    false,
		"":                               false,
	} {
		t.Setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "")
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)
		if _, err := creds.New(creds.Container{}, creds.Config{}); (err == nil) != ok {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, relative := range []string{"@evil.example/", "x"} {
		t.Setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", relative)
		if _, err := creds.New(creds.Container{}, creds.Config{}); err == nil {
			t.Errorf("%q was accepted", relative)
		}
	}
}

func TestContainerNameMustResolveToAllowedAddresses(t *testing.T) {
	md := &sortietest.Metadata{Container: true}
	md.Start(t)
	md.Setenv(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(md.URL(), "http://"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:"+port+"/v2/credentials/sortie")
	if _, err := (creds.Container{}).Retrieve(t.Context()); err != nil {
		t.Errorf("localhost: %v", err)
	}
}

func TestContainerFollowsNoRedirectToOtherHosts(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.Status(307).With("Location", "http://192.0.2.1/"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", up.URL())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := (creds.Container{}).Retrieve(ctx)
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "plain http") {
		t.Errorf("error %v, want a refusal", err)
	}
}

func TestWebIdentityReadsItsTokenForEachFetch_aws_sdk_go_v22135(t *testing.T) {
	md := sortietest.NewMetadata(t)
	md.Setenv(t)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "first\n")
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/sortie")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	t.Setenv("AWS_REGION", "eu-west-1")
	c := newCache(t, creds.WebIdentity{SessionName: "me"}, creds.Config{})
	k, _ := read(t, c)
	write(t, file, "second")
	c.InvalidateIf(k, "test")
	if again, _ := read(t, c); again != "SORTIETEST0002" {
		t.Errorf("read %s", again)
	}
	seen := md.Seen()
	if len(seen) != 2 || seen[0].Token != "first" || seen[1].Token != "second" {
		t.Errorf("seen %+v", seen)
	}
}

func TestWebIdentityIsRefreshedThoughItsFileStays(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_STS", "http://sts.example")
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "jwt")
	synctest.Test(t, func(t *testing.T) {
		md := &sortietest.Metadata{}
		client := memory(t, md, "sts.example:80")
		c := newCache(t, creds.WebIdentity{RoleARN: "arn", TokenFile: file, Region: "us-east-1", HTTPClient: client}, creds.Config{})
		wantKey(t, c, "SORTIETEST0001")
		time.Sleep(45 * time.Minute)
		wantKey(t, c, "SORTIETEST0002")
	})
}

func TestWebIdentityRefusals(t *testing.T) {
	md := sortietest.NewMetadata(t)
	md.Setenv(t)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "jwt")
	for _, code := range []string{"AccessDenied", "InvalidIdentityToken", "ExpiredTokenException"} {
		md.SetSTSError(code)
		c := newCache(t, creds.WebIdentity{RoleARN: "arn", TokenFile: file, Region: "us-east-1"}, creds.Config{})
		err := c.Start(t.Context())
		if _, ok := errors.AsType[*creds.FetchError](err); err == nil || ok || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v, want the error itself", code, err)
		}
	}
}

func TestPresetsReportWhatIsMissing(t *testing.T) {
	for _, name := range []string{"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	_, err := creds.New(creds.WebIdentity{}, creds.Config{Soft: -1})
	for _, want := range []string{"RoleARN", "TokenFile", "Region", "Config.Soft"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
	_, err = creds.New(creds.File{Poll: -1}, creds.Config{})
	for _, want := range []string{"File.Path", "File.Poll"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
}

func TestPresetsPassTheSuite(t *testing.T) {
	md := &sortietest.Metadata{Container: true}
	md.Start(t)
	md.Setenv(t)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", md.URL())
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "jwt")
	write(t, filepath.Join(dir, "creds"), "[default]\naws_access_key_id = K\naws_secret_access_key = S\n")
	for _, src := range []aws.CredentialsProvider{
		creds.EC2Role{}, creds.Container{},
		creds.WebIdentity{RoleARN: "arn", TokenFile: filepath.Join(dir, "token"), Region: "us-east-1"},
		creds.File{Path: filepath.Join(dir, "creds")},
		newCache(t, creds.Container{}, creds.Config{}),
	} {
		sortietest.CheckSource(t.Context(), t, func(ctx context.Context) (string, time.Time, error) {
			c, err := src.Retrieve(ctx)
			return c.AccessKeyID, c.Expires, err
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
