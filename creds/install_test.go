package creds_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// service is a scripted service of AWS, which checks signatures and refuses some keys.
type service struct {
	*sortietest.Upstream
	mu      sync.Mutex
	refused map[string]string // by key: the error code
	keys    []string
}

func newService(t *testing.T, secretOf func(string) string) *service {
	t.Helper()
	s := &service{refused: map[string]string{}}
	s.Upstream = sortietest.NewUpstream(t, sortietest.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := sortietest.CheckSigV4(r, secretOf); err != nil {
			t.Error(err)
		}
		_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ = strings.Cut(key, "/")
		s.mu.Lock()
		s.keys = append(s.keys, key)
		code := s.refused[key]
		s.mu.Unlock()
		if code != "" {
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte("<ErrorResponse><Error><Code>" + code + "</Code></Error></ErrorResponse>"))
			return
		}
		w.Write([]byte("<GetCallerIdentityResponse><GetCallerIdentityResult><Account>1</Account>" +
			"</GetCallerIdentityResult></GetCallerIdentityResponse>"))
	})))
	return s
}

func (s *service) refuse(key, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[key] = code
}

// E11: what the SDK's clients sign with follows background refreshes, and rejected keys are replaced.
func TestInstallReachesTheClientsOfTheSDK(t *testing.T) {
	md := sortietest.NewMetadata(t)
	s := newService(t, md.SecretOf)
	base := s.URL()
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &base, HTTPClient: s.Client()}
	c, err := creds.Install(&cfg, creds.EC2Role{Endpoint: md.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if again, err := creds.Install(&cfg, nil); err != nil || again != c {
		t.Errorf("a second Install made another Cache: %v", err)
	}
	client := sts.NewFromConfig(cfg)
	call := func() error {
		_, err := client.GetCallerIdentity(t.Context(), nil)
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	s.refuse("SORTIETEST0001", "ExpiredToken")
	if err := call(); err == nil {
		t.Error("the rejection was lost")
	}
	if err := call(); err != nil {
		t.Error(err)
	}
	if st := c.Stats(); st.Rejections != 1 || s.keys[len(s.keys)-1] != "SORTIETEST0002" {
		t.Errorf("%d rejections, signed with %v", st.Rejections, s.keys)
	}
	s.refuse("SORTIETEST0002", "AccessDenied")
	call()
	if c.Stats().Rejections != 1 {
		t.Error("a lack of permission was taken for a rejection of the key")
	}
}

func TestInstallTakesOverWhatWasLoaded(t *testing.T) {
	src := &source{life: time.Hour}
	cfg := aws.Config{Credentials: aws.NewCredentialsCache(src)}
	c, err := creds.Install(&cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if v, err := cfg.Credentials.Retrieve(t.Context()); err != nil || v.AccessKeyID != "K1" || len(cfg.APIOptions) != 1 {
		t.Errorf("%s, %v", v.AccessKeyID, err)
	}
	for name, bad := range map[string]*aws.Config{
		"nothing": {}, "anonymous": {Credentials: aws.AnonymousCredentials{}},
		"anonymous in a cache": {Credentials: aws.NewCredentialsCache(aws.AnonymousCredentials{})}, "nil": nil,
	} {
		if _, err := creds.Install(bad, nil); err == nil {
			t.Errorf("%s was installed", name)
		}
	}
}
