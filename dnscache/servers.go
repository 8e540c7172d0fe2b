package dnscache

import (
	"sync"
	"time"
)

const (
	// restAfter timeouts in a row send a server to rest: one may be a lost packet.
	restAfter = 2

	// restFor is how long a server rests, and within which another must have answered. Package net has no such memory and
	// would wait for the dead server on every question.
	restFor = 10 * time.Second

	// maxServers bounds the table. More servers than any configuration names are only seen when configurations change.
	maxServers = 64
)

// serverTable remembers which DNS servers do not answer.
type serverTable struct {
	mu sync.Mutex
	m  map[string]*serverState
}

type serverState struct {
	timeouts int // in a row
	silent   time.Time
	answered time.Time
}

// resting reports whether the server should not be asked now. If no other server has answered lately, nobody rests.
func (t *serverTable) resting(server string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.m[server]
	return s != nil && t.restsLocked(server, s, now)
}

func (t *serverTable) restsLocked(server string, s *serverState, now time.Time) bool {
	if s.timeouts < restAfter || now.Sub(s.silent) >= restFor {
		return false
	}
	for name, other := range t.m {
		if name != server && !other.answered.IsZero() && now.Sub(other.answered) < restFor {
			return true
		}
	}
	return false
}

// timedOut notes that the server has not answered in time.
func (t *serverTable) timedOut(server string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stateLocked(server)
	s.timeouts++
	s.silent = now
}

// answered notes that the server has answered, whatever it said.
func (t *serverTable) answered(server string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stateLocked(server)
	s.timeouts, s.answered = 0, now
}

func (t *serverTable) stateLocked(server string) *serverState {
	s := t.m[server]
	if s == nil {
		if t.m == nil || len(t.m) >= maxServers {
			t.m = make(map[string]*serverState)
		}
		s = new(serverState)
		t.m[server] = s
	}
	return s
}

// forget is for a changed configuration: what was silent may have been replaced.
func (t *serverTable) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m = nil
}

// rest returns the servers that rest now.
func (t *serverTable) rest(now time.Time) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, s := range t.m {
		if t.restsLocked(name, s, now) {
			out = append(out, name)
		}
	}
	return out
}
