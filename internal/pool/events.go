package pool

import (
	"net/netip"
	"time"
)

// EventKind is what happened.
type EventKind uint8

const (
	EventDialed    EventKind = iota + 1 // a dial ended, well or not (Err)
	EventAcquired                       // a request has its connection
	EventResent                         // a request goes to another connection; Conn is the one it failed on
	EventRetired                        // a connection takes no more requests and closes when its last one ends
	EventClosed                         // a connection is closed
	EventWaitEnded                      // a request that had to wait does so no more, with a connection or without (Err)
	EventBudget                         // the ports to Remote run short (Detail "warned"), or there was none for a dial ("refused"); Err has the figures
	EventGone                           // an address has left DNS for good (Remote, without port); its connections will leave
)

func (k EventKind) String() string {
	return [...]string{"none", "dialed", "acquired", "resent", "retired", "closed", "wait ended", "budget", "gone"}[k]
}

// Reason is why a connection was closed: a closed set.
type Reason uint8

const (
	ReasonError       Reason = iota // attempt cancelled on HTTP/1, reset, protocol error, ping lost, write failed
	ReasonIdleTimeout               // idle for the limit in force
	ReasonIdleLimit                 // MaxIdle, or the Group's MaxOpen
	ReasonAge                       // MaxAge
	ReasonDNSGone                   // its address left the DNS answers
	ReasonUndrained                 // a body was closed unread
	ReasonServer                    // FIN while idle, Connection: close, HTTP/1.0, 101
	ReasonGoAway                    // HTTP/2 GOAWAY
	ReasonShutdown                  // Drain or Close
	numReasons
)

func (r Reason) String() string {
	return [numReasons]string{
		ReasonError: "error", ReasonIdleTimeout: "idle_timeout", ReasonIdleLimit: "idle_limit", ReasonAge: "age",
		ReasonDNSGone: "dns_gone", ReasonUndrained: "undrained", ReasonServer: "server", ReasonGoAway: "goaway",
		ReasonShutdown: "shutdown",
	}[r]
}

// Event is one thing that happened to a connection or a request. Fields beyond the first line belong to the kinds named.
type Event struct {
	Seq    uint64 // 1, 2, 3 within a pool
	Time   time.Time
	Kind   EventKind
	Conn   uint64 // 0: a dial that failed, a wait that ended without connection
	Detail string // a finer word than Reason, Step or Rule
	Err    error  // dialed, closed, resent, wait ended: the cause, if there is one

	Setup  [3]Step        // dialed: the time of each step
	Step   StepName       // dialed with Err: the step that failed
	Remote netip.AddrPort // dialed, closed, budget, gone
	Proto  string         // dialed, acquired, closed: "HTTP/1.1", "HTTP/2.0"

	Reused   bool          // acquired
	IdleTime time.Duration // acquired, closed: how long it had been idle
	Age      time.Duration // acquired, retired, closed
	Wait     time.Duration // acquired, wait ended

	Rule Resend // resent

	Reason            Reason // retired, closed
	Requests          int    // closed: requests carried
	BytesIn, BytesOut int64  // closed
	Unread            int64  // closed as undrained: rest of the body that was declared; -1 = unknown
}
