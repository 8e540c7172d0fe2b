package creds

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Install makes p the credentials of an AWS configuration that has been loaded, behind a [Cache], and tells that Cache when
// a service rejects a key. A nil p takes over what the configuration has; a *Cache is used as it is; anything else gets a
// Cache of default settings. Clients have to be built after it. Close the Cache when they are no longer used.
//
// It is needed because config.WithCredentialsProvider puts the SDK's own cache around whatever it is given: a Cache
// behind that is asked once in a lifetime, and its early refreshes and invalidations reach nobody. Installing again is
// harmless. A configuration without credentials, or with anonymous ones, is an error.
func Install(cfg *aws.Config, p aws.CredentialsProvider) (*Cache, error) {
	if cfg == nil {
		return nil, errors.New("creds: Install without a Config")
	}
	if p == nil {
		p = cfg.Credentials
	}
	c, ok := p.(*Cache)
	if !ok {
		var err error
		if c, err = New(p, Config{}); err != nil {
			return nil, err
		}
	}
	cfg.Credentials = c
	cfg.APIOptions = append(slices.Clip(cfg.APIOptions), func(s *middleware.Stack) error {
		o := &rejections{c}
		if _, ok := s.Deserialize.Get(o.ID()); ok {
			_, err := s.Deserialize.Swap(o.ID(), o)
			return err
		}
		return s.Deserialize.Add(o, middleware.Before)
	})
	return c, nil
}

// rejections is the part of an AWS client's stack that sees the outcome of each attempt.
type rejections struct{ cache *Cache }

// ID names the part.
func (*rejections) ID() string { return "SortieCredentials" }

// HandleDeserialize tells the Cache of a rejected key.
func (r *rejections) HandleDeserialize(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, meta, err := next.HandleDeserialize(ctx, in)
	code := codeOf(err)
	if req, ok := in.Request.(*smithyhttp.Request); ok && rejects(code) {
		r.cache.InvalidateIf(signedKey(req.Header.Get("Authorization")), code)
	}
	return out, meta, err //nolint:wrapcheck // the client's own
}

// signedKey returns the access key of a header Authorization by AWS4-HMAC-SHA256, empty for others.
func signedKey(authorization string) string {
	rest, ok := strings.CutPrefix(authorization, "AWS4-HMAC-SHA256 Credential=")
	if !ok {
		return ""
	}
	key, _, _ := strings.Cut(rest, "/")
	return key
}
