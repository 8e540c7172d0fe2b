package breaker_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/breaker"
)

func TestHalfOpenAdmitsTwoOfHundred_polly216(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		open(t, b, true)
		var mu sync.Mutex
		var probes []*breaker.Permit
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				p := new(breaker.Permit)
				if b.Admit(p) {
					mu.Lock()
					probes = append(probes, p)
					mu.Unlock()
				}
			})
		}
		callers.Wait()
		if len(probes) != 2 || !probes[0].Probing() || !probes[1].Probing() {
			t.Fatalf("%d probes, want 2", len(probes))
		}
		time.Sleep(5 * time.Second) // the upstream hangs, and the attempts time out
		probes[0].Report(breaker.Failed)
		want(t, b, breaker.Open)
		probes[1].Report(breaker.OK) // too late
		want(t, b, breaker.Open)
	})
}

func TestAllProbesMustSucceed(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		open(t, b, true)
		first, second := admit(t, b), admit(t, b)
		first.Report(breaker.OK)
		want(t, b, breaker.HalfOpen)
		if attempt(b, breaker.OK) {
			t.Error("a third probe was admitted")
		}
		second.Report(breaker.OK)
		want(t, b, breaker.Closed)
		if p := admit(t, b); p.Probing() {
			t.Error("a probe, although closed")
		}
	})
}

func TestNeutralProbeGivesItsPlaceBack(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		open(t, b, true)
		for range 50 {
			attempt(b, breaker.Neutral)
		}
		p := admit(t, b)
		admit(t, b).Report(breaker.OK)
		p.Report(breaker.Neutral)
		want(t, b, breaker.HalfOpen)
		attempt(b, breaker.OK)
		want(t, b, breaker.Closed)
	})
}

// Whoever loses a permit, to a panic or a bug, blocks the breaker for Overdue and not for ever.
func TestUnreportedProbesExpire_resilience4j544(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		open(t, b, true)
		lost := []*breaker.Permit{admit(t, b), admit(t, b)}
		for _, wait := range []time.Duration{0, 30 * time.Second} {
			time.Sleep(wait)
			if ready, probing := b.Ready(time.Now()); ready || !probing || attempt(b, breaker.OK) {
				t.Errorf("after %v a third probe was admitted", wait)
			}
		}
		time.Sleep(time.Nanosecond)
		if ready, probing := b.Ready(time.Now()); !ready || !probing {
			t.Error("Ready does not tell that the probes are overdue")
		}
		attempt(b, breaker.OK)
		for _, p := range lost {
			p.Report(breaker.Failed) // much too late
		}
		want(t, b, breaker.HalfOpen)
		attempt(b, breaker.OK)
		want(t, b, breaker.Closed)
	})
}

func TestOpenTimeIsJittered(t *testing.T) {
	var times []time.Duration
	for range 200 {
		bubble(t, breaker.Config{Consecutive: 1, Open: 10 * time.Second}, func(t *testing.T, b *breaker.Breaker) {
			attempt(b, breaker.Failed)
			next := b.Next(time.Now())
			times = append(times, next)
			time.Sleep(next)
			if ready, _ := b.Ready(time.Now()); ready || attempt(b, breaker.OK) {
				t.Error("admitted before its time")
			}
			time.Sleep(time.Nanosecond)
			if ready, probing := b.Ready(time.Now()); !ready || !probing || !attempt(b, breaker.OK) {
				t.Error("not admitted at its time")
			}
		})
	}
	slices.Sort(times)
	if times[0] < 8*time.Second || times[0] > 8300*ms || times[199] > 12*time.Second || times[199] < 11700*ms {
		t.Errorf("open for %v to %v, want 8 s to 12 s", times[0], times[199])
	}
}

func TestReadyIsWhatAdmitSays(t *testing.T) {
	bubble(t, standard, func(t *testing.T, b *breaker.Breaker) {
		check := func(admits, probing bool) {
			t.Helper()
			if a, p := b.Ready(time.Now()); a != admits || p != probing {
				t.Errorf("ready %v, probing %v; want %v, %v", a, p, admits, probing)
			}
		}
		check(true, false)
		open(t, b, false)
		check(false, false)
		time.Sleep(b.Next(time.Now()) + time.Nanosecond)
		check(true, true) // nobody has asked the state machine yet
		first := admit(t, b)
		check(true, true)
		second := admit(t, b)
		check(false, true)
		first.Report(breaker.OK)
		check(false, true)
		second.Report(breaker.Neutral)
		check(true, true)
		attempt(b, breaker.OK)
		check(true, false)
	})
}

// Whatever is reported, or not, and when: half-open there are never more than Probes at a time, and in the end the
// breaker admits again.
func TestBreakerNeverFloodsAndNeverSticks(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		cfg := breaker.Config{Consecutive: 3, Ratio: 0.5, Volume: 5, Probes: 1 + rnd.IntN(3), Open: time.Second, Window: 2 * time.Second}
		bubble(t, cfg, func(t *testing.T, b *breaker.Breaker) {
			type probe struct {
				permit *breaker.Permit
				at     time.Time
			}
			var running []*breaker.Permit
			var probes []probe
			for range 2000 {
				time.Sleep(time.Duration(rnd.IntN(100)) * ms)
				p := new(breaker.Permit)
				if ready, _ := b.Ready(time.Now()); b.Admit(p) != ready {
					t.Fatalf("seed %d: Ready says %v", seed, ready)
				} else if !ready {
					continue
				}
				running = append(running, p)
				if p.Probing() {
					probes = append(probes, probe{p, time.Now()})
				}
				probes = slices.DeleteFunc(probes, func(p probe) bool { return time.Since(p.at) > 30*time.Second })
				if len(probes) > cfg.Probes {
					t.Fatalf("seed %d: %d probes at a time", seed, len(probes))
				}
				for rnd.IntN(3) > 0 && len(running) > 0 { // some are never reported
					i := rnd.IntN(len(running))
					running[i].Report(breaker.Outcome(rnd.IntN(3)))
					if b.State() != breaker.HalfOpen {
						probes = nil
					}
					probes = slices.DeleteFunc(probes, func(p probe) bool { return p.permit == running[i] })
					running = slices.Delete(running, i, i+1)
				}
			}
			time.Sleep(31 * time.Second)
			attempts(b, cfg.Probes, breaker.OK)
			want(t, b, breaker.Closed)
		})
	}
}

func TestPermitReportsOnce(t *testing.T) {
	bubble(t, breaker.Config{Consecutive: 2}, func(t *testing.T, b *breaker.Breaker) {
		p := admit(t, b)
		var reports sync.WaitGroup
		for range 10 {
			reports.Go(func() { p.Report(breaker.Failed) })
		}
		reports.Wait()
		p.Report(breaker.OK)
		synctest.Wait()
		if s := b.Stats(); s.Failures != 1 || s.Successes != 0 || s.InRow != 1 {
			t.Errorf("%+v, want one failure", s)
		}
	})
}

func TestZeroPermitReportsToNobody(t *testing.T) {
	var p breaker.Permit
	p.Report(breaker.Failed)
	if p.Probing() || p.Denied() {
		t.Error("it claims to be something")
	}
}
