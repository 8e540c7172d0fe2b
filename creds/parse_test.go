package creds

import (
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

func TestParseProfile(t *testing.T) {
	const file = "\ufeff; comment\r\n[default]\r\naws_access_key_id = D\r\naws_secret_access_key=ds\r\n" +
		"[profile  work ] # mine\naws_access_key_id=W\n  nested = 1\n\taws_access_key_id = N\nAWS_Secret_Access_Key = a=b#c ; rest\n" +
		"aws_session_token\n[default]\naws_access_key_id = later\n[empty]\n"
	for profile, want := range map[string][2]string{
		"": {"later", "ds"}, "default": {"later", "ds"}, "work": {"W", "a=b#c"}, "empty": {"", ""},
	} {
		c, err := parseKeys([]byte(file), profile)
		if err != nil || c.AccessKeyID != want[0] || c.SecretAccessKey != want[1] || c.SessionToken != "" {
			t.Errorf("%q: %q %q, %v; want %q", profile, c.AccessKeyID, c.SecretAccessKey, err, want)
		}
	}
	if _, err := parseKeys([]byte(file), "nobody"); err == nil {
		t.Error("a profile that is not there")
	}
}

func TestParseProcess(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b"}`:                                          true,
		`{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b","Expiration":"2026-01-02T03:04:05+01:00"}`: true,
		`{"Version":2,"AccessKeyId":"a","SecretAccessKey":"b"}`:                                          false,
		`{"AccessKeyId":"a","SecretAccessKey":"b"}`:                                                      false,
		`{"Version":1,"Expiration":"tomorrow"}`:                                                          false,
		`{"Version":1,`:                                                                                  false,
	} {
		c, err := parseKeys([]byte(text), "")
		if (err == nil) != ok || ok && c.AccessKeyID != "a" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJWTExpiry(t *testing.T) {
	token := func(claims string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s" }
	for text, want := range map[string]int64{
		token(`{"exp":1700000000}`):         1700000000,
		token(`{"exp":1700000000.9}`):       1700000000,
		token(`{"exp":"1700000000"}`):       0,
		token(`{"exp":-1}`):                 0,
		token(`{"exp":1e300}`):              0,
		token(`{}`):                         0,
		token(`{"exp":1700000000}`) + ".x":  0,
		"opaque":                            0,
		"a.%%%.c":                           0,
		"h.eyJleHAiOjE3MDAwMDAwMDB9Cg==.s":  1700000000,
		"h.eyJleHAiOjE3MDAwMDAwMDB9Cg.s":    1700000000,
		"..":                                0,
		strings.Repeat(".", 1000):           0,
		token(`{"exp":1700000000,"exp":0}`): 0,
	} {
		got := jwtExpiry(text)
		if want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}

// A proxy may be open to the world, and no proxy reaches the link-local address of this very host.
func TestContainerGoesToNoProxyOverPlainHTTP(t *testing.T) {
	for target, want := range map[string]bool{"http://169.254.170.2/": false, "https://creds.example/": true} {
		u, err := containerEndpoint("", target)
		if err != nil {
			t.Fatal(err)
		}
		client := containerClient(u).(*awshttp.BuildableClient)
		if proxies := client.GetTransport().Proxy != nil; proxies != want {
			t.Errorf("%s: uses proxies: %v", target, proxies)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add("[default]\naws_access_key_id = K\naws_secret_access_key = SECRET\n", "default")
	f.Add(`{"Version":1,"AccessKeyId":"K","SecretAccessKey":"SECRET","Expiration":"2026-01-02T03:04:05Z"}`, "")
	f.Add("[profile a]\n[", "a")
	f.Fuzz(func(t *testing.T, text, profile string) {
		c, err := parseKeys([]byte(text), profile)
		if err != nil && c.HasKeys() {
			t.Error("keys beside an error")
		}
		if err != nil && strings.Contains(text, "SECRET") && !strings.Contains(profile, "SECRET") && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error shows the file: %v", err)
		}
	})
}

func FuzzJWTExpiry(f *testing.F) {
	f.Add("h.eyJleHAiOjE3MDAwMDAwMDB9.s")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if got := jwtExpiry(token); !got.IsZero() && got.Before(time.Unix(0, 0)) {
			t.Errorf("%v", got)
		}
	})
}

func FuzzExpirationOf(f *testing.F) {
	f.Add([]byte(`{"Code":"Success","Expiration":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"Expiration":7}`))
	f.Fuzz(func(_ *testing.T, text []byte) { expirationOf(text) })
}

// What containerEndpoint lets pass goes to an allowed host, or to a name that is resolved later, or over TLS.
func FuzzContainerEndpoint(f *testing.F) {
	for _, seed := range [][2]string{
		{"/v2/x", ""}, {"", "http://127.0.0.1/x"}, {"@evil", ""}, {"//evil/x", ""}, {"", "http://[fd00:ec2::23%25eth0]/"}, {"/\\evil", "x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, relative, full string) {
		u, err := containerEndpoint(relative, full)
		if err != nil {
			return
		}
		if relative != "" && (u.Scheme != "http" || u.Host != "169.254.170.2") {
			t.Fatalf("%q leads to %s", relative, u)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && u.Scheme == "http" && !plainAllowed(addr) {
			t.Fatalf("%q leads to %s", full, u)
		}
	})
}

func FuzzContainerToken(f *testing.F) {
	f.Add("token\n")
	f.Add("a\r\nX: y")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := containerToken(file, "")
		if err == nil && strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%q", got)
		}
	})
}
