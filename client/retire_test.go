package client_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sortie-go/sortie/client"
)

func TestARetiredEndpointEndsWithItsLastAttempt(t *testing.T) {
	u := client.NewUsage()
	for range 2 {
		if !u.Enter() {
			t.Fatal("nothing may begin")
		}
	}
	ended := u.Retire()
	if u.Enter() {
		t.Error("an attempt began after the end")
	}
	u.Leave()
	select {
	case <-ended:
		t.Error("it ended before its last attempt")
	default:
	}
	u.Leave()
	<-ended
	if u.Enter() {
		t.Error("an attempt began after the end")
	}
	<-client.NewUsage().Retire() // one that nobody uses ends at once
}

func TestNoAttemptIsInsideWhenARetiredEndpointHasEnded(t *testing.T) {
	for range 2000 {
		u := client.NewUsage()
		var inside atomic.Int64
		var attempts sync.WaitGroup
		for range 4 {
			attempts.Go(func() {
				for u.Enter() {
					inside.Add(1)
					runtime.Gosched()
					inside.Add(-1)
					u.Leave()
				}
			})
		}
		<-u.Retire()
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d attempts are inside", n)
		}
		attempts.Wait()
	}
}
