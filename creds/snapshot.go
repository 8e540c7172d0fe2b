package creds

import (
	"fmt"
	"log/slog"
	"time"
)

// Snapshot is a value with what is known of its life at one moment. It is immutable, and prints without the value.
type Snapshot[T any] struct {
	Received time.Time     // when the source gave it
	Expires  time.Time     // as the source stated it; zero if it never does
	Lifetime time.Duration // what was left of it at Received
	Soft     time.Duration // how long before Expires a refresh is due, jitter included
	Hard     time.Duration // how long before Expires a read begins to wait for it
	Rejected bool          // a service rejected it, and no other has been had yet
	Stale    bool          // it has expired, and is given out by Config.StaticStability
	Key      string        // the last 4 characters of the access key, or 8 hex digits of the token's SHA-256

	value T
}

// Value returns the credentials, or the token. It is a secret.
func (s Snapshot[T]) Value() T { return s.value }

// String describes the snapshot without the secret.
func (s Snapshot[T]) String() string {
	text := "creds: key …" + s.Key
	if !s.Expires.IsZero() {
		text += ", expires " + s.Expires.UTC().Format(time.RFC3339)
	}
	if s.Rejected {
		text += ", rejected"
	}
	if s.Stale {
		text += ", stale"
	}
	return text
}

// Format prints what String returns, whatever the verb, so that %+v shows no secret either.
func (s Snapshot[T]) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue logs what String returns.
func (s Snapshot[T]) LogValue() slog.Value { return slog.StringValue(s.String()) }

// publish renews the item's snapshot from what is known. Under core.mu.
func (it *item[T]) publish(c *core[T], left time.Duration) {
	s := &Snapshot[T]{
		Received: it.received, Expires: it.expires, Lifetime: it.life,
		Soft: c.softOf(it), Hard: it.windows.hard,
		Rejected: it.rejected,
		Stale:    left <= 0 && c.stable && !it.rejected && !it.fatal,
		Key:      c.nature.tail(it.key),
		value:    it.value,
	}
	it.slow.Store(s.Rejected || s.Stale)
	it.public.Store(s)
}
