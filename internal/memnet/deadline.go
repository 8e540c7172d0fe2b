package memnet

import "time"

// deadline is a time after which one kind of operation on a stream fails. The stream's mutex guards it.
type deadline struct {
	timer   *time.Timer
	expired bool
}

func (s *stream) setReadDeadline(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rclosed {
		return false
	}
	s.setDeadline(&s.rdl, t)
	return true
}

func (s *stream) setWriteDeadline(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wclosed {
		return false
	}
	s.setDeadline(&s.wdl, t)
	return true
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	d.stop()
	d.expired = false
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		d.expired = true
		s.changed.Broadcast()
	default:
		var timer *time.Timer
		timer = time.AfterFunc(left, func() { s.expire(d, &timer) })
		d.timer = timer
	}
}

// expire runs when a timer fires, perhaps after the deadline was moved: only the current timer counts.
func (s *stream) expire(d *deadline, timer **time.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.timer == *timer {
		d.expired = true
		s.changed.Broadcast()
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
