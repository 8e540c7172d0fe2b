package metrics

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// other is the value of an attribute whose true value is not one of its set.
const other = "_OTHER"

// The keys of our own attributes.
const (
	keyUpstream  = attribute.Key("sortie.upstream")
	keySide      = attribute.Key("sortie.side")
	keyReason    = attribute.Key("sortie.reason")
	keyOutcome   = attribute.Key("sortie.outcome")
	keyCache     = attribute.Key("sortie.cache.status")
	keyPhase     = attribute.Key("sortie.phase")
	keyState     = attribute.Key("sortie.endpoint.state")
	keyReused    = attribute.Key("sortie.connection.reused")
	keyStep      = attribute.Key("sortie.connection.step")
	keyDNSResult = attribute.Key("sortie.dns.result")
	keyRcode     = attribute.Key("sortie.dns.rcode")
	keySource    = attribute.Key("sortie.credential.source")
	keyFacade    = attribute.Key("sortie.facade.name")
	keyPart      = attribute.Key("sortie.part.name")
	keyFolded    = attribute.Key("sortie.instrument")
	keyAttempts  = attribute.Key("sortie.attempts")
	keyHedge     = attribute.Key("sortie.hedge")
)

// A dimension is what an attribute of an instrument can be. An instrument has at most six.
type dimension uint8

const (
	byUpstream dimension = iota
	bySide
	byMethod
	byErrorType
	byCacheStatus
	byPhase
	byRetryReason
	byRetryOutcome
	byRetryRefusal
	byHedgeOutcome
	byHedgeRefusal
	byState
	byLimitRefusal
	byCloseReason
	byReused
	byStep
	byDNSResult
	byRcode
	byQuestion
	bySource
	byFetchReason
	byCredentialEvent
	byFacade
	byFacadeOutcome
	byPart
	byPartOutcome
	byRoute
	byScheme
	byStatus
	byProtocol
	byEndpoint // server.address and server.port
	byConnState
	byInstrument

	numDimensions
)

// dimensions is the table of attributes. A dimension without values is open: its values come from configuration and are
// bounded in number, or are numbers themselves.
var dimensions = [numDimensions]struct {
	key      attribute.Key
	values   []string // the closed set
	optional bool     // absent if it is none of the set, else "_OTHER"
	bound    string   // of an open one, in words
}{
	byUpstream:        {key: keyUpstream, bound: "names of upstreams, at most Config.MaxUpstreams"},
	bySide:            {key: keySide, values: []string{"internal", "external"}},
	byMethod:          {key: semconv.HTTPRequestMethodKey, bound: "the methods of HTTP and those of Config.Methods"},
	byErrorType:       {key: semconv.ErrorTypeKey, optional: true, bound: "see above"},
	byCacheStatus:     {key: keyCache, values: []string{"hit", "miss", "stale", "revalidated", "bypass", "coalesced"}, optional: true},
	byPhase:           {key: keyPhase, values: phaseNames[:]},
	byRetryReason:     {key: keyReason, values: []string{"connect", "reset", "timeout", "status", "credential", "other"}},
	byRetryOutcome:    {key: keyOutcome, values: []string{"ok", "failed"}},
	byRetryRefusal:    {key: keyReason, values: []string{"limit", "budget", "breaker_open", "deadline", "not_replayable", "not_idempotent", "draining"}},
	byHedgeOutcome:    {key: keyOutcome, values: []string{"won", "lost", "failed"}},
	byHedgeRefusal:    {key: keyReason, values: []string{"limit", "budget", "no_other_endpoint", "not_replayable", "not_idempotent", "panic", "draining"}},
	byState:           {key: keyState, values: []string{"closed", "half_open", "open", "ejected"}},
	byLimitRefusal:    {key: keyReason, values: []string{"full", "wait", "deadline", "draining"}},
	byCloseReason:     {key: keyReason, values: []string{"idle_timeout", "idle_limit", "age", "dns_gone", "undrained", "server", "goaway", "error", "shutdown"}},
	byReused:          {key: keyReused, values: []string{"false", "true"}},
	byStep:            {key: keyStep, values: []string{"dns", "connect", "tls"}},
	byDNSResult:       {key: keyDNSResult, values: []string{"miss", "coalesced", "stale", "negative", "error"}},
	byRcode:           {key: keyRcode, values: []string{"noerror", "nxdomain", "servfail", "other"}},
	byQuestion:        {key: semconv.DNSQuestionNameKey, bound: "configured hosts of endpoints"},
	bySource:          {key: keySource, bound: "names of sources, at most 50"},
	byFetchReason:     {key: keyReason, values: []string{"cold", "ahead", "rejected", "forced"}},
	byCredentialEvent: {key: keyReason, values: []string{"blocked", "unchanged", "clamped", "stale_served", "rejected"}},
	byFacade:          {key: keyFacade, bound: "names of facades, at most 50"},
	byFacadeOutcome:   {key: keyOutcome, values: []string{"complete", "degraded", "failed"}},
	byPart:            {key: keyPart, bound: "names of parts, at most 50 of a facade"},
	byPartOutcome:     {key: keyOutcome, values: []string{"ok", "fallback", "skipped", "failed", "cancelled", "unused", "late"}},
	byRoute:           {key: semconv.HTTPRouteKey, optional: true, bound: "routes of the service and names of jobs, at most 200"},
	byScheme:          {key: semconv.URLSchemeKey, values: []string{"http", "https"}},
	byStatus:          {key: semconv.HTTPResponseStatusCodeKey, optional: true, bound: "from 100 to 599"},
	byProtocol:        {key: semconv.NetworkProtocolVersionKey, values: []string{"1.0", "1.1", "2", "3"}, optional: true},
	byEndpoint:        {key: semconv.ServerAddressKey, bound: "as configured, at most 500; the host is never an address that was resolved"},
	byConnState:       {key: semconv.HTTPConnectionStateKey, values: []string{"active", "idle"}},
	byInstrument:      {key: keyFolded, bound: "names of this table"},
}

// valueOf returns the number of a word of a closed set; 0, which stands for "_OTHER" or absence, if it is none.
func (d dimension) valueOf(word string) value {
	return value(slices.Index(dimensions[d].values, word) + 1)
}

// word is the reverse of valueOf.
func (d dimension) word(v value) (string, bool) {
	values := dimensions[d].values
	if v == 0 || int(v) > len(values) {
		return other, !dimensions[d].optional
	}
	return values[v-1], true
}

func boolValue(b bool) value {
	if b {
		return 2
	}
	return 1
}

// protocolValue numbers what http.Request.Proto and pool.Info.Proto say.
func protocolValue(proto string) value {
	switch proto {
	case "HTTP/1.1":
		return 2
	case "HTTP/2.0":
		return 3
	case "HTTP/1.0":
		return 1
	case "HTTP/3.0":
		return 4
	}
	return 0
}

// statusValue is the status code itself, if HTTP has it.
func statusValue(status int) value {
	if status < 100 || status > 599 {
		return 0
	}
	return value(status)
}

// A key is the attribute set of a measurement: a value for each dimension of its instrument, in their order.
type key [6]value

// An address is what an endpoint was configured with.
type address struct {
	host string
	port int
}

// attributes spells a key out.
func (m *Metrics) attributes(id instrument, k key) []attribute.KeyValue {
	var out []attribute.KeyValue
	for i, d := range table[id].by {
		out = m.appendAttributes(out, d, k[i])
	}
	return out
}

func (m *Metrics) appendAttributes(out []attribute.KeyValue, d dimension, v value) []attribute.KeyValue {
	k := dimensions[d].key
	switch d {
	case byUpstream:
		return append(out, k.String(nameOf(&m.upstreams, v)))
	case bySource:
		return append(out, k.String(nameOf(&m.sources, v)))
	case byFacade:
		return append(out, k.String(nameOf(&m.facades, v)))
	case byPart:
		return append(out, k.String(m.partOf(v)))
	case byRoute:
		if v == unnamed { // as the conventions want it: no route, no attribute
			return out
		}
		return append(out, k.String(nameOf(&m.routes, v)))
	case byQuestion:
		return append(out, k.String(nameOf(&m.hosts, v)))
	case byMethod:
		return append(out, k.String(m.methods.name(v)))
	case byInstrument:
		return append(out, k.String(table[v].name))
	case byReused:
		return append(out, k.Bool(v == boolValue(true)))
	case byStatus:
		if v == 0 {
			return out
		}
		return append(out, k.Int(int(v)))
	case byErrorType:
		if v == 0 {
			return out
		}
		return append(out, k.String(ErrorType(v).String()))
	case byEndpoint:
		a, ok := m.endpoints.name(v)
		if !ok { // of a port that nobody configured nothing is said
			return append(out, k.String(other))
		}
		return append(out, k.String(a.host), semconv.ServerPort(a.port))
	}
	if word, present := d.word(v); present {
		return append(out, k.String(word))
	}
	return out
}

func nameOf(n *names[string], v value) string {
	if name, ok := n.name(v); ok {
		return name
	}
	return other
}

// folded reports whether a key holds a name for which there was no room.
func (id instrument) folded(k key) bool {
	for i, d := range table[id].by {
		if d.named() && k[i] == overflow {
			return true
		}
	}
	return false
}

// named reports whether the values are those of a table of names.
func (d dimension) named() bool {
	switch d {
	case byUpstream, bySource, byFacade, byPart, byRoute, byEndpoint, byQuestion:
		return true
	}
	return false
}

// folds is how many keys fold can make.
func (id instrument) folds() int {
	n := 1
	for _, d := range table[id].by {
		switch d {
		case byErrorType:
			n *= int(numErrorTypes) + numFailures
		case byInstrument:
			n *= int(numInstruments)
		}
	}
	return n
}

// fold is the key to which measurements go when their instrument has too many attribute sets. It keeps the error type: the
// overflow of the SDK drops it, and error rates come out too low.
func (id instrument) fold(k key) key {
	var out key
	for i, d := range table[id].by {
		switch {
		case d == byErrorType || d == byInstrument:
			out[i] = k[i]
		case d.named():
			out[i] = overflow
		}
	}
	return out
}
