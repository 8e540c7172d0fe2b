package metrics_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/sortie-go/sortie/metrics"
)

// An opaque URL holds host, path and query in one piece, and is sent as it is.
func TestRedactOpaqueURL(t *testing.T) {
	for opaque, want := range map[string]string{
		"//h/%2Fa?sig=abc&color=blue":      "https://h/%2Fa?sig=REDACTED&color=blue",
		"//h/a?x=1;X-Amz-Signature=0f?sig": "https://h/a?x=1;X-Amz-Signature=REDACTED",
		"//user:pass@h/a?color=blue":       "https:REDACTED?color=blue",
		"//h/a?mail=me@example.com":        "https://h/a?mail=me@example.com",
		"//h/a?":                           "https://h/a?",
		"//h/a":                            "https://h/a",
	} {
		if got := metrics.RedactURL(&url.URL{Scheme: "https", Opaque: opaque}); got != want {
			t.Errorf("%s:\n got %s\nwant %s", opaque, got, want)
		}
	}
	both := &url.URL{Scheme: "https", Opaque: "//h/a?sig=abc", RawQuery: "sig=def"}
	if got, want := metrics.RedactURL(both), "https://h/a?sig=REDACTED?sig=REDACTED"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h/p?color=blue":                                                        "https://h/p?color=blue",
		"https://user:pass@h/p":                                                         "https://REDACTED:REDACTED@h/p",
		"https://user@h/p?sig=abc&color=blue":                                           "https://REDACTED:REDACTED@h/p?sig=REDACTED&color=blue",
		"https://h/?X-Amz-Signature=0f&X-Amz-Date=20261201":                             "https://h/?X-Amz-Signature=REDACTED&X-Amz-Date=20261201",
		"https://h/?x-amz-security-token=a%2Fb":                                         "https://h/?x-amz-security-token=REDACTED",
		"https://h/?X-Amz-Credential=a&AWSAccessKeyId=b&Signature=c&X-Goog-Signature=d": "https://h/?X-Amz-Credential=REDACTED&AWSAccessKeyId=REDACTED&Signature=REDACTED&X-Goog-Signature=REDACTED",
		"https://h/?s%69g=abc":                                                          "https://h/?s%69g=REDACTED", // as a server reads it
		"https://h/?a=1;sig=abc;b=2":                                                    "https://h/?a=1;sig=REDACTED;b=2",
		"https://h/?%zz=abc&b=%zz":                                                      "https://h/?%zz=REDACTED&b=%zz", // a name that cannot be read
		"https://h/?sig&sig=&=x&design=y":                                               "https://h/?sig&sig=REDACTED&=x&design=y",
		"https://h/?a=1&sig=x#frag":                                                     "https://h/?a=1&sig=REDACTED#frag",
		"http:user:pass@h/p":                                                            "http:REDACTED",
		"https://h":                                                                     "https://h",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		before := *u
		if got := metrics.RedactURL(u); got != want {
			t.Errorf("%s:\n got %s\nwant %s", raw, got, want)
		}
		if *u != before {
			t.Errorf("%s: the URL was changed", raw)
		}
	}
	if got := metrics.RedactURL(nil); got != "" {
		t.Error(got)
	}
}

// Whatever surrounds it, a secret in one of the places for secrets does not come out, also not of an opaque URL, and doing it
// twice changes nothing.
func FuzzRedactURL(f *testing.F) {
	f.Add("https://h/p", "a=1", "b=2")
	f.Add("http://user:pass@h", "%zz", ";;&&")
	f.Add("https://h/?x", "sig", "=")
	f.Add("http:opaque@", "a=b;c", "#")
	f.Add("http:opaque?x=1", "/p?sig=1", "?")
	f.Fuzz(func(t *testing.T, base, before, after string) {
		const secret = "s3cr3t-8841"
		if strings.Contains(base+before+after, secret) || strings.Contains(base, "#") {
			return
		}
		u, err := url.Parse(base)
		if err != nil {
			return
		}
		query := before + "&X-Amz-Signature=" + secret + "&" + after + "&sIg=" + secret
		u.User, u.RawQuery = url.UserPassword(secret, secret), query
		for _, u := range []*url.URL{
			u,
			{Scheme: u.Scheme, Opaque: u.Opaque + "?" + query},
			{Scheme: u.Scheme, Opaque: "//" + secret + ":" + secret + "@" + u.Host + "/" + before + "?" + query},
			{Scheme: u.Scheme, Opaque: "//" + u.Host + "/?" + query},
		} {
			got := metrics.RedactURL(u)
			if strings.Contains(got, secret) {
				t.Fatalf("%q", got)
			}
			again, err := url.Parse(got)
			if err != nil || u.Opaque == "" && (again.Host != u.Host || again.Path != u.Path) {
				continue // a host, path or opaque part that String does not write as Parse would read it
			}
			if plain, twice := again.String(), metrics.RedactURL(again); twice != plain {
				t.Fatalf("%q becomes %q", plain, twice)
			}
		}
	})
}
