package sortietest_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// A black hole on real sockets lives on how Linux treats a full accept queue, so it is tried with real ones. The only
// clock here is the kernel's, which sends the lost SYN again after a second.
func TestBlackHoleOnSockets(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("a"))
	c := up.Client()
	wantAnswer(t, c, up.URL(), 200, "a")
	up.BlackHole()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", up.Addr())
	wantError(t, err, errTimeout)

	var wg sync.WaitGroup
	wg.Go(func() { wantAnswer(t, up.Client(), up.URL(), 200, "a") })
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := getContext(ctx, c, up.URL()); err == nil {
			t.Error("answer on a connection that was open before")
		}
	})
	wg.Go(func() { up.Restore() })
	wg.Wait()
	s := up.Stats()
	if s.Requests != 2 || s.Conns != 2 {
		t.Errorf("%d requests on %d connections, want two on two: no filler is counted", s.Requests, s.Conns)
	}
}

func TestBlackHoleOnSocketsEndsWithRefuseAndClose(t *testing.T) {
	up := sortietest.NewUpstream(t, sortietest.OK("a"))
	up.BlackHole()
	up.Refuse()
	up.BlackHole()
	up.Restore()
	wantAnswer(t, up.Client(), up.URL(), 200, "a")
	up.BlackHole()
}
