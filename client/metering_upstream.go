package client

import (
	"slices"
	"strconv"
	"time"

	"github.com/sortie-go/sortie/internal/balance"
	"github.com/sortie-go/sortie/internal/pool"
	"github.com/sortie-go/sortie/metrics"
)

// meterFor returns the recorder of the origin's endpoints. A host that came with a request is no attribute: there could be any
// number.
func (o *origin) meterFor(r *recipe) *metrics.Endpoint {
	m := o.cluster.core.meter
	if m == nil {
		return nil
	}
	if o.base == nil && !slices.Contains(r.exactHosts, o.target.host) {
		return m.Endpoint("", 0)
	}
	port, _ := strconv.Atoi(o.target.port)
	return m.Endpoint(o.target.host, port)
}

// meterPool has an endpoint's connections counted.
func meterPool(m *metrics.Endpoint, cfg *pool.Config) {
	if m == nil {
		return
	}
	cfg.ConnEvents = true
	cfg.OnEvent = func(e pool.Event) {
		switch e.Kind {
		case pool.EventDialed:
			m.Dialed(metrics.Dial{Conn: e.Conn, End: e.Time, Setup: setupSteps(e.Setup), Error: dialError(e)})
		case pool.EventClosed:
			m.Closed(metrics.Closed{Reason: e.Reason.String(), Age: e.Age, Requests: e.Requests, Proto: e.Proto})
		}
	}
}

func setupSteps(steps [3]pool.Step) (out [3]metrics.SetupStep) {
	for i, s := range steps {
		out[i] = metrics.SetupStep(s)
	}
	return out
}

// dialError is the error type of a dial, the same that its attempt would have.
func dialError(e pool.Event) metrics.ErrorType {
	if e.Err == nil {
		return metrics.NoError
	}
	reason, ok := networkReason(e.Err)
	if !ok {
		reason = dialReason(e.Step)
	}
	return errorType(reason, 0)
}

// observeState has metrics ask for the upstream's state at each collection.
func (k *core) observeState() (stop func()) {
	return k.meter.Observe(func(o *metrics.Observation) {
		up := k.current()
		if up == nil {
			return
		}
		now := time.Now()
		open, _ := k.client.calls.state(up, now)
		o.Calls(open)
		if up.budget != nil {
			o.RetryBudget(up.budget.Left(now))
		}
		if up.limit != nil {
			s := up.limit.slots.Stats()
			o.Limit(s.Limit, s.Waiting)
		}
		if part, limited := k.portUtilization(); limited {
			o.Ports(part)
		}
		k.observeEndpoints(o, now)
	})
}

type endpointState struct{ side, state string }

// observeEndpoints counts the endpoints that may get attempts. One without a base belongs to the side that this process is on.
func (k *core) observeEndpoints(o *metrics.Observation, now time.Time) {
	states := make(map[endpointState]int)
	for _, cl := range k.places.Load().clusters() {
		seats := cl.seatStats(now)
		for _, ep := range cl.endpoints() {
			s := ep.stats(seats[ep.seat], ep.origin.roleOf(ep), now)
			if ep.pool != nil {
				o.Connections(ep.meter, s.Active, s.Idle)
			}
			if ep.origin.roleOf(ep) == serving {
				states[endpointState{orDefault(ep.tier, k.client.side).String(), s.State}]++
			}
		}
	}
	for s, n := range states {
		o.Endpoints(s.side, s.state, n)
	}
}

// ejected counts an ejection.
func (k *core) ejected(balance.Ejection) { k.meter.BreakerChanged("ejected") }

// retryReason is why a retry is made, in the words of sortie.retry.attempts.
func retryReason(f *failure) string {
	if f == nil {
		return "status"
	}
	switch f.reason {
	case ReasonDNS, ReasonConnectRefused, ReasonConnectTimeout, ReasonConnectFailed, ReasonTLS:
		return "connect"
	case ReasonConnectionLost, ReasonRemoteReset, ReasonStreamRefused:
		return "reset"
	case ReasonAttemptTimeout:
		return "timeout"
	}
	return "other"
}

// retryOutcome is how it went.
func retryOutcome(good bool) string {
	if good {
		return "ok"
	}
	return "failed"
}
