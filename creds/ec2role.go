package creds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

// EC2Role is the source of the credentials that the metadata service of an EC2 instance hands out for its role. Give it to
// [New]; static stability is then on unless Config says otherwise. The zero value is ready to use, and safe for concurrent
// use. It asks through the SDK's own client, whose short time limits let it fail fast where there is no such service.
//
// The expiry is the true one. The SDK's provider cuts it to an hour from now, so that its cache asks more often; a Cache
// does not need that.
type EC2Role struct {
	// RequireV2 forbids reads without a token (IMDSv1). Without it the SDK falls back to them where no token can be had.
	RequireV2 bool

	// Endpoint is the base URL of the service. Empty: AWS_EC2_METADATA_SERVICE_ENDPOINT, else http://169.254.169.254.
	Endpoint string

	// HTTPClient makes the requests. Nil: the SDK's own.
	HTTPClient aws.HTTPClient
}

// Retrieve asks once, with a client of its own. It is for use without a [Cache], which keeps one client.
func (e EC2Role) Retrieve(ctx context.Context) (aws.Credentials, error) { return retrieve(ctx, e) }

// ProviderSources returns [aws.CredentialSourceIMDS].
func (EC2Role) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceIMDS}
}

func (EC2Role) kind() string { return "ec2-role" }

func (e EC2Role) open() (aws.CredentialsProvider, error) {
	o := imds.Options{Endpoint: e.Endpoint, HTTPClient: e.HTTPClient}
	if e.RequireV2 {
		o.EnableFallback = aws.FalseTernary
	}
	return instanceRole{imds.New(o)}, nil
}

// retrieve opens a source and asks it.
func retrieve(ctx context.Context, o opener) (aws.Credentials, error) {
	p, err := o.open()
	if err != nil {
		return aws.Credentials{}, err
	}
	return p.Retrieve(ctx)
}

// instanceRole is an opened EC2Role.
type instanceRole struct{ client *imds.Client }

func (instanceRole) ProviderSources() []aws.CredentialSource { return EC2Role{}.ProviderSources() }

func (r instanceRole) Retrieve(ctx context.Context) (aws.Credentials, error) {
	tap := &expiryTap{client: r.client}
	p := ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = tap })
	c, err := p.Retrieve(ctx)
	if err == nil && !tap.expires.IsZero() {
		c.Expires = tap.expires
	}
	return c, err
}

// expiryTap reads the true expiry from what the provider reads.
type expiryTap struct {
	client  *imds.Client
	expires time.Time
}

const maxMetadata = 64 << 10

// GetMetadata forwards to the client. The path of a role is the only one that ends in a name.
func (t *expiryTap) GetMetadata(
	ctx context.Context, in *imds.GetMetadataInput, opts ...func(*imds.Options),
) (*imds.GetMetadataOutput, error) {
	out, err := t.client.GetMetadata(ctx, in, opts...)
	if err != nil || strings.HasSuffix(in.Path, "/") {
		return out, err
	}
	defer out.Content.Close()
	text, err := io.ReadAll(io.LimitReader(out.Content, maxMetadata))
	if err != nil {
		return nil, fmt.Errorf("creds: reading metadata: %w", err)
	}
	t.expires = expirationOf(text)
	out.Content = io.NopCloser(bytes.NewReader(text))
	return out, nil
}

// expirationOf returns the field Expiration of a JSON object, zero without one.
func expirationOf(text []byte) time.Time {
	var body struct {
		Expiration time.Time `json:"Expiration"`
	}
	if json.Unmarshal(text, &body) != nil {
		return time.Time{} // the provider will say what is wrong
	}
	return body.Expiration
}
