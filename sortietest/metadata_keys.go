package sortietest

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Keys are the credentials of an answer.
type Keys struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
	Expires         time.Time
}

// KeyBroker says when a [Metadata] has a new key. Its zero value is [FreshKeys].
type KeyBroker struct {
	session time.Duration // life of a key, instead of the answer's
	cache   time.Duration // for how long a key is given out
	left    time.Duration // how long before its end the next is there
	same    bool
	pushed  *Keys
}

// FreshKeys has a new key for each answer.
func FreshKeys() KeyBroker { return KeyBroker{} }

// CachedKeys has keys that live for session and are given out for cache, as proxies like KIAM do: with 15 and 10 minutes
// an answer has between 15 and 5 minutes left.
func CachedKeys(session, cache time.Duration) KeyBroker {
	return KeyBroker{session: session, cache: cache}
}

// KeysUntil has the same key until it has only left to live: 5 minutes on EC2, 1 minute behind some proxies.
func KeysUntil(left time.Duration) KeyBroker { return KeyBroker{left: left} }

// SameKey has one key, and goes on giving it out when it has expired.
func SameKey() KeyBroker { return KeyBroker{same: true} }

// KeyAnswer shapes the answers of a [Metadata]: how long keys live, and what is wrong with them. The zero value is good.
type KeyAnswer struct {
	Life      time.Duration // of a new key; negative: it has expired that long ago. Zero: 1 hour
	Code      string        // instead of "Success", on the instance's endpoint; with it there are no keys
	NoKeys    bool          // keys are empty
	BadDate   bool          // the expiry is no date
	BadJSON   bool          // the answer is no JSON (or XML)
	Truncated bool          // the connection closes in the middle of the answer
}

// metadataState is what may change while a Metadata serves. Metadata.mu guards it.
type metadataState struct {
	set      bool // taken over from the fields
	broker   KeyBroker
	answer   KeyAnswer
	roles    []string
	stsError string

	number int // keys issued
	keys   Keys
	since  time.Time
	pushed map[string]string // secrets of keys that the test made
}

// stateLocked returns the state, which begins with the fields.
func (m *Metadata) stateLocked() *metadataState {
	s := &m.current
	if !s.set {
		s.set, s.broker, s.answer, s.roles = true, m.Broker, m.Answer, slices.Clone(m.Roles)
		if m.Roles == nil {
			s.roles = []string{"sortie"}
		}
	}
	return s
}

// SetBroker replaces the broker. The next answer has a new key.
func (m *Metadata) SetBroker(b KeyBroker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateLocked()
	s.broker, s.keys = b, Keys{}
}

// SetAnswer replaces the shape of answers. A key that is still given out keeps its life.
func (m *Metadata) SetAnswer(a KeyAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateLocked().answer = a
}

// SetRoles replaces the roles of the instance; without any, asking for them is a 404.
func (m *Metadata) SetRoles(roles ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateLocked().roles = slices.Clone(roles)
}

// SetSTSError makes AssumeRoleWithWebIdentity fail with a code, such as "InvalidIdentityToken" or "AccessDenied". Empty
// ends it.
func (m *Metadata) SetSTSError(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateLocked().stsError = code
}

// Push makes k the answer from now on, until the next Push or [Metadata.SetBroker].
func (m *Metadata) Push(k Keys) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateLocked()
	s.broker = KeyBroker{pushed: &k}
	if s.pushed == nil {
		s.pushed = make(map[string]string)
	}
	s.pushed[k.AccessKeyID] = k.SecretAccessKey
}

// SecretOf returns the secret of a key that this Metadata gave out, empty for others: what [CheckSigV4] wants to know.
func (m *Metadata) SecretOf(accessKeyID string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateLocked()
	if secret, ok := s.pushed[accessKeyID]; ok {
		return secret
	}
	var n int
	if _, err := fmt.Sscanf(accessKeyID, "SORTIETEST%d", &n); err != nil || n < 1 || n > s.number {
		return ""
	}
	if k := testKeys(n); k.AccessKeyID == accessKeyID {
		return k.SecretAccessKey
	}
	return ""
}

// KeysIssued returns how many different keys have been given out, those of Push apart.
func (m *Metadata) KeysIssued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current.number
}

func testKeys(n int) Keys {
	return Keys{
		AccessKeyID:     fmt.Sprintf("SORTIETEST%04d", n),
		SecretAccessKey: fmt.Sprintf("sortietest-secret-%04d", n),
		SessionToken:    fmt.Sprintf("sortietest-session-%04d", n),
	}
}

// keysLocked returns the keys of the next answer.
func (s *metadataState) keysLocked(now time.Time) Keys {
	if s.broker.pushed != nil {
		return *s.broker.pushed
	}
	if s.keys.AccessKeyID == "" || s.wantsNew(now) {
		life := s.answer.Life
		if life == 0 {
			life = time.Hour
		}
		if s.broker.session > 0 {
			life = s.broker.session
		}
		s.number++
		s.keys, s.since = testKeys(s.number), now
		s.keys.Expires = now.Add(life)
	}
	return s.keys
}

func (s *metadataState) wantsNew(now time.Time) bool {
	b := s.broker
	switch {
	case b.same:
		return false
	case b.cache > 0:
		return now.Sub(s.since) >= b.cache
	case b.left > 0:
		return s.keys.Expires.Sub(now) <= b.left
	}
	return true
}

// metadataJournal is what a Metadata has seen. Metadata.mu guards it.
type metadataJournal struct {
	stats    MetadataStats
	requests []MetadataRequest
}

// MetadataStats counts what a [Metadata] has seen.
type MetadataStats struct {
	Requests    map[MetadataPlace]int         // that arrived
	Statuses    map[MetadataPlace]map[int]int // that were answered, by status; 0 are those without an answer
	InFlight    int                           // that are being answered, or hang
	MaxInFlight int                           // the most there were at a time
	V1Reads     int                           // reads of the instance's metadata without a token
}

// Total returns how many requests arrived.
func (s MetadataStats) Total() (n int) {
	for _, of := range s.Requests {
		n += of
	}
	return n
}

// MetadataRequest is what a [Metadata] remembers of a request.
type MetadataRequest struct {
	Time   time.Time // of arrival
	Place  MetadataPlace
	Status int    // of the answer; 0 if there was none
	Key    string // the access key that was given out; empty if there was none
	Token  string // the container's Authorization, or the web identity token
}

const keepMetadataRequests = 256

// Stats returns the counts as they are now.
func (m *Metadata) Stats() MetadataStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.journal.stats
	s.Requests = maps.Clone(s.Requests)
	s.Statuses = maps.Clone(s.Statuses)
	for place, of := range s.Statuses {
		s.Statuses[place] = maps.Clone(of)
	}
	return s
}

// Seen returns the last 256 requests, in the order in which they were answered.
func (m *Metadata) Seen() []MetadataRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.journal.requests)
}
