package metrics

import "fmt"

// Phase is one part of the wall time of a call. The phases of a call are a partition: at each instant the call is in
// exactly one of them, so their sum is the call's duration. client.Report, the phase histogram and the debug page all
// speak of these same phases.
//
// The zero value is [PhaseCache]; a phase is never "unset". Whether a phase happened at all is kept beside its duration,
// because a phase that took no measurable time is not the same as one that did not happen.
type Phase uint8

// The phases, in the order in which a call usually meets them.
const (
	PhaseCache      Phase = iota // in cache look-up, or waiting for another call's fill
	PhaseQueue                   // waiting for a slot of the limit
	PhaseBackoff                 // between two attempts
	PhaseHedgeWait               // from the first attempt until the winning hedge was sent
	PhaseCredential              // inside the signer
	PhaseAcquire                 // waiting for a connection, less the dial made for this call
	PhaseDNS                     // waiting for the name lookup of a dial made for this call
	PhaseConnect                 // waiting for that dial's connection
	PhaseTLS                     // waiting for that dial's handshake
	PhaseWrite                   // from the connection in hand to the last byte of the request
	PhaseServer                  // from there to the response's headers
	PhaseBody                    // inside Read of the response's body
	PhaseCaller                  // between those Reads and up to Close: the application's own time
	PhaseOther                   // what is left

	// NumPhases is the number of phases; valid phases are below it.
	NumPhases
)

var phaseNames = [NumPhases]string{
	PhaseCache:      "cache",
	PhaseQueue:      "queue",
	PhaseBackoff:    "backoff",
	PhaseHedgeWait:  "hedge_wait",
	PhaseCredential: "credential",
	PhaseAcquire:    "acquire",
	PhaseDNS:        "dns",
	PhaseConnect:    "connect",
	PhaseTLS:        "tls",
	PhaseWrite:      "write",
	PhaseServer:     "server",
	PhaseBody:       "body",
	PhaseCaller:     "caller",
	PhaseOther:      "other",
}

// String returns the phase's name as it stands in metrics, reports and on the page, such as "hedge_wait".
func (p Phase) String() string {
	if p >= NumPhases {
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
	return phaseNames[p]
}
