package pool_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/internal/memnet"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/internal/ports"
)

var dest = netip.MustParseAddrPort("203.0.113.7:443")

// A toll is a Dial that has a ledger in front of it.
type toll struct {
	ledger *ports.Ledger
	policy *ports.Policy
	dial   dialFunc
}

// newToll keeps ports for a time that tells how their connection ended.
func newToll(budget int) *toll {
	return &toll{ledger: ports.New(), policy: &ports.Policy{Rules: []ports.Rule{{
		Name: "nat", Budget: budget, Warn: 0.7, Admit: 0.9,
		Holds: ports.Holds{Ours: 60 * time.Second, Theirs: 40 * time.Second, Reset: 20 * time.Second, Silent: 30 * time.Second},
	}}}}
}

func (l *toll) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ticket, warning, err := l.ledger.Admit(dest, l.policy, time.Now())
	if warning != nil {
		pool.Warn(ctx, *warning)
	}
	if err != nil {
		return nil, err
	}
	nc, err := l.dial(ctx, network, address)
	if err != nil {
		ticket.Failed(err, time.Now())
		return nil, err
	}
	ticket.Opened()
	return &pool.Socket{Conn: nc, Ticket: &ticket}, nil
}

func (l *toll) stats() ports.Stats { return l.ledger.Stats()[0] }

// inToll runs a story with a ledger of so many ports before the pool's dials.
func inToll(t *testing.T, budget int, p plan, story func(w *world, l *toll)) {
	t.Helper()
	var l *toll
	p.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.connect(ctx, network, address)
	}
	p.listen = true
	inWorld(t, p, func(w *world) {
		l = newToll(budget)
		l.dial = w.dial
		story(w, l)
	})
}

// Who closed first, and how, decides how long the port is kept. It is open until the socket is closed.
func TestHowAConnectionEndedIsToldToItsPort(t *testing.T) {
	answersThen := func(end func(nc *memnet.Conn)) func(*memnet.Conn) {
		return func(nc *memnet.Conn) {
			br := bufio.NewReader(nc)
			for {
				if _, ok := hears(br); !ok {
					return
				}
				io.WriteString(nc, plainOK)
				end(nc)
			}
		}
	}
	for name, tc := range map[string]struct {
		end  func(nc *memnet.Conn)
		hold time.Duration
	}{
		"by us":    {func(*memnet.Conn) {}, 60 * time.Second},
		"by them":  {func(nc *memnet.Conn) { nc.Close() }, 40 * time.Second},
		"by reset": {func(nc *memnet.Conn) { nc.Reset() }, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inToll(t, 100, plan{noServer: true}, func(w *world, l *toll) {
				w.play(answersThen(tc.end))
				w.get()
				if name == "by us" {
					synctest.Wait()
					if s := l.stats(); s.Open != 1 || s.Cooling != 0 {
						t.Errorf("while it is idle: %+v", s)
					}
					w.pool.CloseIdle()
				}
				synctest.Wait()
				if s := l.stats(); s.Open != 0 || s.Cooling != 1 || s.Requests != 1 {
					t.Errorf("when it is closed: %+v", s)
				}
				time.Sleep(tc.hold - time.Millisecond)
				if s := l.stats(); s.Cooling != 1 {
					t.Errorf("before %v: %+v", tc.hold, s)
				}
				time.Sleep(1500 * time.Millisecond)
				if s := l.stats(); s.Cooling != 0 {
					t.Errorf("after %v: %+v", tc.hold, s)
				}
			})
		})
	}
}

// A dial without a port is no failure of the endpoint: the gate waits for the port, and so does whoever has the time.
func TestTheGateWaitsForAPort(t *testing.T) {
	inToll(t, 1, plan{config: pool.Config{MaxWait: -1}}, func(w *world, l *toll) {
		w.get()
		w.pool.CloseIdle()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 59*time.Second)
		defer cancel()
		_, _, err := w.sendIn(ctx, "GET", "", pool.Want{})
		e := w.asError(err)
		short, ok := errors.AsType[*ports.Error](err)
		if !ok || e.Kind != pool.Dial || !e.NeverSent || time.Since(began) != 0 || short.Held != 1 {
			t.Errorf("with a second too little: %v after %v", err, time.Since(began))
		}
		w.get()
		if took := time.Since(began); took < time.Minute || took > 62*time.Second {
			t.Errorf("waited %v", took)
		}
		st := w.sumsUp()
		if st.Dials.NoPort == 0 || st.Dials.Failed != [4]uint64{} || st.Created != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// When the last connection goes, those who waited for it are told, if no port comes in their time.
func TestTheLastConnectionGoesWhileOthersWait(t *testing.T) {
	inToll(t, 1, plan{noServer: true, config: pool.Config{MaxWait: -1}}, func(w *world, l *toll) {
		w.play(func(nc *memnet.Conn) {
			hears(bufio.NewReader(nc))
			time.Sleep(time.Second) // of the bubble
			nc.Close()
		})
		began := time.Now()
		var told atomic.Int32
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				_, _, err := w.sendIn(ctx, "GET", "", pool.Want{})
				if err == nil {
					t.Error("an answer from nowhere")
				}
				if short, ok := errors.AsType[*ports.Error](err); ok {
					told.Add(1)
					if short.RetryAfter < 40*time.Second || short.RetryAfter > 42*time.Second {
						t.Errorf("%+v, want the 40 s for which the port is kept", short)
					}
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want the second after which the connection went", took)
		}
		if told.Load() != 2 {
			t.Errorf("%d of the two who waited were told of the ports", told.Load())
		}
	})
}

// A connection that the pool closes gives its port back only when the socket is closed: until then nobody gives up.
func TestTheLastConnectionIsClosedWhileOthersWait(t *testing.T) {
	inToll(t, 1, plan{config: pool.Config{MaxWait: -1, MaxAge: time.Second}}, func(w *world, l *toll) {
		resp := w.open()
		failed := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_, _, err := w.sendIn(ctx, "GET", "", pool.Want{})
			failed <- err
		}()
		time.Sleep(3 * time.Second) // twice its age limit, as ports run short
		io.ReadAll(resp.Body)
		resp.Body.Close()
		closed := time.Now()
		err := <-failed
		if waited := time.Since(closed); waited != 0 {
			t.Errorf("told %v after the connection had gone", waited)
		}
		if short, ok := errors.AsType[*ports.Error](err); !ok || short.RetryAfter < time.Minute || short.RetryAfter > 62*time.Second {
			t.Errorf("err = %v, want the minute for which the port is kept", err)
		}
	})
}

// The listener hears that ports run short, and that a dial had none.
func TestEventsOfTheBudget(t *testing.T) {
	inToll(t, 10, plan{config: pool.Config{MaxWait: time.Second}}, func(w *world, l *toll) {
		for range 9 {
			resp := w.open()
			defer resp.Body.Close()
		}
		w.send("GET", "", pool.Want{})
		var details []string
		for _, e := range w.told(pool.EventBudget) {
			details = append(details, e.Detail)
			if short, ok := errors.AsType[*ports.Error](e.Err); !ok || short.Budget != 10 || e.Remote != dest {
				t.Errorf("%+v", e)
			}
		}
		if len(details) < 2 || details[0] != "warned" || details[1] != "refused" {
			t.Errorf("events %v", details)
		}
		if pool.EventBudget.String() != "budget" || pool.EventGone.String() != "gone" {
			t.Error("names of events")
		}
	})
}

// Open requests are counted where they run: no call touches the ledger.
func TestRequestsOfOpenConnectionsAreCounted(t *testing.T) {
	inToll(t, 10, plan{}, func(w *world, l *toll) {
		for range 5 {
			w.get()
		}
		carried := map[netip.AddrPort]uint64{}
		w.pool.CountRequests(carried)
		if carried[dest] != 5 || l.stats().Requests != 0 || l.stats().Dialed != 1 {
			t.Errorf("%v, %+v", carried, l.stats())
		}
	})
}
