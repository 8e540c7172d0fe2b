package balance

import "time"

const (
	suspectAfter = 2 // failures in a row
	suspectFirst = time.Second
	suspectMax   = 10 * time.Second
)

// runs are failures in a row.
type runs struct {
	failures int // since the last success
	dials    int // failed dials, with nothing else between
}

// suspicion is how long others are preferred after so many failures in a row. It doubles with each: a quick failure makes
// an endpoint look idle, and least connections would send most of the traffic there.
func suspicion(failures int) time.Duration {
	if failures < suspectAfter {
		return 0
	}
	return min(suspectFirst<<min(failures-suspectAfter, 8), suspectMax)
}
