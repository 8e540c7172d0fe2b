package creds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
)

// Container is the source of the credentials that an ECS task or an EKS pod has, as its environment says:
//
//   - AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, a path at http://169.254.170.2, before AWS_CONTAINER_CREDENTIALS_FULL_URI,
//     which may be https anywhere, but plain http only at loopback addresses and those of ECS and EKS;
//   - AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, read anew for each fetch, before AWS_CONTAINER_AUTHORIZATION_TOKEN.
//
// Give it to [New], which reads the environment and reports what is wrong with it. The zero value is ready to use, and
// safe for concurrent use.
type Container struct {
	// HTTPClient makes the requests. Nil: the SDK's own, which for plain http uses no proxy and dials no other addresses.
	HTTPClient aws.HTTPClient
}

// Retrieve asks once, with a client of its own. It is for use without a [Cache], which keeps one client.
func (c Container) Retrieve(ctx context.Context) (aws.Credentials, error) { return retrieve(ctx, c) }

// ProviderSources returns [aws.CredentialSourceHTTP].
func (Container) ProviderSources() []aws.CredentialSource {
	return []aws.CredentialSource{aws.CredentialSourceHTTP}
}

func (Container) kind() string { return "container" }

const ecsEndpoint = "http://169.254.170.2"

func (c Container) open() (aws.CredentialsProvider, error) {
	where, err := containerEndpoint(os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
	if err != nil {
		return nil, err
	}
	client := c.HTTPClient
	if client == nil {
		client = containerClient(where)
	}
	file, token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	p := endpointcreds.New(where.String(), func(o *endpointcreds.Options) {
		o.HTTPClient = client
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) { return containerToken(file, token) })
	})
	return containerRole{where, p}, nil
}

// containerRole is an opened Container.
type containerRole struct {
	where *url.URL
	p     *endpointcreds.Provider
}

func (c containerRole) ProviderSources() []aws.CredentialSource { return c.p.ProviderSources() }

func (c containerRole) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if c.where.Scheme == "http" {
		if err := checkPlainHost(ctx, c.where.Hostname()); err != nil {
			return aws.Credentials{}, err
		}
	}
	return c.p.Retrieve(ctx)
}

// containerEndpoint returns the URL that the two variables mean.
func containerEndpoint(relative, full string) (*url.URL, error) {
	const name = "creds: AWS_CONTAINER_CREDENTIALS_"
	switch {
	case relative != "" && relative[0] != '/':
		return nil, fmt.Errorf(name+"RELATIVE_URI: %q is no absolute path", relative)
	case relative != "":
		full = ecsEndpoint + relative
	case full == "":
		return nil, errors.New(name + "RELATIVE_URI and _FULL_URI are not set: this is no container with a role")
	}
	u, err := url.Parse(full)
	switch {
	case err != nil:
		return nil, fmt.Errorf(name+"FULL_URI: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf(name+"FULL_URI: %q is no URL of http or https", u.Redacted())
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && u.Scheme == "http" && !plainAllowed(addr) {
		return nil, fmt.Errorf(name+"FULL_URI: %s must not be asked over plain http", addr)
	}
	return u, nil
}

// plainAllowed reports whether plain http may go to addr: it does not leave the host there.
func plainAllowed(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return addr.IsLoopback() || slices.Contains([]netip.Addr{
		netip.AddrFrom4([4]byte{169, 254, 170, 2}),  // ECS
		netip.AddrFrom4([4]byte{169, 254, 170, 23}), // EKS
		netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2, 15: 0x23}),
	}, addr)
}

// checkPlainHost refuses a host unless plain http may go to all its addresses.
func checkPlainHost(ctx context.Context, host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if !plainAllowed(addr) {
			return fmt.Errorf("creds: container credentials: %s must not be asked over plain http", host)
		}
		return nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("creds: container credentials: %w", err)
	}
	for _, addr := range addrs {
		if !plainAllowed(addr) {
			return fmt.Errorf("creds: container credentials: %s is %s, which must not be asked over plain http", host, addr)
		}
	}
	return nil
}

// containerClient returns the SDK's client. For plain http it goes to no proxy, and dials nothing else, whatever a name
// resolves to by then and wherever a redirect leads.
func containerClient(where *url.URL) aws.HTTPClient {
	client := awshttp.NewBuildableClient()
	if where.Scheme != "http" {
		return client
	}
	return client.WithTransportOptions(func(tr *http.Transport) { tr.Proxy = nil }).
		WithDialerOptions(func(d *net.Dialer) {
			d.Control = func(_, address string, _ syscall.RawConn) error {
				if to, err := netip.ParseAddrPort(address); err != nil || !plainAllowed(to.Addr()) {
					return fmt.Errorf("creds: container credentials: %s must not be asked over plain http", address)
				}
				return nil
			}
		})
}

// containerToken returns the token for the header Authorization, of the file if there is one.
func containerToken(file, token string) (string, error) {
	if file != "" {
		text, err := readSmall(file)
		if err != nil {
			return "", err
		}
		token = string(text)
	}
	token = strings.TrimSuffix(strings.TrimSuffix(token, "\n"), "\r")
	if strings.ContainsFunc(token, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", errors.New("creds: the container's authorization token has control characters in it")
	}
	return token, nil
}
