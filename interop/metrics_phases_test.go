package interop_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/sortietest"
)

// net/http has no word for a request that waits for an HTTP/2 stream.
func TestTheWaitForAStreamIsAcquireTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{Conns: &client.Conns{Protocol: client.H2C, MaxConns: 1, MaxStreams: 1}}, func(cfg *client.Config) {
			cfg.Upstreams[0].External[0] = "http://10.0.0.9"
		})
		server := &sortietest.Upstream{Network: m.net, Address: "10.0.0.9:80", HTTP2: true}
		server.Steps = []sortietest.Step{sortietest.OK("hello").After(50 * time.Millisecond)}
		server.Start(t)
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { m.call(t.Context(), http.MethodGet, up) })
		}
		calls.Wait()
		spans, _ := m.spansOf()
		var waits []time.Duration
		for _, s := range spans {
			waits = append(waits, seconds(t, s, "sortie.phase.acquire"))
			if d := seconds(t, s, "sortie.phase.server"); d != 50*time.Millisecond {
				t.Errorf("the server took %v, want 50ms", d)
			}
		}
		slices.Sort(waits)
		if want := []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond}; !slices.Equal(waits, want) {
			t.Errorf("the calls waited %v, want %v", waits, want)
		}
	})
}

// seconds returns an attribute of a span that is a time in seconds, to the tenth of a millisecond; 0 if it is absent.
func seconds(t *testing.T, s sdktrace.ReadOnlySpan, key string) time.Duration {
	t.Helper()
	text := attr(s, key)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return d.Round(100 * time.Microsecond)
}

// Under http.Transport the hooks of a dial that ends late run in the trace of a call that was served over another connection. Here
// the call's time is what it waited for that dial, and the whole is the connection's.
func TestSetUpThatACallDidNotWaitForIsNotItsTime_go16957(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		m := measure(t, client.Policy{}, func(cfg *client.Config) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials == 2 {
					time.Sleep(time.Second)
				}
				return dial(ctx, network, address)
			}
		})
		m.server.Play(sortietest.OK("hello").After(100 * time.Millisecond))
		var calls sync.WaitGroup
		for range 2 { // the second gets the connection of the first after 90 ms, when its own dial has 910 ms to go
			calls.Go(func() { m.call(t.Context(), http.MethodGet, up) })
			time.Sleep(10 * time.Millisecond)
		}
		calls.Wait()
		m.call(t.Context(), http.MethodGet, up) // while that dial goes on
		time.Sleep(2 * time.Second)

		if p := m.collect()["sortie.connection.setup.duration"]; len(p) != 1 || p[0].count != 2 || p[0].value != 1 {
			t.Errorf("set-up of connections: %+v, want 1 s in two dials", p)
		}
		spans, attempts := m.spansOf()
		for i, want := range []time.Duration{0, 90 * time.Millisecond, 0} {
			for _, s := range []sdktrace.ReadOnlySpan{spans[i], attempts[i]} {
				waited := seconds(t, s, "sortie.phase.acquire") + seconds(t, s, "sortie.phase.connect")
				if length := s.EndTime().Sub(s.StartTime()); waited != want || length != want+100*time.Millisecond {
					t.Errorf("call %d, %s: %v of %v are set-up, want %v", i, s.Name(), waited, length, want)
				}
			}
		}
		if attr(spans[2], "sortie.phase.connect") != "" {
			t.Error("a call that waited for no dial has a phase connect")
		}
	})
}

// Seven spans for the phases of a call are dear where one request makes many calls: phases are attributes, and spans only the
// call's and the attempt's.
func TestPhasesAreAttributesAndNoSpans_otelcontrib8785(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measure(t, client.Policy{})
		m.server.Play(sortietest.OK("hello").After(50 * time.Millisecond))
		m.call(t.Context(), http.MethodGet, up)
		calls, attempts := m.spansOf()
		if len(calls) != 1 || len(attempts) != 1 || len(m.spans.Started()) != 2 {
			t.Fatalf("%d spans of calls, %d of attempts, %d in all", len(calls), len(attempts), len(m.spans.Started()))
		}
		for _, s := range m.ended() {
			if len(s.Events()) != 0 {
				t.Errorf("%s has events: %v", s.Name(), s.Events())
			}
			if d := seconds(t, s, "sortie.phase.server"); d != 50*time.Millisecond {
				t.Errorf("%s: the server took %v", s.Name(), d)
			}
		}
	})
}
