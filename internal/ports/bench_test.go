package ports_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/ports"
)

// The whole life of a connection in the ledger. Its caller reads the clock once for it, when it dials; a pool that closes a
// connection has done so.
func BenchmarkConnection(b *testing.B) {
	l, p, now := ports.New(), natOf(1<<30), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		t, _, err := l.Admit(api, p, now)
		if err != nil {
			b.Fatal(err)
		}
		t.Opened()
		t.Closed(ports.ClosedByUs, now)
	}
}

// What asks the ledger for each reused connection near its age limit.
func BenchmarkScarce(b *testing.B) {
	l := ports.New()
	t, _, _ := l.Admit(api, natOf(10), time.Now())
	now := epoch
	b.ReportAllocs()
	for b.Loop() {
		t.Scarce(now)
	}
}

func BenchmarkRefusal(b *testing.B) {
	l, p := ports.New(), natOf(1)
	l.Admit(api, p, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		l.Admit(api, p, time.Now())
	}
}

// Memory of a destination with one rule.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	var l *ports.Ledger
	for b.Loop() {
		l = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		l = ports.New()
		p := natOf(10)
		for i := range 1000 {
			l.Admit(netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 443), p, time.Now())
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1000, "B/destination")
	runtime.KeepAlive(l)
}

func TestAllocationsOfAConnection(t *testing.T) {
	l, p := ports.New(), natOf(1<<30)
	if n := testing.AllocsPerRun(1000, func() {
		c, _, _ := l.Admit(api, p, time.Now())
		c.Opened()
		c.Carried(1)
		c.Closed(ports.ClosedByUs, time.Now())
	}); n > 0 {
		t.Errorf("%v allocations a connection, want none", n)
	}
}
