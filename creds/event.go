package creds

import (
	"log/slog"
	"math/bits"
	"sync"
	"time"
)

// Trigger is what started a fetch.
type Trigger string

// The triggers.
const (
	TriggerCold     Trigger = "cold"     // there was no value
	TriggerSoft     Trigger = "soft"     // the window Soft had begun
	TriggerHard     Trigger = "hard"     // the window Hard had begun
	TriggerExpired  Trigger = "expired"  // the value had expired
	TriggerRejected Trigger = "rejected" // a service rejected the value
	TriggerPoll     Trigger = "poll"     // a file had changed
	TriggerClock    Trigger = "clock"    // the wall clock was set back
)

// triggers are all of them, in the order in which they are counted.
var triggers = [...]Trigger{
	TriggerCold, TriggerSoft, TriggerHard, TriggerExpired, TriggerRejected, TriggerPoll, TriggerClock,
}

// Class returns the trigger's class, one of "cold", "ahead", "rejected" and "forced".
func (t Trigger) Class() string {
	switch t {
	case TriggerCold, TriggerRejected:
		return string(t)
	case TriggerSoft, TriggerHard:
		return "ahead"
	}
	return "forced"
}

// Outcome is how a fetch ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK        Outcome = "ok"        // a new value
	OutcomeUnchanged Outcome = "unchanged" // the same value again
	OutcomeError     Outcome = "error"     // none, or one that cannot be used
	OutcomeFatal     Outcome = "fatal"     // none, and another try will not cure it
)

// Event describes one fetch, for Config.OnRefresh. It holds no secret.
type Event struct {
	Source   string // Config.Name
	Trigger  Trigger
	Outcome  Outcome
	Start    time.Time
	Duration time.Duration
	Key      string        // as in Snapshot, of the answer; empty if there was none
	Expires  time.Time     // of the answer; zero if it never does, or there was none
	Lifetime time.Duration // of the answer, at receipt
	Next     time.Time     // the next try; zero if none is planned
	Rule     string        // by which rule it is planned: ahead, retry, expired, cold, unchanged, fatal, poll
	Failures int           // in a row, this one included; 0 after a success
	Err      error         // with OutcomeError and OutcomeFatal, as readers get it

	recovered int             // failures before this success
	clamped   *ThresholdError // to be told once
	replan    bool            // it changed what is known of the value in hand
}

// log writes what an operator should know. It says nothing of ordinary refreshes.
func (e *Event) log(l *slog.Logger) {
	if e.clamped != nil {
		l.Warn("creds: Soft is too long for the lifetime, and was clamped", "source", e.Source,
			"asked", e.clamped.Asked, "used", e.clamped.Used, "lifetime", e.clamped.Lifetime)
	}
	switch {
	case e.Outcome == OutcomeFatal:
		l.Error("creds: the source refuses", "source", e.Source, "error", e.Err, "failures", e.Failures, "next", e.Next)
	case e.Outcome == OutcomeError && bits.OnesCount(uint(e.Failures)) == 1:
		l.Warn("creds: fetch failed", "source", e.Source, "error", e.Err, "failures", e.Failures, "next", e.Next)
	case e.recovered > 0:
		l.Info("creds: the source works again", "source", e.Source, "failures", e.recovered)
	}
}

// events delivers to Config.OnRefresh, from one goroutine at a time, which lives while there is something to deliver.
type events struct {
	fn func(Event)

	mu      sync.Mutex
	queue   []Event
	running bool
	dropped uint64
	wg      sync.WaitGroup
}

func (q *events) push(e Event) {
	if q.fn == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == eventQueue {
		q.queue = append(q.queue[:0], q.queue[1:]...)
		q.dropped++
	}
	q.queue = append(q.queue, e)
	if !q.running {
		q.running = true
		q.wg.Go(q.deliver)
	}
}

func (q *events) deliver() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		e := q.queue[0]
		q.queue = append(q.queue[:0], q.queue[1:]...)
		q.mu.Unlock()
		q.fn(e)
	}
}

func (q *events) wait() { q.wg.Wait() }

func (q *events) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
