package creds

import (
	"slices"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// Stats describes a [Cache] or [Tokens] at one moment. It is a copy, and holds no secret.
type Stats struct {
	Name string // Config.Name
	Kind string // what kind of source it is, such as "ec2-role"

	State    string // cold, valid, soft, hard or expired
	Rejected bool   // a service rejected the value in hand
	Stale    bool   // the value has expired, and is given out by static stability
	Closed   bool

	Key      string        // as in Snapshot; empty without a value
	Expires  time.Time     // of the value in hand, as the source stated it; zero if it never does
	Left     time.Duration // until then, by the wall clock or the value's age, whichever is less; 0 if it never does
	Lifetime time.Duration // at receipt
	Soft     time.Duration // the window in force
	Hard     time.Duration // the window in force
	Receipts []Receipt     // the last 8, oldest first

	Next time.Time // the next try; zero if none is planned
	Rule string    // by which rule: ahead, retry, expired, cold, unchanged, fatal, poll

	LastSuccess time.Time // of the newest answer without error
	LastError   error     // the newest, also after a success; nil if there was none
	LastErrorAt time.Time
	Failures    int // in a row

	Fetches map[Trigger]Outcomes // questions that have been answered
	Forced  uint64               // of them, those that a rejection or a changed file forced
	Clamped uint64               // 1 if Config.Soft had to be clamped
	Stuck   int                  // sources that ignored their deadline and have not returned
	Panics  uint64               // of the source

	Waits       uint64        // reads that waited, for 1 ms or longer
	WaitTotal   time.Duration // their time
	WaitLongest time.Duration // the longest

	StaleServed    uint64 // reads that got an expired value
	RejectedServed uint64 // reads that got a rejected value
	Rejections     uint64 // rejections of the value that was current
	LastRejection  string // the reason given with the newest, at most 100 bytes

	ClockSteps    uint64        // steps of the wall clock by more than 2 s, suspends included
	ClockOffset   time.Duration // their sum
	DroppedEvents uint64        // that Config.OnRefresh was too slow for
}

// Outcomes counts fetches by their outcome.
type Outcomes struct{ OK, Unchanged, Errors, Fatal uint64 }

// Total returns the sum.
func (o Outcomes) Total() uint64 { return o.OK + o.Unchanged + o.Errors + o.Fatal }

// Total returns how often the source has been asked and has answered.
func (s Stats) Total() (n uint64) {
	for _, o := range s.Fetches {
		n += o.Total()
	}
	return n
}

// Receipt describes an answer of the source.
type Receipt struct {
	Time     time.Time
	Lifetime time.Duration // what was left of the value; 0 if it never ends
	Asked    time.Duration // Config.Soft; 0 if automatic
	Soft     time.Duration // the window in force after it
	Changed  bool          // the value was a new one
}

const keepReceipts = 8

func (c *core[T]) receiveLocked(it *item[T], soft time.Duration, changed bool) {
	r := Receipt{Time: it.received, Lifetime: it.life, Asked: c.cfg.Soft, Soft: soft, Changed: changed}
	if len(c.stats.Receipts) == keepReceipts {
		c.stats.Receipts = slices.Delete(c.stats.Receipts, 0, 1)
	}
	c.stats.Receipts = append(c.stats.Receipts, r)
}

// countLocked counts a question that has been answered.
func (c *core[T]) countLocked(e *Event) {
	o := &c.fetches[max(0, slices.Index(triggers[:], e.Trigger))]
	switch e.Outcome {
	case OutcomeOK:
		o.OK++
	case OutcomeUnchanged:
		o.Unchanged++
	case OutcomeFatal:
		o.Fatal++
	default:
		o.Errors++
	}
}

// countWait notes how long a read took that was not served at once.
func (c *core[T]) countWait(d time.Duration) {
	if d < time.Millisecond {
		return
	}
	c.metrics.Happened(eventBlocked)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Waits++
	c.stats.WaitTotal += d
	c.stats.WaitLongest = max(c.stats.WaitLongest, d)
}

// report is Stats of Cache and Tokens.
func (c *core[T]) report() Stats {
	now := time.Now()
	f := c.val.Peek()
	dropped := c.events.lost()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Receipts, s.Fetches = slices.Clone(s.Receipts), make(map[Trigger]Outcomes)
	for i, o := range c.fetches {
		if o != (Outcomes{}) {
			s.Fetches[triggers[i]] = o
		}
	}
	s.Name, s.Kind = c.cfg.Name, c.source.kind
	s.State, s.Closed = f.State.String(), c.closed.Load()
	s.Stuck, s.Failures, s.DroppedEvents = f.Stuck, f.Failures, dropped
	if it := f.Value; it != nil {
		left := it.left(now, c.wall(now))
		p := it.public.Load()
		s.Rejected, s.Stale = p.Rejected, p.Stale
		s.Key, s.Expires, s.Lifetime, s.Soft, s.Hard = p.Key, p.Expires, p.Lifetime, p.Soft, p.Hard
		s.State = stateOf(it, left)
		if !it.expires.IsZero() {
			s.Left = left
		}
	}
	return s
}

// stateOf names the state by the time left: internal/fresh counts a rejected value as expired.
func stateOf[T any](it *item[T], left time.Duration) string {
	switch {
	case left <= 0:
		return fresh.Expired.String()
	case it.expires.IsZero():
		return fresh.Valid.String()
	case left <= it.windows.hard:
		return fresh.Hard.String()
	case left <= it.public.Load().Soft:
		return fresh.Soft.String()
	}
	return fresh.Valid.String()
}
