package backoff

import (
	"math"
	"math/rand/v2"
	"time"
)

// A Policy holds the bounds of the waits. It keeps no state: copies are free, and any number of goroutines may use one.
// The zero Policy waits for nothing and takes no wish of a server's.
type Policy struct {
	Base time.Duration // ceiling of the first wait
	Cap  time.Duration // ceiling of every later one

	// MaxWish is the longest wish of a server that is granted. A longer one is a reason to stop, not to come earlier
	// (hashicorp/go-retryablehttp#247).
	MaxWish time.Duration
}

// Wait draws the n-th wait, counted from 1.
func (p Policy) Wait(n int) time.Duration {
	return upTo(p.ceiling(n))
}

// Next draws the n-th wait where the server has asked for wish, as [RetryAfter] returns it; 0 is no wish. The wait is the
// longer of the policy's own and the wish, the latter stretched by up to a half, so that it may exceed MaxWish as well as
// Cap. It returns false if the wish is longer than MaxWish: then there should be no further try.
func (p Policy) Next(n int, wish time.Duration) (time.Duration, bool) {
	if wish > max(p.MaxWish, 0) {
		return 0, false
	}
	wait := p.Wait(n)
	if wish <= 0 {
		return wait, true
	}
	return max(wait, wish+upTo(min(wish/2, math.MaxInt64-wish))), true
}

// ceiling doubles Base n−1 times. It stops at Cap, so that no exponent is large enough to overflow.
func (p Policy) ceiling(n int) time.Duration {
	c := min(p.Base, p.Cap)
	for ; n > 1 && 0 < c && c < p.Cap; n-- {
		if c > p.Cap/2 {
			return p.Cap
		}
		c *= 2
	}
	return c
}

// upTo draws a duration between 0 and d, both included.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(d) + 1))
}
