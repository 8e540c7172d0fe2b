package breaker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

func TestReloadHoldsBackUntilTheOldOpenTimeIsOver(t *testing.T) {
	var told []breaker.State
	cfg := standard
	cfg.OnChange = func(c breaker.Change) { told = append(told, c.From, c.To) }
	bubble(t, cfg, func(t *testing.T, old *breaker.Breaker) {
		late := admit(t, old)
		open(t, old, false)
		left := old.Next(time.Now())
		between := old.Reload(breaker.Config{Consecutive: 3, Open: time.Hour})
		b := between.Reload(breaker.Config{Consecutive: 2, Open: time.Hour})
		defer b.Close()
		if got := b.Next(time.Now()); got != left {
			t.Errorf("held back for %v, want %v", got, left)
		}
		late.Report(breaker.Failed)
		time.Sleep(left)
		if ready, _ := b.Ready(time.Now()); ready || attempt(b, breaker.OK) {
			t.Error("admitted before the old open time was over")
		}
		want(t, b, breaker.Open)
		time.Sleep(2 * time.Nanosecond)
		want(t, b, breaker.Closed)
		if n := attempts(b, 10, breaker.Failed); n != 2 {
			t.Errorf("%d failures were admitted, want the new setting of 2", n)
		}
		attempts(old, 10, breaker.Failed) // nobody listens to the old ones any more
		attempts(between, 10, breaker.Failed)
	})
	if want := []breaker.State{breaker.Closed, breaker.Open, breaker.Open, breaker.Closed, breaker.Closed, breaker.Open}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestReloadOfAHalfOpenBreakerStartsClosed(t *testing.T) {
	var last breaker.Change
	cfg := standard
	cfg.OnChange = func(c breaker.Change) { last = c }
	bubble(t, cfg, func(t *testing.T, old *breaker.Breaker) {
		open(t, old, true)
		b := old.Reload(standard)
		defer b.Close()
		want(t, b, breaker.Closed)
		if last.From != breaker.HalfOpen || last.To != breaker.Closed {
			t.Errorf("told %+v", last)
		}
	})
}

func TestShadowAdmitsAllAndMovesAsIfItHadNot(t *testing.T) {
	cfg := standard
	cfg.Shadow = true
	bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
		denied := 0
		try := func(n int, o breaker.Outcome) {
			for range n {
				p := admit(t, b)
				if p.Denied() {
					denied++
				}
				p.Report(o)
			}
		}
		try(50, breaker.Failed)
		if denied != 40 {
			t.Errorf("%d of 50 would have been denied, want 40", denied)
		}
		want(t, b, breaker.Open)
		if ready, probing := b.Ready(time.Now()); !ready || probing {
			t.Error("a dry run keeps attempts away")
		}
		time.Sleep(b.Next(time.Now()) + time.Nanosecond)
		probes := []*breaker.Permit{admit(t, b), admit(t, b)}
		denied = 0
		try(10, breaker.Failed) // more than would have been let through, so they say nothing
		if denied != 10 {
			t.Errorf("%d of 10 would have been denied, want all", denied)
		}
		want(t, b, breaker.HalfOpen)
		for _, p := range probes {
			p.Report(breaker.OK)
		}
		want(t, b, breaker.Closed)
	})
}

func TestShadowHoldsNobodyBackAfterReload(t *testing.T) {
	shadow := standard
	shadow.Shadow = true
	for name, pair := range map[string][2]breaker.Config{"from": {shadow, standard}, "to": {standard, shadow}} {
		bubble(t, pair[0], func(t *testing.T, old *breaker.Breaker) {
			for range 10 {
				attempt(old, breaker.Failed)
			}
			b := old.Reload(pair[1])
			defer b.Close()
			want(t, b, breaker.Closed)
			if ready, _ := b.Ready(time.Now()); !ready || !attempt(b, breaker.OK) {
				t.Errorf("%s a dry run: held back", name)
			}
		})
	}
}
