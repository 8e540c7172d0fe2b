package pool_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/pool"
)

func TestAQuietPoolDialsNothingAhead(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MinIdle: 3, IdleTimeout: time.Second}}, func(w *world) {
		time.Sleep(100 * time.Millisecond)
		if n := w.pool.Stats().Open; n != 3 {
			t.Errorf("%d connections kept ready, want 3", n)
		}
		w.pool.Quiet()
		before := w.pool.Stats().Created
		time.Sleep(time.Minute)
		if after := w.pool.Stats().Created; after != before {
			t.Errorf("%d connections were made ahead", after-before)
		}
	})
}
