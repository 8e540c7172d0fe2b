package interop_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// A service client of the SDK over client.Client, which signs in its place.
func TestServiceClientOfTheSDKSignedBySortie(t *testing.T) {
	cache, md := credentials15(t)
	s := newSigned(t, md, false, func(nth int, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/xml")
		switch {
		case nth == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Query().Has("list-type"):
			io.WriteString(w, "<ListBucketResult><KeyCount>1</KeyCount><Contents><Key>a</Key></Contents></ListBucketResult>")
		}
		return true
	})
	signer := &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "s3"}
	c := searching(t, s, signer, client.Policy{Retry: &client.Retry{}})
	api := s3.New(s3.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("https://search.example"), UsePathStyle: true,
		Credentials: aws.AnonymousCredentials{}, HTTPClient: c, Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
	const body = "what is kept"
	_, err := api.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String("a dir/ü*(1)//x,y.txt"), Body: strings.NewReader(body),
		Metadata: map[string]string{"note": "a  b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := api.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
		Bucket: aws.String("b"), Prefix: aws.String("a dir/"), Delimiter: aws.String("/"), StartAfter: aws.String("x+y&z"),
	})
	if err != nil || aws.ToInt32(out.KeyCount) != 1 {
		t.Fatal(out, err)
	}
	all := s.all()
	if len(all) != 3 || all[0].body != body || all[1].body != body {
		t.Errorf("seen %+v", all)
	}
}

// E11: the usual way to set a provider hides a Cache behind the SDK's own, and Install does not.
func TestInstallAvoidsTheDoubleCache(t *testing.T) {
	md := &sortietest.Metadata{Answer: sortietest.KeyAnswer{Life: 2 * time.Hour}}
	md.Start(t)
	md.Setenv(t)
	s := newSigned(t, md, false, func(int, http.ResponseWriter, *http.Request) bool { return true })
	newCache := func() *creds.Cache {
		c, err := creds.New(creds.EC2Role{}, creds.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	keyAfterARefresh := func(c *creds.Cache, cfg aws.Config) (changed bool) {
		api := s3.NewFromConfig(cfg, func(o *s3.Options) {
			o.Region, o.BaseEndpoint, o.UsePathStyle = "eu-west-1", aws.String(s.URL()), true
		})
		call := func() string {
			if _, err := api.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("b")}); err != nil {
				t.Fatal(err)
			}
			all := s.all()
			return all[len(all)-1].key
		}
		before := call()
		c.InvalidateIf(before, "test") // a refresh, as the timer would start it
		if _, err := c.Retrieve(t.Context()); err != nil {
			t.Fatal(err)
		}
		return call() != before
	}

	c := newCache()
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithCredentialsProvider(c))
	if err != nil {
		t.Fatal(err)
	}
	if keyAfterARefresh(c, cfg) {
		t.Log("config.WithCredentialsProvider has become transparent: Install may be simplified")
	}

	c = newCache()
	cfg, err = config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := creds.Install(&cfg, c); err != nil {
		t.Fatal(err)
	}
	if !keyAfterARefresh(c, cfg) {
		t.Error("the client goes on with the old key")
	}

	// What LoadDefaultConfig found is taken over.
	cfg, err = config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err = creds.Install(&cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !keyAfterARefresh(c, cfg) || fmt.Sprint(c.ProviderSources()) != fmt.Sprint([]aws.CredentialSource{aws.CredentialSourceIMDS}) {
		t.Errorf("taken over from %v", c.ProviderSources())
	}
}
