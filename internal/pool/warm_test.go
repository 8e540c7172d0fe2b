package pool_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
)

func TestPrewarmDialsAhead(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		w.net.SetRTT(host, 100*time.Millisecond)
		w.get()
		began := time.Now()
		if err := w.pool.Prewarm(context.Background(), 20); err != nil {
			w.Fatal(err)
		}
		if st := w.sumsUp(); st.Idle != 20 || st.Created != 20 {
			w.Errorf("stats %+v", st)
		}
		if took, most := time.Since(began), w.most.Load(); took != 300*time.Millisecond || most != 8 {
			w.Errorf("took %v, %d dials at a time", took, most)
		}
		if err := w.pool.Prewarm(context.Background(), 10); err != nil || w.dialed.Load() != 20 {
			w.Errorf("error %v, %d dials", err, w.dialed.Load())
		}
		if info := w.get(); info.Acquire != 0 {
			w.Errorf("info %+v", info)
		}
	})
}

func TestPrewarmTellsWhyItFailed(t *testing.T) {
	inWorld(t, plan{noServer: true}, func(w *world) {
		if err := w.pool.Prewarm(context.Background(), 3); !errors.Is(err, syscall.ECONNREFUSED) {
			w.Errorf("error %v", err)
		}
		w.net.BlackHole(host)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.pool.Prewarm(ctx, 1); err != context.DeadlineExceeded {
			w.Errorf("error %v", err)
		}
		w.pool.Close()
		if err := w.pool.Prewarm(context.Background(), 1); err != pool.ErrClosed {
			w.Errorf("error %v", err)
		}
	})
}

// A caller who comes while a connection is being prewarmed takes it.
func TestPrewarmServesWhoComes(t *testing.T) {
	inWorld(t, plan{}, func(w *world) {
		w.net.SetRTT(host, 100*time.Millisecond)
		go w.pool.Prewarm(context.Background(), 1)
		synctest.Wait()
		info := w.get()
		if info.Setup[pool.Connect].Happened || info.Acquire != 100*time.Millisecond || w.dialed.Load() != 1 {
			w.Errorf("info %+v, %d dials", info, w.dialed.Load())
		}
	})
}

func TestMinIdleIsKeptWhileTheEndpointIsUsed(t *testing.T) {
	inWorld(t, plan{config: pool.Config{MinIdle: 3}}, func(w *world) {
		synctest.Wait()
		if st := w.sumsUp(); st.Idle != 3 {
			w.Errorf("%d idle at the start", st.Idle)
		}
		busy := w.open()
		synctest.Wait()
		if st := w.sumsUp(); st.Idle != 3 || st.Active != 1 {
			w.Errorf("%d idle, %d active", st.Idle, st.Active)
		}
		io.ReadAll(busy.Body)
		for range 10 {
			time.Sleep(29 * time.Second)
			synctest.Wait()
			if st := w.sumsUp(); st.Idle < 3 {
				w.Errorf("%d idle after %v", st.Idle, st.OldestAge)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := w.sumsUp(); st.Idle != 0 {
			w.Errorf("%d idle though nobody asked for five minutes", st.Idle)
		}
	})
}

// A server that keeps no idle connection does not make MinIdle dial in circles.
func TestMinIdleDoesNotDialInCircles(t *testing.T) {
	inWorld(t, plan{noServer: true, config: pool.Config{MinIdle: 2}}, func(w *world) {
		w.play(func(*memnet.Conn) { time.Sleep(10 * time.Millisecond) })
		time.Sleep(10 * time.Second)
		if n := w.dialed.Load(); n < 10 || n > 22 {
			w.Errorf("%d dials in 10 s", n)
		}
	})
}

// Spares that end one after another put the next dial off further than the timer is set to: it still comes.
func TestMinIdleGoesOnAfterSparesThatEndedOneAfterAnother(t *testing.T) {
	inWorld(t, plan{noServer: true, config: pool.Config{MinIdle: 2}}, func(w *world) {
		var accepted atomic.Int64
		w.play(func(*memnet.Conn) { time.Sleep(time.Duration(accepted.Add(1)) * 10 * time.Millisecond) })
		time.Sleep(10 * time.Second)
		if n := w.dialed.Load(); n < 10 || n > 22 {
			w.Errorf("%d dials in 10 s", n)
		}
	})
}
