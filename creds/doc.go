// Package creds keeps the identity of a service: credentials and tokens that are refreshed ahead, and the signers that
// put them on requests.
//
// # A Cache in front of a source
//
// A [Cache] stands around any [aws.CredentialsProvider] and is one itself:
//
//	cache, err := creds.New(creds.EC2Role{}, creds.Config{})
//	if err != nil { … }                    // mistakes in the Config, all at once
//	defer cache.Close()
//	err = cache.Start(ctx)                 // optional: the first value is there before the first call
//
// From then on a read never waits while there is something valid to give: the source is asked by a timer, well before
// the end, with or without traffic. A failure never takes working credentials away, answers that are dead on arrival
// never replace good ones, and no setting makes a storm: thresholds are clamped to a fraction of the life that the
// source really hands out, and a source that returns the same credentials again is asked at a measured pace.
//
// An AWS client gets the Cache by [Install], which also tells it when a service rejects a key. [Tokens] is the same
// for bearer tokens. [EC2Role], [Container], [WebIdentity], [File] and [TokenFile] are sources.
//
// # Signers
//
// [SigV4] and [Bearer] sign requests for package client (its Signer interface), or for anything that calls Sign on the
// request it is about to send.
//
// # Limits and costs
//
// A warm read takes about as long as reading the clock, which it has to do: after a suspend no timer has run, and no
// expired key may be handed out. It allocates nothing. A Cache holds about 3.5 KiB and two timers; it has a goroutine while
// it asks the source, and none at rest. [Cache.Close] ends both. The package does not presign, sign chunks, or do SigV4A, and it has no credential chain: what
// [github.com/aws/aws-sdk-go-v2/config] resolved can be given to [Install].
package creds
