package fresh_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/fresh"
)

func warm(b testing.TB) *fresh.Value[string] {
	v := fresh.New[string](&source{start: time.Now(), fetch: counting(0), plan: life(time.Hour, 2*time.Hour, 3*time.Hour)}, fresh.Options{})
	b.Cleanup(v.Close)
	if _, err := v.Get(b.Context()); err != nil {
		b.Fatal(err)
	}
	return v
}

func TestWarmReadsDoNotAllocate(t *testing.T) {
	v, ctx := warm(t), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		v.Peek()
		v.Get(ctx)
		v.GetAt(ctx, time.Now())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPeek(b *testing.B) {
	v := warm(b)
	b.ReportAllocs()
	for b.Loop() {
		v.Peek()
	}
}

func BenchmarkGet(b *testing.B) {
	v, ctx := warm(b), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		v.Get(ctx)
	}
}

func BenchmarkGetAt(b *testing.B) {
	v, ctx, now := warm(b), b.Context(), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		v.GetAt(ctx, now)
	}
}
