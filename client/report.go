package client

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Report says what happened in one call. It is a value that nobody changes afterwards; its Attempts must not be changed
// either. The zero value is the report of no call.
//
// [ReportOf] gives the state so far, [Error.Report] and Config.OnCall the final one. Query strings, user info, headers
// and bodies are never in it.
type Report struct {
	Upstream string // name; "_unlisted" for hosts that no upstream lists
	Side     Side   // the side the call was made from
	Tier     Side   // the list its endpoint came from; AutoSide if the URL was used as it was, or no endpoint was chosen

	Method   string
	Template string // from WithTemplate
	Host     string // logical host, as in the request's URL
	Path     string // logical path, escaped

	Start    time.Time
	Duration time.Duration // to the end of the body, or so far
	Ended    bool          // false in a report of a call whose body is still open

	Reason      Reason
	Status      int           // of the response; 0 if there was none
	Stopped     Stopped       // why there was no further attempt
	QueueWait   time.Duration // in the queue of the limit
	QueueLength int           // calls that were waiting there when this one came
	Panic       bool          // so few endpoints were left that ejection was ignored
	Shadow      []string      // what policies in shadow mode would have done
	Unclosed    bool          // the body was neither read to its end nor closed when the total time was over
	TimeLeft    time.Duration // until the call's deadline, at its end; 0 if it had none

	BytesSent     int64 // request bytes written, as far as the connection knows; an estimate on HTTP/2
	BytesReceived int64 // body bytes the caller has read

	Moves            int  // attempts made because an endpoint could not be reached
	Hedged, HedgeWon bool // a second attempt was made beside a slow one, and brought the answer
	Retries          int  // attempts made after a wait
	Attempts         []Attempt
	Account          Account // where the time went; its phases add up to Duration

	neverSent bool
}

// Attempt is one request on the wire.
type Attempt struct {
	Number   int // from 1
	Kind     Kind
	Wait     time.Duration // before it
	Endpoint string        // base: scheme and host
	Start    time.Duration // after the start of the call
	Duration time.Duration // to its failure, or to the end of its body
	Reason   Reason
	Status   int
	Conn     Conn
	Account  Account
}

// Kind says why an attempt was made.
type Kind uint8

const (
	KindFirst  Kind = iota
	KindMove        // the endpoint before could not be reached, and another was at hand
	KindRetry       // the one before brought no acceptable answer
	KindHedge       // the one before was slow
	KindResign      // the one before was rejected for a key or date that has been replaced
)

// String returns "first", "move", "retry", "hedge" or "resign".
func (k Kind) String() string {
	if names := [...]string{"first", "move", "retry", "hedge", "resign"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Conn is the connection that an attempt used. Of an attempt that never had one it is the zero value, and so it is where
// Upstream.Transport is set, whose connections are its own.
type Conn struct {
	ID       uint64         // unique within the client; 0 is none
	Remote   netip.AddrPort // the peer, or the proxy
	Proto    string         // "HTTP/1.1" or "HTTP/2.0"
	Reused   bool
	IdleTime time.Duration // before this attempt
	Age      time.Duration // when the attempt got it
	Sends    int           // more than 1: the request was sent again because the connection before was stale
}

// ReportOf returns the report, so far, of the call that brought resp. It finds it also when an [http.Client] has put a
// body of its own around ours. The zero Report if resp is nil or was not brought by a Client.
func ReportOf(resp *http.Response) Report {
	if resp == nil || resp.Request == nil {
		return Report{}
	}
	c, ok := resp.Request.Context().Value(callKey{}).(*call)
	if !ok {
		return Report{}
	}
	return c.report()
}

// ErrorType returns the call's value of the error.type attribute; "" if nothing went wrong.
func (r Report) ErrorType() string {
	return errorType(r.Reason, r.Status).String()
}

// String returns the call in one line and its account, such as
// "GET api.shop.example/items/7 (catalog, internal): ok 200 in 4.1ms [acquire 10µs, write 20µs, server 3.1ms]".
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s (%s, %s): %s", r.Method, r.Host, r.Path, r.Upstream, r.Side, r.Reason)
	if r.Status != 0 {
		fmt.Fprintf(&b, " %d", r.Status)
	}
	fmt.Fprintf(&b, " in %v [%s]", roundForPeople(r.Duration), r.Account)
	return b.String()
}
