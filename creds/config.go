package creds

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sortie-go/sortie/metrics"
)

// Config says when a [Cache] or [Tokens] refreshes. The zero value is right for most sources: whatever the lifetime, it
// asks two or three times in two lives.
type Config struct {
	// Soft is how long before the expiry a refresh is due. It is clamped to MaxFraction of the life that an answer has
	// at its receipt, with one warning. Zero: a third of that life, at most 60 minutes; for a source that keeps bringing
	// the same value until shortly before its end, little more than that.
	Soft time.Duration

	// MaxFraction is the ceiling of the window Soft, as a part of the life at receipt, above 0 and at most 0.9. Zero: 0.5.
	MaxFraction float64

	// Hard is how long before the expiry a read begins to wait, HardWait at most, for the refresh. It is always cut to a
	// tenth of the life and to half of the window Soft. Zero: 60 s.
	Hard time.Duration

	// Jitter shortens the window Soft by a random part, drawn once for each good answer, so that many processes do not
	// ask at once. Below 1; negative: none. Zero: 0.2.
	Jitter float64

	// FetchTimeout bounds one fetch, with all retries inside the source. Zero: 5 s.
	FetchTimeout time.Duration

	// HardWait is how long a read in the window Hard waits, counted from the start of the fetch: a source that hangs
	// costs readers this much once. Negative: they never wait. Zero: 250 ms.
	HardWait time.Duration

	// StaticStability says whether an expired value is given out while the source fails. Zero ([Auto]): only for the role
	// of an EC2 instance, whose keys AWS extends when its own metadata service is in trouble.
	StaticStability Stability

	// MaxStale bounds StaticStability. A mistake where that is off. Zero: no bound.
	MaxStale time.Duration

	// IdleAfter stops refreshing a value that nobody has read for so long. The next read then may find it expired, and
	// wait. Zero: never.
	IdleAfter time.Duration

	// Strict turns the clamping of Soft into a *[ThresholdError] until a first value has been accepted. A mistake without
	// Soft.
	Strict bool

	// Fatal reports whether an error of the source is one that another try will not cure, in addition to the codes
	// listed at [Cache]. It is called for each failure, on the fetch's own goroutine. Nil adds none.
	Fatal func(error) bool

	// OnRefresh, if not nil, hears of each fetch, in order, one call at a time, outside all locks. If it falls behind by
	// more than 16, the oldest are dropped and counted. It must not call Close.
	OnRefresh func(Event)

	// Name is the label of this source in errors, logs and Stats. Empty: the name of the source.
	Name string

	// Metrics records fetches, lifetimes and what should be rare. A read of a warm value does not touch it. Nil is off.
	Metrics *metrics.Metrics

	// Logger receives failures (WARN, the first, second, fourth, eighth, … in a row), fatal ones (ERROR), recoveries
	// (INFO), and clamped windows (WARN, once). Nil: [slog.Default].
	Logger *slog.Logger
}

// Stability is the choice of Config.StaticStability.
type Stability uint8

// The choices.
const (
	Auto Stability = iota // on for the role of an EC2 instance, otherwise off
	On                    // an expired value is given out, flagged Stale, while the source fails
	Off                   // never
)

const (
	defaultMaxFraction = 0.5
	maxMaxFraction     = 0.9
	defaultJitter      = 0.2
	defaultHard        = time.Minute
	maxAutoSoft        = time.Hour
	defaultTimeout     = 5 * time.Second
	forcedGap          = time.Second // between the starts of two forced fetches
	lookEvery          = 30 * time.Second
	eventQueue         = 16
)

// validate reports every mistake at once. Whether static stability is in force is the source's matter too.
func (c *Config) validate(stable bool) error {
	var all []error
	mistake := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf("creds: Config."+format, args...))
		}
	}
	mistake(c.Soft < 0, "Soft: negative (%v)", c.Soft)
	mistake(!(c.MaxFraction >= 0 && c.MaxFraction <= maxMaxFraction), "MaxFraction: %v is not between 0 and %v", c.MaxFraction, maxMaxFraction)
	mistake(c.Hard < 0, "Hard: negative (%v)", c.Hard)
	mistake(c.Hard > 0 && c.Soft > 0 && c.Hard > c.Soft, "Hard: %v is longer than Soft, %v", c.Hard, c.Soft)
	mistake(!(c.Jitter < 1), "Jitter: %v is not below 1", c.Jitter)
	mistake(c.FetchTimeout < 0, "FetchTimeout: negative (%v)", c.FetchTimeout)
	mistake(c.StaticStability > Off, "StaticStability: unknown value %d", c.StaticStability)
	mistake(c.MaxStale < 0, "MaxStale: negative (%v)", c.MaxStale)
	mistake(c.MaxStale > 0 && !stable, "MaxStale: without effect, static stability is off")
	mistake(c.IdleAfter < 0, "IdleAfter: negative (%v)", c.IdleAfter)
	mistake(c.Strict && c.Soft == 0, "Strict: without effect, Soft is not set")
	return errors.Join(all...)
}

func (c Config) withDefaults() Config {
	if c.MaxFraction == 0 {
		c.MaxFraction = defaultMaxFraction
	}
	if c.Hard == 0 {
		c.Hard = defaultHard
	}
	switch {
	case c.Jitter == 0:
		c.Jitter = defaultJitter
	case c.Jitter < 0:
		c.Jitter = 0
	}
	if c.FetchTimeout == 0 {
		c.FetchTimeout = defaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
