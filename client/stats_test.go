package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

func TestStatsTellWhichEndpointIsOutAndForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first, second := twoBases(t, client.Standard())
		first.Play(sortietest.OK("hello").After(20 * time.Millisecond))
		second.Refuse()
		open := get(t, c, up)
		for range 40 {
			readAll(t, get(t, c, up))
			time.Sleep(100 * time.Millisecond)
		}
		u := c.Stats().Upstreams[0]
		if u.Name != "up" || u.Open != 1 || u.Oldest < 4*time.Second || u.Ended[client.ReasonOK] != 40 {
			t.Errorf("upstream %+v", u)
		}
		alive, dead := u.Endpoints[0], u.Endpoints[1]
		if alive.State != "closed" || alive.For != 0 || alive.Attempts != 1 || alive.Cost < 10*time.Millisecond || alive.Suspect {
			t.Errorf("the one that answers: %+v", alive)
		}
		if dead.State == "closed" && !dead.Suspect || dead.Failed == 0 || dead.Created != 0 {
			t.Errorf("the one that refuses: %+v", dead)
		}
		readAll(t, open)
	})
}
