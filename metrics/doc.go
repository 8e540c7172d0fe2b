// Package metrics measures what Sortie does, in the terms of OpenTelemetry: instruments, spans, and one gauge that an
// autoscaler can act on.
//
// # Use
//
// Make one [Metrics] for the process and give it to the packages that are to be measured:
//
//	m, err := metrics.New(metrics.Config{})              // OpenTelemetry's global providers
//	if err != nil { … }                                  // mistakes in the Config, all at once
//	defer m.Close()
//	res := &dnscache.Resolver{Metrics: m}
//	cache, err := creds.New(source, creds.Config{Name: "role", Metrics: m})
//	o := facade.Options{Name: "page", Metrics: m}
//
// The module imports OpenTelemetry's API only. Which SDK and exporter stand behind it is the program's choice; without any
// nothing is recorded. A nil *Metrics is off, so a program without telemetry leaves the fields empty.
//
// INSTRUMENTS.md beside this file lists every instrument with its attributes and their values.
//
// # Inbound requests
//
// Wrap the service's mux in [Metrics.Inbound], and mount probes and /metrics outside of it:
//
//	mux.Handle("GET /items/{id}", items)
//	outer.Handle("/", m.Inbound(mux))
//	outer.Handle("GET /healthz", healthy)
//
// That gives the gauge queries_per_second: arrivals over the last full seconds (Config.Window), one value for the process,
// which falls with the clock when traffic stops, counts requests that hang, and is absent while it is not known. Beside it
// stands the counter sortie.inbound.requests, which is the truth. Three traps:
//
//   - Take the gauge as it is, or a rate of the counter; never a rate or an average of the gauge, which smooths twice and
//     acts late.
//   - The window of a rate holds at least four scrapes, 1 min at 15 s, and no more than it must: each minute more lets the
//     autoscaler act about half a minute later.
//   - In Prometheus the gauge keeps its name because it has no unit, and the counter becomes
//     sortie_inbound_requests_total. A view that gives the gauge a unit renames it.
//
// Calls made with a request's context, or one derived from it, belong to its scope: how many there are, and for how much
// of the time at least one was open, are recorded by route. Config.OnScope gets the whole, call by call. A job opens a scope
// of its own by [Metrics.StartScope].
//
// # Traces
//
// A call is an INTERNAL span, "call catalog", and each of its attempts a CLIENT span below it, as the semantic conventions
// ask: retries and hedges are attempts. An attempt's span ends with the response's headers, and its histogram says the same
// as its span; the call's ends with the body.
//
// An attempt is recorded later than it ends: when its body is over, since a body that breaks is a failed attempt and only its
// end tells. Its CLIENT span and http.client.request.duration then get the time to the headers, as the span's end and as the value
// of the histogram. So of a download of ten minutes neither is seen for ten minutes, and of one that is never closed nothing
// is until its context ends; sortie.call.active shows such calls meanwhile.
//
// Both spans carry the time account, as sortie.phase.* in seconds. URLs are cleaned by [RedactURL]. Trace context is sent to
// both sides, baggage to internal endpoints only. A call that its caller cancelled is no error.
//
// # What may be an attribute
//
// Only what the configuration or this package chose: names of upstreams, configured hosts, routes, words of closed sets.
// Never a path, a peer's address, a host that came with a request, or the text of an error. All open sets are bounded, each
// instrument has at most 1,500 attribute sets, and what would be more is folded into "_OTHER" with its error type kept;
// [Stats] and sortie.metrics.folded count that.
//
// # Costs
//
// A measurement allocates nothing once its attributes have been seen, and takes no lock of ours; most of its time is the
// SDK's. A call of one attempt makes about ten. Spans cost what the SDK takes for them, and nothing while there is no
// TracerProvider. An inbound request costs four allocations.
//
// # For Sortie's own packages
//
// [Upstream], [Endpoint], [CallSpan], [AttemptSpan], [Resolver], [Credential] and [Facade] with what belongs to them are how
// the other packages of this module report what happened. Programs have no use for them.
package metrics
