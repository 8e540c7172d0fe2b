package breaker

import "time"

// Stats is a picture of a breaker.
type Stats struct {
	State     State
	Since     time.Time     // of the last change of state, or when it was made
	Next      time.Duration // for how long nothing will be admitted
	Successes int           // within the window, or half-open
	Failures  int           // within the window
	InRow     int           // failures in a row, however old
	Probes    int           // half-open: probes that run
}

// Stats returns a picture of the breaker at this moment. Its parts are read one after another.
func (b *Breaker) Stats() Stats {
	s := b.State() // also lets the core forget what has left the window
	c := b.core.Counts()
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{
		State: s, Since: b.since, Next: b.Next(time.Now()),
		Successes: int(c.TotalSuccesses), Failures: int(c.TotalFailures),
		InRow: int(b.inRow.Load()), Probes: len(b.probes),
	}
}
