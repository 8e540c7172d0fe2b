package balance_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
)

func TestSuspicionDoublesUntilASuccess(t *testing.T) {
	f := newWarm(t, balance.Config{}, 2, 0)
	ep := f.primary[0]
	suspect := func() time.Duration { return f.Stats(f.now).Endpoints[0].Suspect }
	for i, want := range []float64{0, 1, 2, 4, 8, 10, 10} {
		f.fail(ep, 1)
		if got := suspect(); got != seconds(want) {
			t.Errorf("after %d failures suspect for %v, want %v s", i+1, got, want)
		}
	}
	f.fail(ep, 1000) // no shift overflows
	if got := suspect(); got != 10*time.Second {
		t.Errorf("suspect for %v", got)
	}
	f.observe(ep, balance.Neutral, 0)
	if suspect() == 0 {
		t.Error("a neutral outcome cleared it")
	}
	f.warm(ep)
	if suspect() != 0 {
		t.Error("a success did not clear it")
	}
	f.fail(ep, 1)
	if suspect() != 0 {
		t.Error("the row was not ended by a success")
	}
}

func TestSuspectLosesAgainstWhoIsNot(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		f := newWarm(t, balance.Config{Picker: picker}, 4, 0)
		f.fail(f.primary[0], 2)
		f.fail(f.primary[2], 2)
		if s := f.shares(2000, keys); s[f.primary[0]]+s[f.primary[2]] != 0 {
			t.Errorf("%v: shares %v", picker, s)
		}
		f.pass(time.Second)
		if s := f.shares(2000, keys); s[f.primary[0]] == 0 && picker != balance.PeakEWMA {
			t.Errorf("%v: nothing after the suspicion is over", picker)
		}
	}
}

func TestSuspicionCannotEmptyASet(t *testing.T) {
	for _, picker := range append(pickers, balance.InOrder) {
		f := newWarm(t, balance.Config{Picker: picker, SlowStart: slowStart}, 3, 0)
		for _, ep := range f.primary {
			f.fail(ep, 10)
		}
		shares := f.shares(9000, keys)
		sum := 0.0
		for _, share := range shares {
			sum += share
			if picker != balance.InOrder {
				near(t, picker.String(), 9000, share, 1./3)
			}
		}
		if sum < 1-1e-9 {
			t.Errorf("%v: shares %v", picker, shares)
		}
	}
}
