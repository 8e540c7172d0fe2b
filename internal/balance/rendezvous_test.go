package balance_test

import (
	"fmt"
	"testing"

	"github.com/sortie-go/sortie/internal/balance"
)

func homes(f *field, n int) []*balance.Endpoint {
	out := make([]*balance.Endpoint, n)
	for i := range out {
		out[i] = f.pick(balance.Query{Key: fmt.Sprint("key ", i)}).Endpoint
		out[i].Release()
	}
	return out
}

func TestKeyKeepsItsEndpoint(t *testing.T) {
	const n = 2000
	f := newWarm(t, balance.Config{Picker: balance.Rendezvous}, 5, 0)
	before := homes(f, n)
	gone := f.primary[2]
	f.Set(append(append([]*balance.Endpoint(nil), f.primary[3:]...), f.primary[:2]...), nil) // and in another order
	after := homes(f, n)
	moved := 0
	for i := range n {
		switch {
		case before[i] == gone:
			moved++
		case after[i] != before[i]:
			t.Fatalf("key %d moved although its endpoint is there", i)
		}
	}
	near(t, "moved", n, float64(moved)/n, 0.2)
}

// The hash is part of what processes agree on: these must never change.
func TestAllProcessesAgreeOnKeys(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.Rendezvous}, 4, 0)
	got := ""
	for _, key := range []string{"a", "b", "item 7", "/cart/42", "ünïcode", "0", "zz", "user:1001"} {
		p := f.pick(balance.Query{Key: key})
		p.Endpoint.Release()
		got += p.Endpoint.Address()[7:8]
	}
	if want := "42331221"; got != want {
		t.Errorf("endpoints %s, want %s", got, want)
	}
}

func TestPopularKeyOverflowsItsEndpoint(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.Rendezvous}, 4, 0)
	for range 400 {
		f.pick(balance.Query{Key: "popular"})
	}
	for _, ep := range f.primary {
		if ep.Pending() > 127 { // 1.25 times the mean, and one
			t.Errorf("%d of 400 are pending at %s", ep.Pending(), ep.Address())
		}
	}
	home := f.pick(balance.Query{Key: "popular", Denied: nil}).Endpoint
	for _, ep := range f.primary {
		for ep.Pending() > 0 {
			ep.Release()
		}
	}
	first := homes(f, 1)
	if again := homes(f, 1); again[0] != first[0] || home == nil {
		t.Error("an idle key moves about")
	}
}

func TestKeyOfASuspectMovesToItsSecondChoice(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.Rendezvous}, 4, 0)
	query := balance.Query{Key: "k"}
	pick := func() *balance.Endpoint {
		ep := f.pick(query).Endpoint
		ep.Release()
		return ep
	}
	first := pick()
	f.fail(first, 2)
	second := pick()
	if second == first || pick() != second {
		t.Error("no stable second choice")
	}
	for _, ep := range f.primary {
		if ep != first {
			f.fail(ep, 2)
		}
	}
	if pick() != first {
		t.Error("where all are suspect the key has another home")
	}
}

func TestWithoutAKeyItIsPeakEWMAAndCounted(t *testing.T) {
	f := newWarm(t, balance.Config{Picker: balance.Rendezvous}, 2, 0)
	f.burden(f.primary[0], 50)
	before := f.Stats(f.now).Keyless
	if s := f.shares(100, nil); s[f.primary[1]] < 1-1e-9 {
		t.Errorf("shares %v", s)
	}
	if got := f.Stats(f.now).Keyless - before; got != 100 {
		t.Errorf("%d keyless picks, want 100", got)
	}
}
