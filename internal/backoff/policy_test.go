package backoff_test

import (
	"math"
	"testing"
	"testing/quick"
	"time"

	"github.com/sortie-go/sortie/internal/backoff"
)

const ms = time.Millisecond

var usual = backoff.Policy{Base: 25 * ms, Cap: 250 * ms, MaxWish: 5 * time.Second}

func TestWaitsAreSpreadOverTheWholeInterval(t *testing.T) {
	for n, ceiling := range map[int]time.Duration{1: 25 * ms, 2: 50 * ms, 3: 100 * ms, 4: 200 * ms, 5: 250 * ms, 9: 250 * ms} {
		const draws, parts = 20_000, 10
		var seen [parts]int
		for range draws {
			w := usual.Wait(n)
			if w < 0 || w > ceiling {
				t.Fatalf("wait %d is %v, want at most %v", n, w, ceiling)
			}
			seen[min(int(parts*w/ceiling), parts-1)]++
		}
		for part, got := range seen {
			if got < draws/parts*8/10 || got > draws/parts*12/10 {
				t.Errorf("wait %d: %d of %d draws in part %d, want about a tenth", n, got, draws, part)
			}
		}
	}
}

func TestNoNumberOfTriesOverflows(t *testing.T) {
	p := backoff.Policy{Base: 1, Cap: math.MaxInt64}
	for _, n := range []int{math.MinInt, 0, 1, 62, 63, 64, 65, 1000, math.MaxInt} {
		if w := p.Wait(n); w < 0 {
			t.Errorf("wait %d is %v", n, w)
		}
	}
}

func TestZeroPolicyDoesNotWait(t *testing.T) {
	var p backoff.Policy
	if w, ok := p.Next(5, 0); w != 0 || !ok {
		t.Errorf("got %v, %v", w, ok)
	}
	if _, ok := p.Next(1, time.Second); ok {
		t.Error("a wish was granted")
	}
}

func TestBaseAboveCapIsCap(t *testing.T) {
	p := backoff.Policy{Base: time.Hour, Cap: ms}
	for range 1000 {
		if w := p.Wait(3); w > ms {
			t.Fatalf("waits %v", w)
		}
	}
}

func TestRetryAfterIsALowerBoundAndStretched(t *testing.T) {
	shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
	for range 10_000 {
		w, ok := usual.Next(1, 2*time.Second)
		if !ok {
			t.Fatal("refused")
		}
		shortest, longest = min(shortest, w), max(longest, w)
	}
	if shortest < 2*time.Second || shortest > 2050*ms || longest > 3*time.Second || longest < 2950*ms {
		t.Errorf("waits from %v to %v, want 2 s to 3 s", shortest, longest)
	}
}

func TestShortRetryAfterLosesAgainstTheOwnWait(t *testing.T) {
	p := backoff.Policy{Base: time.Hour, Cap: time.Hour, MaxWish: time.Second}
	above := 0
	for range 1000 {
		if w, _ := p.Next(1, ms); w > 2*ms {
			above++
		}
	}
	if above < 990 {
		t.Errorf("%d of 1000 waits are the policy's own", above)
	}
}

func TestRetryAfterBeyondCap_retryablehttp247(t *testing.T) {
	if _, ok := usual.Next(1, 5*time.Second); !ok {
		t.Error("a wish of exactly MaxWish is refused")
	}
	for _, wish := range []time.Duration{5*time.Second + 1, time.Hour, math.MaxInt64} {
		if w, ok := usual.Next(1, wish); ok {
			t.Errorf("a wish of %v is granted with %v", wish, w)
		}
	}
}

func TestWaitsStayInTheirBounds(t *testing.T) {
	property := func(base, limit, maxWish, wish int64, n int) bool {
		p := backoff.Policy{Base: time.Duration(base), Cap: time.Duration(limit), MaxWish: time.Duration(maxWish)}
		w, ok := p.Next(n, time.Duration(wish))
		switch {
		case !ok:
			return wish > max(maxWish, 0) && w == 0
		case w < 0:
			return false
		case wish > 0:
			return w >= time.Duration(wish) && (w <= p.Cap || w-time.Duration(wish) <= time.Duration(wish/2))
		}
		return w <= max(p.Cap, 0)
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}
