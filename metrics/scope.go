package metrics

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// maxRecords is how many calls of a scope are kept; the rest is only counted.
const maxRecords = 128

// Scope is one inbound request, or one job, with the calls made for it. It travels in the context: every call that is made
// with that context, or one derived from it, belongs to it. A nil *Scope is off. It is safe for concurrent use.
type Scope struct {
	m     *Metrics
	name  string
	start time.Time

	mu      sync.Mutex
	spans   []interval   // of the calls that are listed
	records []CallRecord // the same calls for Config.OnScope; none without it
	calls   int
	ended   bool // from then on nothing changes
}

// CallRecord is a call as a row of its scope's waterfall. Start and End are offsets from the start of the scope.
type CallRecord struct {
	Upstream, Method, Template string

	Start, End time.Duration
	Late       bool // it had not ended when the scope did: only its start is known

	Status   int
	Error    ErrorType
	Cache    string        // hit, miss, …; "" without a cache
	KeyHash  uint64        // of the cache key; equal hashes are equal questions
	TimeLeft time.Duration // until its deadline, at its end; 0 if it had none

	Phases   Phases
	Attempts []AttemptRecord
}

// AttemptRecord is an attempt as a row below its call. Start and End are offsets from the start of the call in
// Call.Records, and from the start of the scope in a ScopeReport.
type AttemptRecord struct {
	Kind       string // first, move, retry, hedge or resign
	Endpoint   string // scheme and host
	Start, End time.Duration
	Status     int
	Error      ErrorType
	Phases     Phases
}

// ScopeReport tells how a scope went. It belongs to whom it is given.
type ScopeReport struct {
	Name     string // route of the request, or name of the job; "" if no route matched
	Start    time.Time
	Duration time.Duration
	Status   int // of the answer; 0 for a job

	Calls   int          // made in it
	Late    int          // of those listed, how many had not ended with it
	Records []CallRecord // the first 128 of them, by their start

	// Waiting is the wall time with at least one call open: they, and not us. Own is the rest. Late calls, and those that
	// are not listed, are left out.
	Waiting, Own time.Duration

	// Chain is the longest sequence of calls of which no two overlapped, as indexes of Records: what might have run side
	// by side.
	Chain []int
}

type scopeKey struct{}

// StartScope begins a scope for a job: an item from a queue, a run by timer. The name should come from a small set. End it
// when the job is done. Inbound requests get theirs from [Metrics.Inbound]. If m is nil, so is the scope.
func (m *Metrics) StartScope(ctx context.Context, name string) (context.Context, *Scope) {
	if m == nil {
		return ctx, nil
	}
	s := &Scope{m: m, name: name, start: time.Now()}
	return context.WithValue(ctx, scopeKey{}, s), s
}

// ScopeOf returns the scope that ctx belongs to, nil if there is none.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// End ends the scope, records what was derived from its calls, and hands it to Config.OnScope. Only the first call has an
// effect.
func (s *Scope) End() {
	if s != nil {
		s.finish(detached(), time.Now(), 0)
	}
}

// begin notes that a call has begun, and returns where it is listed; -1 if it is only counted.
func (s *Scope) begin(upstream string, start time.Time) (slot int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return -1
	}
	s.calls++
	if len(s.spans) == maxRecords {
		return -1
	}
	if s.spans == nil {
		s.spans = make([]interval, 0, 8) // enough for most
	}
	offset := start.Sub(s.start)
	s.spans = append(s.spans, interval{offset, open})
	if s.keeps() {
		s.records = append(s.records, CallRecord{Upstream: upstream, Start: offset, Late: true})
	}
	return int16(len(s.spans) - 1)
}

func (s *Scope) keeps() bool { return s.m.cfg.OnScope != nil }

// end notes the end of the call that is listed in slot. After the scope has ended it comes too late.
func (s *Scope) end(slot int16, c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot < 0 || s.ended {
		return
	}
	s.spans[slot].end = s.spans[slot].start + c.Duration
	if s.keeps() {
		s.records[slot].fill(c)
	}
}

func (r *CallRecord) fill(c *Call) {
	r.Late, r.End = false, r.Start+c.Duration
	r.Method, r.Template, r.Status, r.Error, r.Cache = c.Method, c.Template, c.Status, c.Error, c.Cache
	r.KeyHash, r.TimeLeft, r.Phases = c.KeyHash, c.TimeLeft, c.Phases
	r.Attempts = c.Records
	for i := range r.Attempts { // offsets of the call until here
		r.Attempts[i].Start += r.Start
		r.Attempts[i].End += r.Start
	}
}

// finish closes the scope's books.
func (s *Scope) finish(ctx context.Context, now time.Time, status int) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	s.mu.Unlock()

	k, waiting := key{s.m.routes.value(s.name)}, union(s.spans)
	s.m.size(ctx, inboundCalls, int64(s.calls), k)
	s.m.took(ctx, inboundWaiting, waiting, k)
	if s.keeps() {
		rep := ScopeReport{
			Name: s.name, Start: s.start, Duration: now.Sub(s.start), Status: status, Calls: s.calls, Records: s.records,
			Waiting: waiting,
		}
		rep.derive()
		s.m.cfg.OnScope(rep)
	}
}

// An interval is when a call was open, as offsets from the start of its scope.
type interval struct{ start, end time.Duration }

// open is the end of a call that has none yet.
const open time.Duration = -1

// union is the time that lies in at least one of the intervals, which it sorts. Those without an end do not count.
func union(all []interval) (sum time.Duration) {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	var until time.Duration // up to here it is known who waited
	for _, c := range all {
		if c.end > until {
			sum += c.end - max(c.start, until)
			until = c.end
		}
	}
	return sum
}

// derive computes what follows from the records and the waiting time.
func (r *ScopeReport) derive() {
	slices.SortStableFunc(r.Records, func(a, b CallRecord) int { return cmp.Compare(a.Start, b.Start) })
	for i := range r.Records {
		if c := &r.Records[i]; c.Late {
			c.End = r.Duration
			r.Late++
		}
	}
	r.Own = r.Duration - r.Waiting
	r.Chain = chain(r.Records)
}

// chain picks the most calls of which no two overlap: always the one that ends first among those that begin after the last
// one picked.
func chain(records []CallRecord) []int {
	byEnd := make([]int, 0, len(records))
	for i, c := range records {
		if !c.Late {
			byEnd = append(byEnd, i)
		}
	}
	slices.SortStableFunc(byEnd, func(a, b int) int { return cmp.Compare(records[a].End, records[b].End) })
	var out []int
	for _, i := range byEnd {
		if len(out) == 0 || records[i].Start >= records[out[len(out)-1]].End {
			out = append(out, i)
		}
	}
	return out
}
