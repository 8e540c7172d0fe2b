package fresh_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

// model says in one function each what a Value must do, with nothing but the times of a scripted source: no locks, no
// timers, no goroutines.
type model struct {
	script []scripted
	soft   time.Duration // ages of every value
	hard   time.Duration
	end    time.Duration
	wait   time.Duration // HardWait
	eager  bool

	n        int // flights begun
	value    string
	arrived  time.Duration
	err      error
	failures int
	next     time.Duration
	transit  bool
	flying   bool
	began    time.Duration
	lands    time.Duration
}

// scripted is one answer of the source.
type scripted struct {
	took time.Duration
	out  outcome
}

func (m *model) state(now time.Duration) fresh.State {
	age := now - m.arrived
	switch {
	case m.value == "":
		return fresh.Cold
	case age >= m.end:
		return fresh.Expired
	case age >= m.hard:
		return fresh.Hard
	case age >= m.soft:
		return fresh.Soft
	}
	return fresh.Valid
}

func modelDelay(failures int) time.Duration { return time.Duration(failures)*time.Second + 7 }

func (m *model) begin(now time.Duration) {
	m.flying, m.began, m.lands = true, now, now+m.script[m.n].took
	m.n++
}

func (m *model) land() {
	now, out := m.lands, m.script[m.n-1].out
	m.flying = false
	if out.Verdict == fresh.Replace {
		m.value, m.arrived = out.Value, now
		m.err, m.failures, m.next, m.transit = nil, 0, 0, false
		return
	}
	m.err, m.transit = out.Err, out.Transient
	if out.Err != nil {
		m.failures++
	} else {
		m.failures = 0
	}
	if out.Verdict == fresh.Drop {
		m.value = ""
	}
	m.next = now + modelDelay(m.failures)
}

// advance runs the model up to now: landings and, for an eager owner, the timer's starts.
func (m *model) advance(now time.Duration) {
	for {
		if m.flying {
			if m.lands > now {
				return
			}
			m.land()
			continue
		}
		at := m.next
		if at == 0 && m.value != "" {
			at = m.arrived + m.soft
		}
		if !m.eager || at == 0 || at > now {
			return
		}
		m.begin(at)
	}
}

// read returns what a reader who comes now gets, and when.
func (m *model) read(now time.Duration) (value string, at time.Duration, err error) {
	m.advance(now)
	st := m.state(now)
	if st != fresh.Valid && !m.flying && (m.transit || now >= m.next) {
		m.begin(now)
	}
	switch {
	case st == fresh.Valid || st == fresh.Soft || st == fresh.Hard && !m.flying:
		return m.value, now, nil
	case !m.flying:
		return "", now, m.err
	case st == fresh.Hard && m.lands >= m.began+m.wait:
		return m.value, max(now, m.began+m.wait), nil
	}
	after := *m // as it will be when the flight lands, whatever else happens until then
	after.land()
	switch st := after.state(after.lands); {
	case st == fresh.Cold || st == fresh.Expired:
		return "", after.lands, after.err
	default:
		return after.value, after.lands, nil
	}
}

func TestValueAgreesWithThePlainModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			ms := func(n int) time.Duration { // never two events at one instant
				return time.Duration(rnd.IntN(n))*time.Millisecond + time.Duration(1+rnd.IntN(1e6))
			}
			m := &model{
				soft: ms(3000), wait: ms(400), eager: seed%2 == 1,
				script: make([]scripted, 500),
			}
			m.hard = m.soft + ms(3000)
			m.end = m.hard + ms(3000)
			for i := range m.script {
				m.script[i] = scripted{took: ms(600), out: randomOutcome(rnd, i)}
			}
			synctest.Test(t, func(t *testing.T) { compare(t, m, rnd, ms) })
		})
	}
}

func randomOutcome(rnd *rand.Rand, i int) outcome {
	err := fmt.Errorf("failure %d", i)
	switch n := rnd.IntN(20); {
	case n < 8:
		return good(fmt.Sprint("value ", i))
	case n < 9:
		return outcome{Verdict: fresh.Drop, Err: err}
	case n < 10:
		return outcome{Err: err, Transient: true}
	}
	return outcome{Err: err}
}

func compare(t *testing.T, m *model, rnd *rand.Rand, ms func(int) time.Duration) {
	src := &source{
		start: time.Now(), plan: life(m.soft, m.hard, m.end), eager: m.eager,
		delay: func(try fresh.Try) time.Duration { return modelDelay(try.Failures) },
		fetch: func(ctx context.Context, nth int) outcome {
			select {
			case <-time.After(m.script[nth-1].took):
				return m.script[nth-1].out
			case <-ctx.Done():
				return outcome{Err: ctx.Err()}
			}
		},
	}
	v := fresh.New[string](src, fresh.Options{Timeout: time.Minute, HardWait: m.wait})
	defer v.Close()
	var wg sync.WaitGroup
	for range 60 {
		time.Sleep(ms(1 + rnd.IntN(1500)))
		now := time.Since(src.start)
		value, at, err := m.read(now)
		wg.Go(func() {
			s, got := v.Get(context.Background())
			if back := time.Since(src.start); back != at || !errors.Is(got, err) || got == nil && s.Value != value {
				t.Errorf("read at %v: %+v, %v at %v; the model says %q, %v at %v", now, s, got, back, value, err, at)
			}
		})
		synctest.Wait()
		if got := src.questions(); got != m.n {
			t.Fatalf("at %v: %d questions, the model says %d", now, got, m.n)
		}
	}
	wg.Wait()
	if src.most > 1 {
		t.Errorf("%d questions at a time", src.most)
	}
}
