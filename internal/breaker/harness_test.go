package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

const ms = time.Millisecond

// standard is what client.Standard uses.
var standard = breaker.Config{
	Consecutive: 10, Ratio: 0.5, Volume: 20, Window: 10 * time.Second, Open: 5 * time.Second, Probes: 2,
}

// bubble tells a story about a breaker in virtual time.
func bubble(t *testing.T, cfg breaker.Config, story func(t *testing.T, b *breaker.Breaker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(cfg)
		story(t, b)
		b.Close()
	})
}

// attempt sends one attempt and reports its outcome; false means that it was not admitted.
func attempt(b *breaker.Breaker, o breaker.Outcome) bool {
	var p breaker.Permit
	if !b.Admit(&p) {
		return false
	}
	p.Report(o)
	return true
}

// attempts sends n attempts one after another and returns the number of those admitted.
func attempts(b *breaker.Breaker, n int, o breaker.Outcome) (admitted int) {
	for range n {
		if attempt(b, o) {
			admitted++
		}
	}
	return admitted
}

// admit takes a permit that must be given.
func admit(t *testing.T, b *breaker.Breaker) *breaker.Permit {
	t.Helper()
	p := new(breaker.Permit)
	if !b.Admit(p) {
		t.Fatal("not admitted")
	}
	return p
}

func want(t *testing.T, b *breaker.Breaker, s breaker.State) {
	t.Helper()
	if got := b.State(); got != s {
		t.Errorf("%v, want %v", got, s)
	}
}

// open makes the breaker open, and half-open if asked.
func open(t *testing.T, b *breaker.Breaker, half bool) {
	t.Helper()
	for range 10_000 {
		if !attempt(b, breaker.Failed) {
			break
		}
	}
	want(t, b, breaker.Open)
	if half {
		time.Sleep(b.Next(time.Now()) + time.Nanosecond)
		want(t, b, breaker.HalfOpen)
	}
}
