// Package breaker decides whether anything may be sent to one endpoint.
//
// A [Breaker] is closed while the endpoint answers. It opens after so many failures in a row, or when so large a share of
// the attempts that ended within the window failed. Open, it admits nothing for a while; then it is half-open and admits a
// few probes: if all succeed it closes, and the first that fails opens it again.
//
// An attempt asks for a [Permit] before it is sent and reports through it, once, how it ended. Failed and OK count;
// [Neutral] moves no counter and, half-open, gives the probe's place to another. Which outcome is which is the caller's
// judgement: a call that its caller cancelled is not the endpoint's failure.
//
// # What is held at bay
//
// The state machine is [github.com/sony/gobreaker/v2], used nowhere else. What it does that nobody expects, and where that
// is dealt with:
//
//	its callbacks run under its mutex            changes go to a queue, delivered in order outside all locks   notify.go
//	an unreported permit is held for ever        permits report once; a probe's expires                        probe.go
//	its count of failures in a row decays        we count, in the callback that sees each counted result       core.go
//	its requests include running, neutral ones   the share is of successes and failures                        core.go
//	without an interval nothing is ever reset    the window is always set, in ten buckets that roll            core.go
//	the open time has no jitter                  each breaker draws its own, once                              core.go
//	its settings cannot change                   Reload builds a breaker that keeps the old one's word         reload.go
//	it counts any error as a failure             it is given our outcomes and never an error of a transport    permit.go
//
// Lock order: gobreaker's mutex, then Breaker.mu, then notifier.mu. Nothing of gobreaker is called under the latter two.
package breaker
