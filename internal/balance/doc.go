// Package balance chooses the endpoint of an upstream for each attempt, and learns from how attempts went which of them
// deserve their share.
//
// A [Balancer] holds the endpoints in one or two tiers. [Balancer.Pick] draws a tier, lets the configured [Picker] choose
// in it among those that may be used, and counts the attempt as pending there. Whoever picked calls [Endpoint.Observe] when
// the outcome is known and [Endpoint.Release] when the attempt has ended, its body included. Picking reads an immutable
// set of endpoints behind an atomic pointer, and their states as atomic values: it takes no lock and allocates nothing.
//
// # What is wished for
//
// A pick takes the first of these that there is:
//
//	Fresh       available and not tried by this call, in the tier drawn
//	Spilled     likewise, in the other tier
//	Again       tried, in the tier drawn, then in the other
//	LastResort  ejected
//
// and never one whose breaker does not admit. Within each of these, an endpoint that is suspect comes behind one that is
// not, and one that slow start holds back comes behind both.
//
// # What is learnt
//
//	cost       peak EWMA of the time to headers: up at once, down slowly                                       cost.go
//	suspicion  two failures in a row: others are preferred for a second, and for longer with each further one  suspect.go
//	ejection   failing more than its peers, or several times in a row: no attempts for half a minute or more   eject.go
//	slow start a newcomer among endpoints at work, and one that comes back, gets its share by degrees          ramp.go
//
// Suspicion and slow start are preferences and cannot empty a set. Ejection is bounded, and ignored in panic: when so
// few of a tier are available that the rest would be overrun (tier.go).
//
// Lock order: Balancer.mu, then Endpoint.mu.
package balance
