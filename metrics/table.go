package metrics

import (
	"go.opentelemetry.io/otel/semconv/v1.43.0/dnsconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
)

// An instrument is a row of the table.
type instrument uint8

const (
	attemptDuration instrument = iota
	attemptsActive
	connectionsOpen
	connectionDuration
	requestSize
	responseSize
	lookupDuration
	serverDuration
	serverActive
	callDuration
	callAttempts
	callsActive
	phaseDuration
	retryAttempts
	retrySuppressed
	budgetTokens
	hedgeAttempts
	hedgeSuppressed
	endpointStates
	breakerTransitions
	breakerRejected
	limitSlots
	limitWaiting
	limitRejected
	connectionOpened
	connectionClosed
	connectionAcquired
	connectionRequests
	setupDuration
	portUtilization
	dnsLookups
	dnsQuestions
	fetchDuration
	credentialLifetime
	credentialRemaining
	credentialEvents
	facadeDuration
	facadeParts
	inboundRequests
	queriesPerSecond
	inboundCalls
	inboundWaiting
	foldedMeasurements

	numInstruments
)

// A kind is how an instrument adds up.
type kind uint8

const (
	histogramSeconds kind = iota
	histogramCount
	counter
	upDown
	gaugeSeconds
	observedCounter
	observedUpDown
	observedGauge
	observedSeconds // a gauge too
)

var kindNames = [...]string{
	histogramSeconds: "histogram", histogramCount: "histogram", counter: "counter", upDown: "updown", gaugeSeconds: "gauge",
	observedCounter: "counter, observed", observedUpDown: "updown, observed", observedGauge: "gauge, observed", observedSeconds: "gauge, observed",
}

var (
	secondsBuckets     = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	callBuckets        = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60}
	phaseBuckets       = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	attemptBuckets     = []float64{1, 2, 3, 4, 5, 8}
	connectionBuckets  = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
	perConnBuckets     = []float64{1, 2, 5, 10, 50, 100, 1000}
	inboundCallBuckets = []float64{0, 1, 2, 3, 5, 8, 13, 21, 34, 55}
	sizeBuckets        = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
)

// table has every instrument that this module emits: New makes them from it, and the documentation and the golden tests
// are made from it too. Names, units and descriptions of the conventional ones are those of the semantic conventions.
var table = [numInstruments]struct {
	name, unit, text string
	kind             kind
	by               []dimension
	buckets          []float64
	development      bool // not yet stable in the conventions: only with Config.Development
}{
	attemptDuration: {
		name: httpconv.ClientRequestDuration{}.Name(), unit: httpconv.ClientRequestDuration{}.Unit(),
		text: httpconv.ClientRequestDuration{}.Description(),
		by:   []dimension{byMethod, byEndpoint, byStatus, byErrorType, byProtocol}, buckets: secondsBuckets,
	},
	attemptsActive: {
		name: httpconv.ClientActiveRequests{}.Name(), unit: httpconv.ClientActiveRequests{}.Unit(),
		text: httpconv.ClientActiveRequests{}.Description(), development: true,
		kind: upDown, by: []dimension{byEndpoint, byMethod},
	},
	connectionsOpen: {
		name: httpconv.ClientOpenConnections{}.Name(), unit: httpconv.ClientOpenConnections{}.Unit(),
		text: httpconv.ClientOpenConnections{}.Description(), development: true,
		kind: observedUpDown, by: []dimension{byConnState, byEndpoint},
	},
	connectionDuration: {
		name: httpconv.ClientConnectionDuration{}.Name(), unit: httpconv.ClientConnectionDuration{}.Unit(),
		text: httpconv.ClientConnectionDuration{}.Description(), development: true,
		by: []dimension{byEndpoint, byProtocol}, buckets: connectionBuckets,
	},
	requestSize: {
		name: httpconv.ClientRequestBodySize{}.Name(), unit: httpconv.ClientRequestBodySize{}.Unit(),
		text: httpconv.ClientRequestBodySize{}.Description(), development: true, kind: histogramCount,
		by: []dimension{byMethod, byEndpoint, byStatus, byErrorType, byProtocol}, buckets: sizeBuckets,
	},
	responseSize: {
		name: httpconv.ClientResponseBodySize{}.Name(), unit: httpconv.ClientResponseBodySize{}.Unit(),
		text: httpconv.ClientResponseBodySize{}.Description(), development: true, kind: histogramCount,
		by: []dimension{byMethod, byEndpoint, byStatus, byErrorType, byProtocol}, buckets: sizeBuckets,
	},
	lookupDuration: {
		name: dnsconv.LookupDuration{}.Name(), unit: dnsconv.LookupDuration{}.Unit(),
		text: dnsconv.LookupDuration{}.Description(), development: true,
		by: []dimension{byQuestion, byErrorType}, buckets: secondsBuckets,
	},
	serverDuration: {
		name: httpconv.ServerRequestDuration{}.Name(), unit: httpconv.ServerRequestDuration{}.Unit(),
		text: httpconv.ServerRequestDuration{}.Description(),
		by:   []dimension{byMethod, byScheme, byRoute, byStatus, byErrorType, byProtocol}, buckets: secondsBuckets,
	},
	serverActive: {
		name: httpconv.ServerActiveRequests{}.Name(), unit: httpconv.ServerActiveRequests{}.Unit(),
		text: httpconv.ServerActiveRequests{}.Description(), development: true,
		kind: upDown, by: []dimension{byMethod, byScheme},
	},
	callDuration: {
		name: "sortie.call.duration", unit: "s", text: "Duration of calls, all attempts and the body included.",
		by: []dimension{byUpstream, bySide, byMethod, byErrorType, byCacheStatus}, buckets: callBuckets,
	},
	callAttempts: {
		name: "sortie.call.attempts", unit: "{attempt}", text: "Attempts of a call that made any.",
		kind: histogramCount, by: []dimension{byUpstream, byErrorType}, buckets: attemptBuckets,
	},
	callsActive: {
		name: "sortie.call.active", unit: "{call}", text: "Calls that have not ended yet.",
		kind: observedUpDown, by: []dimension{byUpstream},
	},
	phaseDuration: {
		name: "sortie.call.phase.duration", unit: "s", text: "Time that a call spent in a phase, if that happened.",
		by: []dimension{byUpstream, byPhase}, buckets: phaseBuckets,
	},
	retryAttempts: {
		name: "sortie.retry.attempts", unit: "{attempt}", text: "Retries that have ended.",
		kind: counter, by: []dimension{byUpstream, byRetryReason, byRetryOutcome},
	},
	retrySuppressed: {
		name: "sortie.retry.suppressed", unit: "{retry}", text: "Retries that would have been made, and why they were not.",
		kind: counter, by: []dimension{byUpstream, byRetryRefusal},
	},
	budgetTokens: {
		name: "sortie.retry.budget.tokens", unit: "{token}", text: "Retries and hedges that the budget would still pay for.",
		kind: observedGauge, by: []dimension{byUpstream},
	},
	hedgeAttempts: {
		name: "sortie.hedge.attempts", unit: "{attempt}", text: "Second attempts beside slow ones.",
		kind: counter, by: []dimension{byUpstream, byHedgeOutcome},
	},
	hedgeSuppressed: {
		name: "sortie.hedge.suppressed", unit: "{attempt}", text: "Hedges that would have been made, and why they were not.",
		kind: counter, by: []dimension{byUpstream, byHedgeRefusal},
	},
	endpointStates: {
		name: "sortie.endpoints", unit: "{endpoint}", text: "Endpoints in each state.",
		kind: observedUpDown, by: []dimension{byUpstream, bySide, byState},
	},
	breakerTransitions: {
		name: "sortie.breaker.transitions", unit: "{transition}", text: "Changes of breakers, by their new state.",
		kind: counter, by: []dimension{byUpstream, byState},
	},
	breakerRejected: {
		name: "sortie.breaker.rejected", unit: "{attempt}", text: "Attempts that a breaker did not admit.",
		kind: counter, by: []dimension{byUpstream},
	},
	limitSlots: {
		name: "sortie.limit.slots", unit: "{call}", text: "Calls that the limit admits at a time.",
		kind: observedGauge, by: []dimension{byUpstream},
	},
	limitWaiting: {
		name: "sortie.limit.waiting", unit: "{call}", text: "Calls in the queue of the limit.",
		kind: observedUpDown, by: []dimension{byUpstream},
	},
	limitRejected: {
		name: "sortie.limit.rejected", unit: "{call}", text: "Calls that the limit refused.",
		kind: counter, by: []dimension{byUpstream, byLimitRefusal},
	},
	connectionOpened: {
		name: "sortie.connection.opened", unit: "{connection}", text: "Dials: used, speculative, too late or failed.",
		kind: counter, by: []dimension{byUpstream, byErrorType},
	},
	connectionClosed: {
		name: "sortie.connection.closed", unit: "{connection}", text: "Connections closed, and why.",
		kind: counter, by: []dimension{byUpstream, byCloseReason},
	},
	connectionAcquired: {
		name: "sortie.connection.acquired", unit: "{attempt}", text: "Attempts that got a connection.",
		kind: counter, by: []dimension{byUpstream, byReused},
	},
	connectionRequests: {
		name: "sortie.connection.requests", unit: "{request}", text: "Requests that a connection carried, at its end.",
		kind: histogramCount, by: []dimension{byUpstream}, buckets: perConnBuckets,
	},
	setupDuration: {
		name: "sortie.connection.setup.duration", unit: "s", text: "Time of each step of setting connections up, whoever waited.",
		by: []dimension{byUpstream, byStep, byErrorType}, buckets: phaseBuckets,
	},
	portUtilization: {
		name: "sortie.port.utilization", unit: "1", text: "Local ports held towards the fullest destination, as a share of its budget.",
		kind: observedGauge, by: []dimension{byUpstream},
	},
	dnsLookups: {
		name: "sortie.dns.lookups", unit: "{lookup}", text: "Lookups of names that were no plain hit.",
		kind: counter, by: []dimension{byDNSResult},
	},
	dnsQuestions: {
		name: "sortie.dns.questions", unit: "{question}", text: "Questions that DNS servers answered.",
		kind: counter, by: []dimension{byRcode},
	},
	fetchDuration: {
		name: "sortie.credential.fetch.duration", unit: "s", text: "Time that sources of credentials took to answer.",
		by: []dimension{bySource, byFetchReason, byErrorType}, buckets: secondsBuckets,
	},
	credentialLifetime: {
		name: "sortie.credential.lifetime", unit: "s", text: "Lifetime of the newest credential at its receipt.",
		kind: gaugeSeconds, by: []dimension{bySource},
	},
	credentialRemaining: {
		name: "sortie.credential.remaining", unit: "s", text: "Time until the credential in hand expires; negative if it has.",
		kind: observedSeconds, by: []dimension{bySource},
	},
	credentialEvents: {
		name: "sortie.credential.events", unit: "{event}", text: "What should be rare for credentials.",
		kind: counter, by: []dimension{bySource, byCredentialEvent},
	},
	facadeDuration: {
		name: "sortie.facade.duration", unit: "s", text: "Duration of runs.",
		by: []dimension{byFacade, byFacadeOutcome}, buckets: secondsBuckets,
	},
	facadeParts: {
		name: "sortie.facade.parts", unit: "{part}", text: "Parts of runs.",
		kind: counter, by: []dimension{byFacade, byPart, byPartOutcome},
	},
	inboundRequests: {
		name: "sortie.inbound.requests", unit: "{request}", text: "Inbound requests, counted as they arrive.",
		kind: observedCounter,
	},
	queriesPerSecond: { // a unit would become part of the name in Prometheus
		name: "queries_per_second", text: "Inbound requests a second, over the last seconds.",
		kind: observedGauge,
	},
	inboundCalls: {
		name: "sortie.inbound.calls", unit: "{call}", text: "Outbound calls made for an inbound request.",
		kind: histogramCount, by: []dimension{byRoute}, buckets: inboundCallBuckets,
	},
	inboundWaiting: {
		name: "sortie.inbound.waiting.duration", unit: "s", text: "Time of an inbound request with at least one call open.",
		by: []dimension{byRoute}, buckets: secondsBuckets,
	},
	foldedMeasurements: {
		name: "sortie.metrics.folded", unit: "{measurement}", text: "Measurements whose attributes were folded into _OTHER.",
		kind: counter, by: []dimension{byInstrument},
	},
}
