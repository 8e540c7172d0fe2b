package creds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// WebIdentity is the source of the credentials that STS gives for the token of an identity provider: IAM roles for
// service accounts on EKS, and the like. Empty fields are read from the environment, once, by [New], which reports what is
// missing. It is safe for concurrent use.
//
// The token's file is read anew for each fetch. When it changes nothing happens before the credentials are due: their
// own expiry alone says when to ask.
type WebIdentity struct {
	RoleARN     string // else AWS_ROLE_ARN
	TokenFile   string // else AWS_WEB_IDENTITY_TOKEN_FILE
	SessionName string // else AWS_ROLE_SESSION_NAME, else one made from the time
	Region      string // whose endpoint of STS is asked; else AWS_REGION, else AWS_DEFAULT_REGION

	// HTTPClient makes the requests. Nil: the SDK's own.
	HTTPClient aws.HTTPClient
}

// Retrieve asks once, with a client of its own. It is for use without a [Cache], which keeps one client.
func (w WebIdentity) Retrieve(ctx context.Context) (aws.Credentials, error) { return retrieve(ctx, w) }

// ProviderSources returns [aws.CredentialSourceSTSAssumeRoleWebID].
func (WebIdentity) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceSTSAssumeRoleWebID}
}

func (WebIdentity) kind() string { return "web-identity" }

func (w WebIdentity) open() (aws.CredentialsProvider, error) {
	var missing []error
	need := func(field, value string, env ...string) string {
		for _, name := range env {
			value = cmp.Or(value, os.Getenv(name))
		}
		if value == "" {
			missing = append(missing, fmt.Errorf("creds: WebIdentity.%s: empty, and so is %s", field, strings.Join(env, ", ")))
		}
		return value
	}
	role := need("RoleARN", w.RoleARN, "AWS_ROLE_ARN")
	file := need("TokenFile", w.TokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE")
	region := need("Region", w.Region, "AWS_REGION", "AWS_DEFAULT_REGION")
	if missing != nil {
		return nil, errors.Join(missing...)
	}
	o := sts.Options{Region: region, HTTPClient: w.HTTPClient}
	if base := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_STS"), os.Getenv("AWS_ENDPOINT_URL")); base != "" {
		o.BaseEndpoint = &base
	}
	session := cmp.Or(w.SessionName, os.Getenv("AWS_ROLE_SESSION_NAME"))
	return stscreds.NewWebIdentityRoleProvider(sts.New(o), role, identityFile(file), func(o *stscreds.WebIdentityRoleOptions) {
		o.RoleSessionName = session
	}), nil
}

// identityFile reads the token as the SDK wants it.
type identityFile string

// GetIdentityToken returns the file's content without the white space around it.
func (f identityFile) GetIdentityToken() ([]byte, error) {
	text, err := readSmall(string(f))
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(string(text))), nil
}
