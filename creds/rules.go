package creds

import (
	"math/rand/v2"
	"time"
)

// windows are the two thresholds of one life, counted back from its end.
type windows struct {
	soft, hard time.Duration
	used       time.Duration // soft before its jitter
	clamped    bool          // Config.Soft was more than the life allows
}

// windowsFor draws the windows of a value that has the given life left at its receipt. The lag is the longest time before
// an end at which this source has brought a new value, if it is known to bring the old one before; zero is unknown.
func (c *Config) windowsFor(life, lag time.Duration, uniform func() float64) windows {
	ceiling := scale(life, c.MaxFraction)
	hard := min(c.Hard, life/10)
	var w windows
	switch {
	case c.Soft > 0:
		w.used, w.clamped = min(c.Soft, ceiling), c.Soft > ceiling
	case lag > 0:
		w.used = min(life/3, maxAutoSoft, ceiling, max(scale(lag, 1.2), 2*hard))
	default:
		w.used = min(life/3, maxAutoSoft, ceiling)
	}
	w.soft = scale(w.used, 1-c.Jitter*uniform())
	w.hard = min(hard, w.soft/2)
	return w
}

// The rules for the delay before the next try, by the letters under which they appear in [Stats].
const (
	ruleAhead     = "ahead"     // the refresh is due by the window Soft
	ruleRetry     = "retry"     // a failure, the value still good
	ruleExpired   = "expired"   // a failure, the value expired
	ruleCold      = "cold"      // a failure, no value
	ruleUnchanged = "unchanged" // the same value came back
	ruleFatal     = "fatal"     // a fatal failure, the value still good
	rulePoll      = "poll"      // a file that had changed was no good; it is read again when polled
)

// position is what the delay before the next try depends on.
type position struct {
	cold      bool
	unchanged bool
	fatal     bool
	rejected  bool
	failures  int           // in a row
	ended     int           // how many of them since the value expired
	life      time.Duration // of the value in hand, 0 without
	left      time.Duration // until it ends; forever if it never does
}

// delay says how long to hold back the next try, and by which rule. While there is life left the delay is a part of it,
// so that many tries fit before the end: a back-off that is blind to the end sleeps through it.
func delay(p position, uniform func() float64) (time.Duration, string) {
	half := func(d time.Duration) time.Duration { return scale(d, 0.5+0.5*uniform()) }
	var d time.Duration
	var rule string
	switch {
	case p.cold:
		d, rule = scale(min(doubled(time.Second, p.failures), 30*time.Second), 1+0.25*uniform()), ruleCold
	case p.left <= 0:
		d, rule = half(min(doubled(5*time.Second, p.ended), 300*time.Second)), ruleExpired
	case p.unchanged:
		d, rule = min(max(p.left/4, time.Second), time.Minute), ruleUnchanged
	case p.fatal:
		d, rule = min(30*time.Second, p.left/4), ruleFatal
	default:
		d, rule = half(min(doubled(time.Second, p.failures), time.Minute, p.left/4)), ruleRetry
	}
	if p.rejected {
		d = max(d, forcedGap)
	}
	return max(d, 20*time.Millisecond, min(500*time.Millisecond, p.life/20)), rule
}

// doubled returns d·2ⁿ⁻¹, without overflow.
func doubled(d time.Duration, n int) time.Duration {
	return d << min(max(n-1, 0), 10)
}

func scale(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// uniform is where jitter comes from: speed is asked for here, not secrecy.
func uniform() float64 { return rand.Float64() }
