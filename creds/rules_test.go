package creds

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever is asked for, the windows stay inside the life and in order.
func TestWindowsStayInsideTheLife(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		c := Config{
			Soft:        time.Duration(draw.Int64N(int64(2*time.Hour))) * time.Duration(draw.IntN(2)),
			Hard:        time.Duration(draw.Int64N(int64(time.Hour))),
			MaxFraction: draw.Float64() * 0.9, Jitter: draw.Float64()*2 - 1,
		}
		c = c.withDefaults()
		life := time.Duration(draw.Int64N(int64(12*time.Hour))) + time.Millisecond
		lag := time.Duration(draw.Int64N(int64(life))) * time.Duration(draw.IntN(2))
		w := c.windowsFor(life, lag, draw.Float64)
		if w.soft < 0 || w.hard < 0 || w.soft > scale(life, c.MaxFraction) || w.hard > w.soft/2 || w.hard > life/10 ||
			w.soft > w.used || w.clamped && c.Soft == 0 || c.Soft == 0 && w.used > time.Hour {
			t.Fatalf("%+v of %+v, life %v, lag %v", w, c, life, lag)
		}
	}
}

// Whatever happened, the next try comes neither at once nor too late.
func TestDelaysLeaveRoomForMoreTries(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		life := time.Duration(draw.Int64N(int64(6*time.Hour))) + time.Millisecond
		p := position{
			cold: draw.IntN(5) == 0, unchanged: draw.IntN(2) == 0, fatal: draw.IntN(3) == 0, rejected: draw.IntN(3) == 0,
			failures: draw.IntN(1000), ended: draw.IntN(1000),
			life: life, left: time.Duration(draw.Int64N(int64(2*life))) - life,
		}
		if draw.IntN(10) == 0 {
			p.left = forever
		}
		d, rule := delay(p, draw.Float64)
		floor := max(20*time.Millisecond, min(500*time.Millisecond, life/20))
		if d < floor || d > 300*time.Second || rule == "" {
			t.Fatalf("%v by %q for %+v", d, rule, p)
		}
		if !p.cold && p.left > 4*time.Second && d > p.left/4+time.Second {
			t.Fatalf("%v by %q with %v left", d, rule, p.left)
		}
	}
}
