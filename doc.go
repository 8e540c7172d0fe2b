// Package sortie is the map of a library for services that call other services. It holds no code; the packages below it do.
//
// A sortie is a mission that goes out and comes back, and so is an outbound call. This is the path of one:
//
//	caller ─▶ client.Client
//	  route      which upstream, and which side of it: internal or external
//	  deadline   the time for all of it, body included
//	  limit      one of a bounded number of slots
//	  retry      attempts, within a budget
//	  hedge      a second attempt while the first is slow
//	  pick       an endpoint that is healthy and least loaded
//	  sign       credentials, on what is really sent
//	  wire       a connection from that endpoint's pool
//	caller ◀── response ── report: where the time went
//
// The packages:
//
//   - client: one call, down to the wire and back
//   - dnscache: names to addresses, remembered; useful without client
//   - creds: AWS credentials and bearer tokens, refreshed ahead; signers
//   - facade: many calls, one answer, under one deadline
//   - metrics: OpenTelemetry measurements and spans of all of these, and the middleware an autoscaler needs
//   - sortietest: a test kit of upstreams, DNS and metadata services that fail in scripted ways
//
// The module's DESIGN.md tells how they fit together and why.
package sortie
