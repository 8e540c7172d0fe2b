package creds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/creds"
	"github.com/sortie-go/sortie/sortietest"
)

// A Cache in front of the metadata service, here an emulated one.
func ExampleNew() {
	md := new(sortietest.Metadata)
	if err := md.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	defer md.Close()

	var refreshes []string
	cache, err := creds.New(creds.EC2Role{Endpoint: md.URL(), RequireV2: true}, creds.Config{
		OnRefresh: func(e creds.Event) {
			refreshes = append(refreshes, fmt.Sprint(e.Trigger, " ", e.Outcome, " ", e.Key))
		},
	})
	if err != nil {
		fmt.Println(err) // every mistake in the Config
		return
	}
	if err := cache.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	v, err := cache.Retrieve(context.Background())
	fmt.Println(v.AccessKeyID, err)

	cache.Close() // and with it OnRefresh has returned
	fmt.Println(refreshes)
	fmt.Println(md.Stats().Total(), "metadata calls")
	// Output:
	// SORTIETEST0001 <nil>
	// [cold ok 0001]
	// 3 metadata calls
}

// What the errors of a read say.
func ExampleCache_Retrieve() {
	broken := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no route to host")
	})
	cache, err := creds.New(broken, creds.Config{Name: "broker"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()

	_, err = cache.Retrieve(context.Background())
	if e, ok := errors.AsType[*creds.FetchError](err); ok {
		fmt.Println("there are none, and the next try is planned:", e.RetryAt.After(time.Now()))
	}
	if _, ok := errors.AsType[*creds.ExpiredError](err); ok {
		fmt.Println("they have expired")
	}
	// Output:
	// there are none, and the next try is planned: true
}

// Search on OpenSearch Service: each attempt is signed anew, with whatever key is current then.
func ExampleSigV4() {
	md := new(sortietest.Metadata)
	if err := md.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	defer md.Close()
	search := &sortietest.Upstream{Steps: []sortietest.Step{sortietest.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := sortietest.CheckSigV4(r, md.SecretOf); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		io.WriteString(w, `{"hits":{"total":{"value":7}}}`)
	}))}}
	if err := search.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	defer search.Close()

	cache, err := creds.New(creds.EC2Role{Endpoint: md.URL()}, creds.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()
	c, err := client.New(client.Config{
		Upstreams: []client.Upstream{{
			Name:     "search",
			Hosts:    []string{"search.example"},
			Internal: []string{search.URL()},
			Signer:   &creds.SigV4{Provider: cache, Region: "eu-west-1", Service: "es"},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://search.example/logs-*/_search?q=status:500", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output:
	// 200 {"hits":{"total":{"value":7}}}
}

// A token from a function, as from any identity provider.
func ExampleNewTokens() {
	n := 0
	tokens, err := creds.NewTokens(creds.TokenFunc(func(context.Context) (creds.Token, error) {
		n++
		return creds.Token{Value: fmt.Sprintf("token-%d", n), Expires: time.Now().Add(time.Hour)}, nil
	}), creds.Config{Name: "identity"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()

	req, err := http.NewRequest(http.MethodGet, "https://api.example/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer := creds.Bearer{Tokens: tokens}
	for range 2 {
		if err := signer.Sign(context.Background(), req); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(req.Header.Get("Authorization"))
	}
	tokens.InvalidateIf("token-1", "a service answered 401")
	fmt.Println(signer.Sign(context.Background(), req), req.Header.Get("Authorization"))
	// Output:
	// Bearer token-1
	// Bearer token-1
	// <nil> Bearer token-2
}
