package metrics

import (
	"context"
	"time"
)

// Resolver records what a DNS cache does. It is for package dnscache. A nil *Resolver is off.
type Resolver struct{ m *Metrics }

// Resolver returns the recorder for DNS; nil if m is nil.
func (m *Metrics) Resolver() *Resolver {
	if m == nil {
		return nil
	}
	return &Resolver{m}
}

// Looked counts a lookup that was no plain hit: result is miss, coalesced, stale, negative or error. Plain hits are
// counted by dnscache itself, which serves them in less time than a measurement takes.
func (r *Resolver) Looked(ctx context.Context, result string) {
	if r != nil {
		r.m.count(ctx, dnsLookups, key{byDNSResult.valueOf(result)})
	}
}

// Answered counts a question that a server answered: rcode is noerror, nxdomain, servfail or other.
func (r *Resolver) Answered(rcode string) {
	if r != nil {
		r.m.count(detached(), dnsQuestions, key{byRcode.valueOf(rcode)})
	}
}

// Asked records how long it took to find the addresses of a name, all questions included, or to fail.
func (r *Resolver) Asked(name string, took time.Duration, failed ErrorType) {
	if r != nil {
		r.m.took(detached(), lookupDuration, took, key{r.m.hosts.known(name), value(failed.known())})
	}
}

// Credential records what happens to the credentials of one source. It is for package creds. A nil *Credential is off.
type Credential struct {
	m     *Metrics
	value value
}

// Credential returns the recorder of a source of credentials. Beyond 50 sources it records under "_OTHER". Nil if m is nil.
func (m *Metrics) Credential(source string) *Credential {
	if m == nil {
		return nil
	}
	return &Credential{m, m.sources.value(source)}
}

// Fetched records a question to the source: reason is cold, ahead, rejected or forced.
func (c *Credential) Fetched(reason string, took time.Duration, failed ErrorType) {
	if c != nil {
		c.m.took(detached(), fetchDuration, took, key{c.value, byFetchReason.valueOf(reason), value(failed.known())})
	}
}

// Received records the lifetime of a new credential.
func (c *Credential) Received(lifetime time.Duration) {
	if c != nil {
		c.m.set(detached(), credentialLifetime, lifetime, key{c.value})
	}
}

// Happened counts an event: reason is blocked (a read waited), unchanged, clamped, stale_served or rejected.
func (c *Credential) Happened(reason string) {
	if c != nil {
		c.m.count(detached(), credentialEvents, key{c.value, byCredentialEvent.valueOf(reason)})
	}
}

// Observe has remaining called at each collection of metrics, until stop is called: the time until the credential in hand
// expires, negative if it has, and whether there is one that expires. Of several sources with one name the least counts.
func (c *Credential) Observe(remaining func() (time.Duration, bool)) (stop func()) {
	if c == nil {
		return func() {}
	}
	return c.m.observers.add(func(to *collection) {
		if d, known := remaining(); known {
			to.least(credentialRemaining, d.Seconds(), key{c.value})
		}
	})
}

// Facade records the runs of one facade. It is for package facade. A nil *Facade is off.
type Facade struct {
	m     *Metrics
	value value
}

// Facade returns the recorder of the runs with this name. Beyond 50 names it records under "_OTHER". Nil if m is nil.
func (m *Metrics) Facade(name string) *Facade {
	if m == nil {
		return nil
	}
	return &Facade{m, m.facades.value(name)}
}

// Ended records a run: outcome is complete, degraded or failed.
func (f *Facade) Ended(ctx context.Context, took time.Duration, outcome string) {
	if f != nil {
		f.m.took(ctx, facadeDuration, took, key{f.value, byFacadeOutcome.valueOf(outcome)})
	}
}

// Part counts a part: outcome is ok, fallback, skipped, failed, cancelled or unused, and beside it late for one that still
// ran when the run returned. Beyond 50 names of parts in a facade it counts under "_OTHER".
func (f *Facade) Part(ctx context.Context, name, outcome string) {
	if f != nil {
		f.m.count(ctx, facadeParts, key{f.value, f.m.parts[f.value].value(name), byPartOutcome.valueOf(outcome)})
	}
}

// partOf returns the name of a part. The tables of the facades share their numbers out among them.
func (m *Metrics) partOf(v value) string {
	if v < firstName {
		return other
	}
	return nameOf(&m.parts[(v-firstName)/maxParts], v)
}
