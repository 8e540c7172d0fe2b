package creds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Cache keeps the credentials of one source and refreshes them ahead. It is an [aws.CredentialsProvider]. Make it with
// [New]; all methods are safe for concurrent use. Close it when it is no longer needed.
//
// # What a read gets
//
// While there is something valid, [Cache.Retrieve] returns it at once. Only in the last moments of a life (Config.Hard)
// does it wait a little for the refresh, and with nothing valid in hand for as long as its context and the fetch allow.
// The expiry handed out is always the source's own.
//
// # Failures
//
// An error, a timeout, an answer without keys or one that has expired never replaces credentials in hand. The next try
// comes after a part of the time that is left, so that many fit before the end; after it, 5 s doubling to 5 minutes. Some
// errors another try will not cure: AccessDenied, InvalidIdentityToken, ExpiredTokenException, InvalidClientTokenId,
// UnrecognizedClientException, a malformed or oversized policy, a disabled region, IDPRejectedClaim, and what
// Config.Fatal says. They do not take working credentials away either, but are logged as errors, and are what readers get
// in the end.
//
// A source that returns the same credentials again is asked at a measured pace, and learnt from: some brokers hold keys
// back until shortly before their end, whatever one asks.
//
// # Rejections
//
// A service may reject a key before its time. [Cache.InvalidateIf] then has another fetched, once for each key. The old
// one is kept as a fall-back: it may have been the service that was wrong.
type Cache struct {
	core *core[aws.Credentials]
	src  aws.CredentialsProvider
}

// New returns a Cache in front of src. It reports every mistake at once, asks nothing and starts nothing.
//
// An [*aws.CredentialsCache] is owned by the Cache from then on: it is invalidated before each fetch, since it would
// answer from memory. The window it was made with still shortens the lives it reports, and a panic behind it ends the
// process, so better give the provider inside.
func New(src aws.CredentialsProvider, cfg Config) (*Cache, error) {
	name := nameOf(src)
	opened, err := open(src)
	if err != nil {
		return nil, errors.Join(err, cfg.validate(true))
	}
	s := source[aws.Credentials]{name: name, kind: name, fetch: opened.Retrieve, stable: isInstance(opened)}
	if p, ok := opened.(polled); ok {
		s.poll, s.changed = p.polls(), p.changed
	}
	core, err := newCore(awsNature(), s, cfg)
	if err != nil {
		return nil, err
	}
	return &Cache{core, opened}, nil
}

// opener is what the sources of this package are before New: a description.
type opener interface {
	open() (aws.CredentialsProvider, error)
	kind() string
}

// polled is a source whose value may change while it is good.
type polled interface {
	polls() time.Duration
	changed() bool
}

// open makes a source ready to be asked.
func open(src aws.CredentialsProvider) (aws.CredentialsProvider, error) {
	if aws.IsCredentialsProvider(src, aws.AnonymousCredentials{}) {
		return nil, errors.New("creds: the source is anonymous")
	}
	switch s := src.(type) {
	case nil:
		return nil, errors.New("creds: no source")
	case *Cache:
		return nil, errors.New("creds: the source is a Cache already")
	case opener:
		return s.open()
	case *aws.CredentialsCache:
		return ownedCache{s}, nil
	}
	return src, nil
}

// ownedCache asks what is behind an SDK cache.
type ownedCache struct{ *aws.CredentialsCache }

func (o ownedCache) Retrieve(ctx context.Context) (aws.Credentials, error) {
	o.Invalidate()
	return o.CredentialsCache.Retrieve(ctx)
}

// nameOf names a source by its type, as "stscreds.AssumeRoleProvider", or as its preset calls itself.
func nameOf(src aws.CredentialsProvider) string {
	if o, ok := src.(opener); ok {
		return o.kind()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", src), "*")
}

// isInstance reports whether a source is the role of an EC2 instance.
func isInstance(src aws.CredentialsProvider) bool {
	s, ok := src.(aws.CredentialProviderSource)
	return ok && slices.Contains(s.ProviderSources(), aws.CredentialSourceIMDS)
}

// awsNature is the nature of AWS credentials.
func awsNature() *nature[aws.Credentials] {
	return &nature[aws.Credentials]{
		key: func(c aws.Credentials) string { return c.AccessKeyID },
		expires: func(c aws.Credentials) time.Time {
			if !c.CanExpire {
				return time.Time{}
			}
			return c.Expires
		},
		same: func(a, b aws.Credentials) bool {
			return a.AccessKeyID == b.AccessKeyID && a.SecretAccessKey == b.SecretAccessKey && a.SessionToken == b.SessionToken
		},
		check: func(c aws.Credentials) error {
			switch {
			case c.AccessKeyID == "":
				return &AnswerError{"no access key"}
			case c.SecretAccessKey == "":
				return &AnswerError{"no secret key"}
			case c.CanExpire && c.Expires.IsZero():
				return &AnswerError{"no expiry, though it can expire"}
			}
			return nil
		},
		tail: func(key string) string { return key[max(0, len(key)-4):] },
	}
}

// Start begins refreshing, and returns when there is a first value, when the source refuses for good, or when ctx ends;
// refreshing goes on in any case. It may be called again, and need not be called at all: the first read begins, too.
func (c *Cache) Start(ctx context.Context) error { return c.core.start(ctx) }

// Close ends refreshing, and a fetch under way, and waits for both and for a running OnRefresh. Afterwards reads return
// the credentials in hand until they expire, then [ErrClosed]. It is idempotent and returns nil.
func (c *Cache) Close() error { return c.core.close() }

// Retrieve returns the credentials; see [Cache] for when it waits. The error is the context's, wrapped, if the reader
// left; *[FetchError] if there are none, *[ExpiredError] if they have expired; or the source's own if that is fatal.
func (c *Cache) Retrieve(ctx context.Context) (aws.Credentials, error) {
	it, err := c.core.read(ctx, time.Now())
	if err != nil {
		return aws.Credentials{}, err
	}
	return it.value, nil
}

// Peek returns what is in hand, expired or not, and nil before the first answer. It reads no clock, waits for nothing and
// starts nothing.
func (c *Cache) Peek() *Snapshot[aws.Credentials] { return c.core.peek() }

// InvalidateIf says that a service rejected the credentials with this access key. If they are the current ones it returns
// true, flags them, and has others fetched at once; a second rejection of the same key asks no more. Any other key is
// ignored, so that late answers do no harm. The reason is shown in Stats; it must hold no secret.
func (c *Cache) InvalidateIf(accessKeyID, reason string) bool {
	return c.core.invalidate(accessKeyID, reason)
}

// Stats returns the counts and the state as they are now.
func (c *Cache) Stats() Stats { return c.core.report() }

// ProviderSources forwards to the source, for the SDK's business metrics.
func (c *Cache) ProviderSources() []aws.CredentialSource {
	if s, ok := c.src.(aws.CredentialProviderSource); ok {
		return s.ProviderSources()
	}
	return nil
}

// IsCredentialsProvider forwards to the source, so that [aws.IsCredentialsProvider] sees through the Cache.
func (c *Cache) IsCredentialsProvider(target aws.CredentialsProvider) bool {
	if _, ok := target.(*Cache); ok {
		return true
	}
	return aws.IsCredentialsProvider(c.src, target)
}

func (c *core[T]) peek() *Snapshot[T] {
	it := c.val.Peek().Value
	if it == nil {
		return nil
	}
	return it.public.Load()
}
