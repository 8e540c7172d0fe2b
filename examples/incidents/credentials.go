package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// Field report 5, with 15 minutes scaled to 6 s: credentials live as long as the SDK was told to refresh them ahead, a metadata
// call takes 43 ms, and the metadata service is away for 4 minutes.
const (
	credentialLife = 6 * time.Second
	metadataTime   = 43 * time.Millisecond
	outage         = credentialLife * 4 / 15

	credentialCallTime = 200 * time.Millisecond // of one call during the outage
)

func credentials() scenario {
	return scenario{
		name:  "credentials",
		title: "signed calls with credentials that live 15 min (here 6 s) under a refresh threshold of 15 min; then 4 min (1.6 s) without metadata",
		run:   runCredentials,
		moral: "The SDK does what it was told: it refreshes before each call. Sortie clamps the threshold, refreshes behind the calls, and outlives the outage.",
	}
}

func runCredentials(ctx context.Context, p *progress) ([]result, error) {
	api := &sortietest.Upstream{Steps: []sortietest.Step{sortietest.OK("hello").After(5 * time.Millisecond)}}
	if err := api.Listen(); err != nil {
		return nil, err
	}
	defer api.Close()
	var results []result
	for _, run := range []struct {
		name   string
		client func(md *sortietest.Metadata, api string) (*http.Client, func(), error)
	}{{"plain", sdkSigned}, {"sortie", sortieSigned}} {
		part, err := measureCredentials(ctx, p, run.name, api, run.client)
		if err != nil {
			return nil, err
		}
		results = append(results, part...)
	}
	return results, nil
}

// measureCredentials makes calls while metadata answers, and while it does not.
func measureCredentials(ctx context.Context, p *progress, name string, api *sortietest.Upstream,
	newClient func(*sortietest.Metadata, string) (*http.Client, func(), error),
) ([]result, error) {
	md := &sortietest.Metadata{Answer: sortietest.KeyAnswer{Life: credentialLife}}
	if err := md.Listen(); err != nil {
		return nil, err
	}
	defer md.Close()
	md.Fail(sortietest.OnAll, sortietest.MetadataFault{Delay: metadataTime})
	h, done, err := newClient(md, api.URL())
	if err != nil {
		return nil, err
	}
	defer done()
	conns := api.Stats().Conns

	healthy := measure(ctx, p, load{workers: 1, calls: 25}, name, h, api.URL()+"/search")
	healthy.Connections = api.Stats().Conns - conns
	healthy.Extra["metadata_calls_per_request"] = float64(md.Stats().Total()) / float64(max(healthy.Calls, 1))

	restore := md.Fail(sortietest.OnAll, sortietest.MetadataFault{Status: http.StatusServiceUnavailable})
	defer restore()
	away := load{workers: 1, calls: 40}
	conns = api.Stats().Conns
	p.begin(name, away.calls)
	during := away.run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, credentialCallTime)
		defer cancel()
		return get(ctx, h, api.URL()+"/search")
	}, func() {
		p.tick()
		sleep(ctx, outage/time.Duration(away.calls)) // spread over the outage
	})
	during.Connections = api.Stats().Conns - conns
	during.Client = name + ", metadata away"
	return []result{healthy, during}, nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sdkSigned signs with the SDK's own cache and signer, as an application does that sets ExpiryWindow to 15 minutes.
func sdkSigned(md *sortietest.Metadata, _ string) (*http.Client, func(), error) {
	cache := aws.NewCredentialsCache(endpointcreds.New(md.ContainerURL()), func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = credentialLife })
	transport := http.DefaultTransport.(*http.Transport).Clone()
	signer := v4.NewSigner()
	empty := sha256.Sum256(nil)
	sign := func(req *http.Request) (*http.Response, error) {
		keys, err := cache.Retrieve(req.Context())
		if err != nil {
			return nil, err
		}
		out := req.Clone(req.Context())
		if err := signer.SignHTTP(req.Context(), keys, out, hex.EncodeToString(empty[:]), "es", "eu-west-1", time.Now()); err != nil {
			return nil, err
		}
		return transport.RoundTrip(out)
	}
	return &http.Client{Transport: roundTripper(sign)}, transport.CloseIdleConnections, nil
}

// sortieSigned asks for the same window.
func sortieSigned(md *sortietest.Metadata, api string) (*http.Client, func(), error) {
	cache, err := creds.New(endpointcreds.New(md.ContainerURL()), creds.Config{
		Soft:   credentialLife,
		Logger: slog.New(slog.DiscardHandler), // it would warn, once, that Soft was clamped
	})
	if err != nil {
		return nil, nil, err
	}
	if err := cache.Start(context.Background()); err != nil {
		return nil, nil, err
	}
	c, err := client.New(client.Config{Upstreams: []client.Upstream{{
		Name: "search", Hosts: []string{"*"}, External: []string{api},
		Signer: &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"},
	}}})
	if err != nil {
		return nil, nil, err
	}
	return c.HTTP(), func() { c.Close(); cache.Close() }, nil
}
